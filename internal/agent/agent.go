// Package agent defines agents, which are evaluated: a pair of bash scripts with variables, or one of the reserved agents. It
// does not know how scripts are run.
package agent

// Agent is one entry of agents in job.yaml. Values of Env keep their ${VAR} placeholders.
// Source: specification, "Agent".
type Agent struct {
	Name        string `yaml:"name" json:"name" required:"true" doc:"Name of the agent in results. oracle (runs the task's solution) and nop (does nothing) are built in."`
	Description string `yaml:"description" json:"description,omitempty" raw:"true" doc:"What reports call the agent."`
	Install     string `yaml:"install" json:"install,omitempty" raw:"true" doc:"Bash script that installs the agent."`
	Execute     string `yaml:"execute" json:"execute,omitempty" raw:"true" doc:"Bash script that runs the agent on the instruction in the file $ROLLOUT_TASK_INSTRUCTION."`
	// CacheInstall: Install runs once for an image, and all trials with that image start from what it left.
	CacheInstall bool              `yaml:"cache_install" json:"cache_install,omitempty" default:"false" doc:"Run install once per image, and let all trials begin with what it has left. Only for scripts that leave files: processes are not kept."`
	Env          map[string]string `yaml:"env" json:"env,omitempty" doc:"Variables of both scripts. ${VAR} and ${VAR:-default} are taken from the environment of Rollout, $$ is a $."`
}

// The reserved names. Oracle runs the task's solution. Nop does nothing, so a task on which it scores 1 is broken.
const (
	Oracle = "oracle"
	Nop    = "nop"
)

// Reserved reports whether the agent is built in. Such an agent has no scripts.
func (a Agent) Reserved() bool { return a.Name == Oracle || a.Name == Nop }
