package environment

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// ServiceProvider is a Provider whose environments can have services: further containers that start
// with the environment, share networks with it, and end with it. Without it, tasks whose
// docker-compose.yaml has several services are refused.
type ServiceProvider interface {
	// CreateWithServices is CreateEnvironment with services. It starts each service when those that
	// it depends on are as its conditions say, and returns when the environment and all services
	// run, and those with a health check are healthy; a service that has ended with exit code 0 is
	// no failure. It publishes no ports on the machine. Services find each other, and the
	// environment, by name. If it fails, nothing is left, after Services.Log was called with the
	// logs.
	//
	// The environment is a ServiceHost. Its Stop and Destroy end the services; List has one entry
	// for all.
	//
	// Fails with KindStart if a service does not start, ends, or does not become healthy: the error
	// names it, and Output is the end of its log.
	CreateWithServices(ctx context.Context, opts CreateOptions, s Services) (Environment, error)
}

// ServiceChecker is a ServiceProvider that cannot run all services. Without it, CreateWithServices
// tells.
type ServiceChecker interface {
	// CheckServices returns the error with which CreateWithServices fails whenever it gets these
	// services, whose images need not be known, or nil. It creates nothing.
	CheckServices(s Services) error
}

// ServiceHost is an Environment with services.
type ServiceHost interface {
	// Service returns the environment of a service. Only its Exec and CopyFrom may be called; Exec
	// needs bash there. ok is false if there is no such service.
	Service(name string) (env Environment, ok bool)
	// ServiceLogs calls log with the output of each service so far, one after the other. The output
	// of large logs begins somewhere.
	ServiceLogs(ctx context.Context, log ServiceLog) error
	// StopMain ends all processes of the environment's own container for good. The services go on,
	// except that those which share its network devices may lose their network. When it returns
	// nil, no such process is left, and none can begin: Exec fails with KindLost. It may be called
	// twice, and is no end of the environment: Service and ServiceLogs go on, and Stop keeps its
	// files. Nothing else but ID, Cost and Destroy may be called afterwards.
	StopMain(ctx context.Context) error
}

// StopMain calls env's StopMain, with the retries of its provider's Retry. errors.ErrUnsupported is
// in the chain if env is no ServiceHost.
func StopMain(ctx context.Context, env Environment) error {
	host, ok := As[ServiceHost](env)
	if !ok {
		return unsupported("stop the container of an environment and not its services")
	}
	return policyOf(env).do(ctx, "stop", func() error { return host.StopMain(ctx) })
}

// ServiceLog reads what a service has printed.
type ServiceLog func(service string, output io.Reader)

// CreateWithServices returns p's CreateWithServices, with the retries of p's Retry, which the new
// environment has, too. errors.ErrUnsupported is in the chain if p is no ServiceProvider.
func CreateWithServices(ctx context.Context, p Provider, opts CreateOptions, s Services) (env Environment, err error) {
	provider, ok := As[ServiceProvider](p)
	if !ok {
		return nil, &Error{
			Kind: KindStart, Err: unsupported(fmt.Sprintf("run services (%s)", strings.Join(s.Names(), ", "))),
			Hint: "use a provider that can, such as docker or kubernetes, or leave the task out: exclude_tasks in the job",
		}
	}
	policy := policyOf(p)
	err = policy.do(ctx, "create", func() error {
		env, err = provider.CreateWithServices(ctx, opts, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	return retryEnvironment{env, policy}, nil
}

// MainService is the name of the environment's own container among services.
const MainService = "main"

// Services describe an environment's services.
type Services struct {
	// Main has the settings of the environment's own container. Its Image, Env and Limits are not
	// used: CreateOptions has them. If Entrypoint is not nil, the image's does not run. If Command
	// is not nil, it runs once the environment has started; the environment lives on when it ends.
	Main     Service
	Others   []Service // in the order of names
	Networks []ServiceNetwork
	Volumes  []string // names
	// Isolated: no phase of the trial has a public network, so that no service has one.
	Isolated bool
	// Log, if not nil, is called with the logs if the creation fails.
	Log ServiceLog
}

// Names returns the names of the services other than main.
func (s Services) Names() []string {
	names := make([]string, len(s.Others))
	for i, other := range s.Others {
		names[i] = other.Name
	}
	return names
}

// Service describes one container.
type Service struct {
	Name                string
	Image               string
	Entrypoint, Command []string // nil: the image's
	Env                 map[string]string
	WorkDir, User       string // "": the image's
	// Healthcheck replaces the image's. Unchecked: there is none.
	Healthcheck *Healthcheck
	Unchecked   bool
	DependsOn   []Dependency
	// Networks are its networks, by name; nil: none. NetworkOf is a service whose network devices
	// it shares instead.
	Networks  map[string]Endpoint
	NetworkOf string
	Ports     []string // that its description names, as 80/tcp; it may listen on others
	Mounts    []ServiceMount
	Tmpfs     []string
	Files     []Copy   // before it starts
	Limits    Limits   // each at most the environment's; 0: the environment's
	Hosts     []string // name:address
	Hostname  string
	Restart   bool // when it ends with another exit code than 0
	Init      bool
	Terminal  bool
	ReadOnly  bool
	// CapDrop and CapAdd are capabilities. CapAdd has none but those that containers have by
	// default.
	CapDrop, CapAdd []string
	NoNewPrivileges bool
	SharedMemory    int64 // bytes; 0: the default
	StopSignal      string
}

// Endpoint is a place in a network.
type Endpoint struct {
	Aliases []string // further names, besides the service's
}

// Dependency is a service that has to be in a state before another one starts.
type Dependency struct {
	Service   string
	Condition Condition
	Optional  bool // a failure does not count
}

// Condition is a state of a service.
type Condition string

// The conditions. Source: Compose specification, "depends_on".
const (
	ServiceStarted   Condition = "service_started"
	ServiceHealthy   Condition = "service_healthy"
	ServiceCompleted Condition = "service_completed_successfully"
)

// ServiceNetwork is a network of an environment with services.
type ServiceNetwork struct {
	Name     string
	Internal bool // reaches nothing else
}

// ServiceMount is a volume in a container.
type ServiceMount struct {
	Volume   string // one of Services.Volumes; "": a new one
	Target   string
	ReadOnly bool
}

// MaxServices is the most services of an environment.
const MaxServices = 20
