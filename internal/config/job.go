package config

import "github.com/org/rollout-action/internal/agent"

// Job is a job.yaml with every default filled in. Its JSON form is config.json: placeholders in
// agents[].env are kept. Source: specification, "Job". Sizes are bytes, CPUs thousandths of one.
type Job struct {
	Name              string        `yaml:"name" json:"name"`
	JobsDir           string        `yaml:"jobs_dir" json:"jobs_dir"`
	NAttempts         int           `yaml:"n_attempts" json:"n_attempts"`
	NConcurrentTrials int           `yaml:"n_concurrent_trials" json:"n_concurrent_trials"`
	TimeoutMultiplier float64       `yaml:"timeout_multiplier" json:"timeout_multiplier"`
	Retry             Retry         `yaml:"retry" json:"retry"`
	LogLevel          string        `yaml:"log_level" json:"log_level"`
	InstructionPath   string        `yaml:"instruction_path" json:"instruction_path"`
	MaxStreamSize     Bytes         `yaml:"max_stream_size" json:"max_stream_size"`
	Environment       Environment   `yaml:"environment" json:"environment"`
	Verifier          Verifier      `yaml:"verifier" json:"verifier"`
	Metrics           []Metric      `yaml:"metrics" json:"metrics"`
	Redact            Redact        `yaml:"redact" json:"redact"`
	Agents            []agent.Agent `yaml:"agents" json:"agents"`
	Datasets          []Dataset     `yaml:"datasets" json:"datasets"`
	Tasks             []string      `yaml:"tasks" json:"tasks,omitempty"`
	IncludeTasks      []string      `yaml:"include_tasks" json:"include_tasks,omitempty"`
	ExcludeTasks      []string      `yaml:"exclude_tasks" json:"exclude_tasks,omitempty"`
}

// Retry is how transient infrastructure failures are tried again. MaxAttempts counts the first try.
type Retry struct {
	MaxAttempts    int     `yaml:"max_attempts" json:"max_attempts"`
	InitialDelayMs int     `yaml:"initial_delay_ms" json:"initial_delay_ms"`
	MaxDelayMs     int     `yaml:"max_delay_ms" json:"max_delay_ms"`
	Multiplier     float64 `yaml:"multiplier" json:"multiplier"`
}

// Environment is where trials run. The override fields are null when the task decides.
type Environment struct {
	Type            string         `yaml:"type" json:"type"`
	ForceBuild      bool           `yaml:"force_build" json:"force_build"`
	PreserveEnv     Preserve       `yaml:"preserve_env" json:"preserve_env"`
	ProviderConfig  map[string]any `yaml:"provider_config" json:"provider_config,omitempty"`
	OverrideCPUs    *MilliCPUs     `yaml:"override_cpus" json:"override_cpus,omitempty"`
	OverrideMemory  *Bytes         `yaml:"override_memory" json:"override_memory,omitempty"`
	OverrideStorage *Bytes         `yaml:"override_storage" json:"override_storage,omitempty"`
}

// Preserve says which environments are kept (stopped) after their trial.
type Preserve string

// The values of preserve_env.
const (
	PreserveNever     Preserve = "never"
	PreserveAlways    Preserve = "always"
	PreserveOnFailure Preserve = "on_failure" // an error, or a reward below 1
)

// Verifier is the job's say in verification. 0 seconds means: the task decides, and no ceiling.
type Verifier struct {
	OverrideTimeoutSec float64        `yaml:"override_timeout_sec" json:"override_timeout_sec"`
	MaxTimeoutSec      float64        `yaml:"max_timeout_sec" json:"max_timeout_sec"`
	Disable            bool           `yaml:"disable" json:"disable"`
	OnAgentFailure     OnAgentFailure `yaml:"on_agent_failure" json:"on_agent_failure"`
}

// OnAgentFailure says whether an agent's failure or timeout is verified all the same.
type OnAgentFailure string

// The values of verifier.on_agent_failure.
const (
	SkipVerifier OnAgentFailure = "skip"
	RunVerifier  OnAgentFailure = "run"
)

// Metric is an aggregate over rewards: sum, min, max or mean.
type Metric struct {
	Type string `yaml:"type" json:"type"`
}

// Redact tunes what is hidden in everything written or printed.
type Redact struct {
	Except []string `yaml:"except" json:"except,omitempty"` // variables whose values may be seen
}

// Dataset is a local folder of tasks. Dir is Path resolved from the job file's folder.
type Dataset struct {
	Path string `yaml:"path" json:"path"`
	Name string `yaml:"name" json:"name,omitempty"`
}
