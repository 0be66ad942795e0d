package fly

// The objects of the Machines API, as far as they are used, with the names of its documentation.
// Source: https://fly.io/docs/machines/api/machines-resource/ and, for exec, the specification at
// https://docs.machines.dev.

type createAppRequest struct {
	AppName string `json:"app_name"`
	OrgSlug string `json:"org_slug"`
}

type app struct {
	Name string `json:"name"`
}

type listAppsResponse struct {
	TotalApps int   `json:"total_apps"`
	Apps      []app `json:"apps"`
}

type createMachineRequest struct {
	Name   string        `json:"name"`
	Region string        `json:"region,omitempty"`
	Config machineConfig `json:"config"`
}

type machineConfig struct {
	Image       string            `json:"image"`
	AutoDestroy bool              `json:"auto_destroy"`
	Guest       *machineGuest     `json:"guest,omitempty"`
	Init        machineInit       `json:"init"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	Restart     machineRestart    `json:"restart"`
}

type machineGuest struct {
	CPUKind  string `json:"cpu_kind"`
	CPUs     int    `json:"cpus"`
	MemoryMB int    `json:"memory_mb"`
}

type machineInit struct {
	Exec []string `json:"exec,omitempty"`
}

type machineRestart struct {
	Policy string `json:"policy"`
}

type machine struct {
	ID         string         `json:"id"`
	Name       string         `json:"name"`
	State      string         `json:"state"`
	Region     string         `json:"region"`
	InstanceID string         `json:"instance_id"`
	Config     machineConfig  `json:"config"`
	Events     []machineEvent `json:"events"`
}

type machineEvent struct {
	Type    string        `json:"type"`
	Status  string        `json:"status"`
	Request *eventRequest `json:"request,omitempty"`
}

type eventRequest struct {
	ExitEvent *exitEvent `json:"exit_event,omitempty"`
}

type exitEvent struct {
	ExitCode  int  `json:"exit_code"`
	OOMKilled bool `json:"oom_killed"`
}

// The states of a machine. Source: https://fly.io/docs/machines/machine-states/.
const (
	stateStarted    = "started"
	stateDestroying = "destroying"
	stateDestroyed  = "destroyed"
)

type execRequest struct {
	Command []string `json:"command"`
	Stdin   string   `json:"stdin,omitempty"`
	Timeout int      `json:"timeout"` // seconds
}

type execResponse struct {
	ExitCode int    `json:"exit_code"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
}

type metadataValue struct {
	Value string `json:"value"`
}

// networkPolicy is one of https://fly.io/docs/machines/guides-examples/network-policies/.
type networkPolicy struct {
	ID       string         `json:"id,omitempty"`
	Name     string         `json:"name"`
	Selector policySelector `json:"selector"`
	Rules    []policyRule   `json:"rules"`
}

type policySelector struct {
	Metadata map[string]string `json:"metadata"`
}

type policyRule struct {
	Action    string       `json:"action"`
	Direction string       `json:"direction"`
	Ports     []policyPort `json:"ports"`
}

type policyPort struct {
	Protocol string `json:"protocol"`
	Port     int    `json:"port"`
}
