// Package agent is who is evaluated: a pair of bash scripts with an environment, or one of the
// reserved agents. It does not know how scripts are run.
package agent

// Agent is one entry of agents in job.yaml. Values of Env keep their ${VAR} placeholders.
// Source: specification, "Agent".
type Agent struct {
	Name        string            `yaml:"name" json:"name"`
	Description string            `yaml:"description" json:"description,omitempty"`
	Install     string            `yaml:"install" json:"install,omitempty"`
	Execute     string            `yaml:"execute" json:"execute,omitempty"`
	Env         map[string]string `yaml:"env" json:"env,omitempty"`
}

// The reserved names. Oracle runs the task's solution; Nop does nothing, so a task on which it
// scores 1 is broken.
const (
	Oracle = "oracle"
	Nop    = "nop"
)

// Reserved reports whether the agent is built in and takes no scripts.
func (a Agent) Reserved() bool { return a.Name == Oracle || a.Name == Nop }
