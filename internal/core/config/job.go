package config

import (
	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/judge"
)

// Job is a job.yaml with all defaults filled in. Its JSON form is config.json, which can be loaded
// again as a job file; it keeps the placeholders in agents[].env. Source: specification, "Job".
// Sizes are in bytes, CPUs in thousandths. Load and Schema read the tags; see rules. The tag
// experiment says for which digests a key counts; see Experiment.
type Job struct {
	Name              string           `yaml:"name" json:"name" experiment:"no" doc:"Name of the job and of its directory below jobs_dir. {date} stands for the day (UTC), {commit} for the commit of the job file's repository, {run} for the run of the workflow, or else for the next number. Default: the time, as YYYY-MM-DD__HH-mm-ss."`
	JobsDir           string           `yaml:"jobs_dir" json:"jobs_dir" default:"jobs" experiment:"no" doc:"Directory that receives the job's directory; relative to the current directory."`
	NAttempts         int              `yaml:"n_attempts" json:"n_attempts" default:"1" min:"1" max:"100000" experiment:"resume" doc:"Attempts per agent and task."`
	NConcurrentTrials int              `yaml:"n_concurrent_trials" json:"n_concurrent_trials" default:"4" min:"1" max:"10000" experiment:"no" doc:"How many trials run at the same time."`
	TimeoutMultiplier float64          `yaml:"timeout_multiplier" json:"timeout_multiplier" default:"1.0" above:"0" max:"10000" doc:"Factor for every timeout, of tasks and of this file, for example on slow machines."`
	Retry             Retry            `yaml:"retry" json:"retry" experiment:"no" doc:"How transient failures of the infrastructure are retried. Failures of agents and verifiers are not retried."`
	LogLevel          string           `yaml:"log_level" json:"log_level" default:"warn" enum:"debug,info,warn,error" experiment:"no" doc:"Least important level of Rollout's own messages that is printed. info adds the progress of images, debug every phase; error hides warnings."`
	InstructionPath   string           `yaml:"instruction_path" json:"instruction_path" default:"/tmp/instruction.md" doc:"Absolute path of the task's instruction in the environment; also in $ROLLOUT_TASK_INSTRUCTION."`
	MaxStreamSize     Bytes            `yaml:"max_stream_size" json:"max_stream_size" unit:"bytes" default:"64Mi" min:"1" experiment:"reuse" doc:"How much of each output stream of a script is kept. Of a longer one, the beginning and the end are kept."`
	Artifacts         []string         `yaml:"artifacts" json:"artifacts,omitempty" most:"100" doc:"Absolute paths of files and directories that are copied out of every environment when the agent is done, into the trial's directory artifacts, besides those that the task names. rollout verify --from artifacts puts them into new environments."`
	Environment       Environment      `yaml:"environment" json:"environment" doc:"Where trials run."`
	Verifier          Verifier         `yaml:"verifier" json:"verifier" doc:"How trials are verified."`
	Metrics           []Metric         `yaml:"metrics" json:"metrics" default:"[{type: mean}]" experiment:"no" doc:"Aggregates over the rewards of completed trials, shown while the job runs and in its result."`
	Gate              gate.Policy      `yaml:"gate" json:"gate" experiment:"no" doc:"Conditions for the job to pass."`
	Compare           [][]string       `yaml:"compare" json:"compare,omitempty" most:"50" experiment:"no" doc:"Lists of agents that reports compare in pairs, as compare --agents does: [[with-skill, without-skill]]. They decide nothing; limits do (gate)."`
	Budget            Budget           `yaml:"budget" json:"budget,omitzero" experiment:"no" doc:"The most that the job may cost and take. When the budget is used up, no more trials start, and the job is incomplete."`
	Redact            Redact           `yaml:"redact" json:"redact" experiment:"reuse" doc:"Values that are hidden in everything that Rollout writes and prints."`
	Models            map[string]Model `yaml:"models" json:"models,omitempty" experiment:"resume" doc:"The models that agents can use, by name. Rollout stands between agent and model: the key stays on the host."`
	Agents            []agent.Agent    `yaml:"agents" json:"agents" required:"true" experiment:"resume" doc:"The agents to evaluate."`
	Judges            []judge.Spec     `yaml:"judges" json:"judges,omitempty" most:"20" doc:"Agents that grade the work of the evaluated agents in every trial, in addition to a task's judges."`
	JudgeAgents       []agent.Agent    `yaml:"judge_agents" json:"judge_agents,omitempty" most:"20" experiment:"resume" doc:"Agents that only judge: judges name them, and they are not evaluated. Their keys are those of agents, without model and budget."`
	Reward            string           `yaml:"reward" json:"reward,omitempty" doc:"Expression whose value is the reward of a trial, from 0 to 1, over tests (the reward of the tests), rewards (their named rewards) and scores (those of the judges): 0.7 * tests + 0.3 * scores.quality. Default: that of the task, else tests alone; judges then only measure."`
	Datasets          []Dataset        `yaml:"datasets" json:"datasets,omitempty" experiment:"resume" doc:"Directories of tasks, and datasets of registries. datasets, tasks or both must be given."`
	Tasks             []string         `yaml:"tasks" json:"tasks,omitempty" experiment:"no" doc:"Directories of single tasks, relative to the job file; they form the dataset \"tasks\"."`
	TasksFormat       Format           `yaml:"tasks_format" json:"tasks_format,omitempty" enum:"rollout,harbor" experiment:"no" doc:"Format of the tasks in the tasks list; see datasets[].format. Default: rollout."`
	IncludeTasks      []string         `yaml:"include_tasks" json:"include_tasks,omitempty" experiment:"resume" doc:"Run only tasks whose name matches one of these globs (*, ?, [a-z])."`
	ExcludeTasks      []string         `yaml:"exclude_tasks" json:"exclude_tasks,omitempty" experiment:"resume" doc:"Do not run tasks whose name matches one of these globs."`
	Affects           []Affects        `yaml:"affects" json:"affects,omitempty" most:"1000" experiment:"no" doc:"Which trials a change to files can affect, for --changed. Of each changed file, the first entry with a matching path counts. A file without such an entry affects all trials."`
}

// Retry is the key retry: how transient infrastructure failures are retried. MaxAttempts includes
// the first attempt.
type Retry struct {
	MaxAttempts    int     `yaml:"max_attempts" json:"max_attempts" default:"3" min:"1" max:"100" doc:"Attempts at one operation, the first included."`
	InitialDelayMs int     `yaml:"initial_delay_ms" json:"initial_delay_ms" default:"1000" min:"0" max:"86400000" doc:"Milliseconds before the second attempt."`
	MaxDelayMs     int     `yaml:"max_delay_ms" json:"max_delay_ms" default:"30000" min:"0" max:"86400000" doc:"The longest delay, in milliseconds."`
	Multiplier     float64 `yaml:"multiplier" json:"multiplier" default:"2.0" min:"1" max:"1000" doc:"Factor from one delay to the next."`
	// JudgeAttempts is 0 if the job does not say it; see package trial.
	JudgeAttempts int `yaml:"judge_attempts" json:"judge_attempts,omitempty" min:"1" max:"100" doc:"Attempts of a judge that gives no verdict, the first included. The agent does not run again. Default: 2."`
}

// Environment is the key environment: where trials run. Override fields are null if the task
// decides.
type Environment struct {
	Type            string         `yaml:"type" json:"type" default:"docker" doc:"The provider of environments."`
	ForceBuild      bool           `yaml:"force_build" json:"force_build" default:"false" doc:"Build images again even if they exist, and even if the task names a ready-made one."`
	PreserveEnv     Preserve       `yaml:"preserve_env" json:"preserve_env" default:"never" enum:"never,always,on_failure" experiment:"reuse" doc:"Which environments are kept, stopped, after their trial. on_failure: with an error, or a reward below 1."`
	Keep            Keep           `yaml:"keep" json:"keep,omitempty" default:"none" enum:"none,outcome" experiment:"no" doc:"outcome: the files of every environment are kept as the agent left them, before the tests run. rollout verify runs later tests on them; rollout clean --kept removes them."`
	PassEnv         []string       `yaml:"pass_env" json:"pass_env,omitempty" doc:"Variables of the host that tasks may use in the env tables of their task.toml."`
	ProviderConfig  map[string]any `yaml:"provider_config" json:"provider_config,omitempty" doc:"Settings of the provider in type."`
	OverrideCPUs    *MilliCPUs     `yaml:"override_cpus" json:"override_cpus,omitempty" unit:"cpus" above:"0" doc:"CPUs of every environment, instead of the task's: 2, 0.5 or 500m."`
	OverrideMemory  *Bytes         `yaml:"override_memory" json:"override_memory,omitempty" unit:"bytes" min:"1Mi" mb:"override_memory_mb" doc:"Memory of every environment, instead of the task's: 2G, 512Mi or a number of bytes."`
	OverrideStorage *Bytes         `yaml:"override_storage" json:"override_storage,omitempty" unit:"bytes" min:"1Mi" mb:"override_storage_mb" doc:"Storage of every environment, instead of the task's: 10G, 512Mi or a number of bytes."`
	// Network is empty if the task decides; see trial/networks.
	Network              string   `yaml:"network" json:"network,omitempty" enum:"public,none,allowlist" doc:"The network of every environment, instead of the task's: public (everything), none (nothing), allowlist (allowed_hosts, through a proxy)."`
	AllowedHosts         []string `yaml:"allowed_hosts" json:"allowed_hosts,omitempty" doc:"The hosts that network: allowlist allows: names (pypi.org), all below a name (*.pypi.org), addresses, ranges of them (10.0.0.0/8); with a port, or 80 and 443."`
	NetworkDuringInstall *bool    `yaml:"network_during_install" json:"network_during_install,omitempty" doc:"Whether the network is public while agents are installed; otherwise it is the agent's network. Default: the task decides."`
	NetworkDuringVerify  *bool    `yaml:"network_during_verify" json:"network_during_verify,omitempty" doc:"Whether the network is public while trials are verified; otherwise it is the agent's network. Default: the task decides."`
	// MinFreeDisk applies to the disk of the results and, if the provider reports them, to its
	// disks for images and changes.
	MinFreeDisk Bytes `yaml:"min_free_disk" json:"min_free_disk" unit:"bytes" default:"512Mi" min:"0" experiment:"no" doc:"No trial starts while a disk has less free space than this; the job then ends with an error. 0: no minimum."`
}

// Preserve selects the environments that are kept (stopped) after their trial.
type Preserve string

// The values of preserve_env.
const (
	PreserveNever     Preserve = "never"
	PreserveAlways    Preserve = "always"
	PreserveOnFailure Preserve = "on_failure" // an error, or a reward below 1
)

// Keep selects the parts of an environment that are kept before the tests run.
type Keep string

// The values of keep.
const (
	KeepNone    Keep = "none"
	KeepOutcome Keep = "outcome" // the files, as the agent left them
)

// Verifier is the key verifier. 0 seconds mean that the task decides, or no ceiling.
type Verifier struct {
	OverrideTimeoutSec float64             `yaml:"override_timeout_sec" json:"override_timeout_sec" default:"0" min:"0" max:"100000000" doc:"Seconds a verifier may take, instead of the task's; 0: the task decides."`
	MaxTimeoutSec      float64             `yaml:"max_timeout_sec" json:"max_timeout_sec" default:"0" min:"0" max:"100000000" doc:"Ceiling in seconds for every verifier's timeout; 0: none."`
	Disable            bool                `yaml:"disable" json:"disable" default:"false" doc:"Do not verify: trials have no reward."`
	Environment        VerifierEnvironment `yaml:"environment" json:"environment,omitempty" enum:"task,fresh" doc:"Where the tests run: as the task says (default), which is usually the agent's environment, or in a fresh one of the task's image, to which only artifacts are carried over, so that nothing that the agent left running or replaced can touch its grade."`
	Artifacts          []string            `yaml:"artifacts" json:"artifacts,omitempty" most:"100" doc:"Absolute paths that the tests of all tasks need in a fresh environment, in addition to artifacts and those of the tasks."`
	OnAgentFailure     OnAgentFailure      `yaml:"on_agent_failure" json:"on_agent_failure" default:"skip" enum:"skip,run" doc:"Whether to verify trials whose agent failed or timed out. With run, such a trial counts as completed if it has a reward."`
}

// VerifierEnvironment selects where the tests run; "" is VerifierOfTask.
type VerifierEnvironment string

// The values of verifier.environment.
const (
	VerifierOfTask VerifierEnvironment = "task"
	VerifierFresh  VerifierEnvironment = "fresh"
)

// OnAgentFailure selects whether a trial is verified whose agent failed or timed out.
type OnAgentFailure string

// The values of verifier.on_agent_failure.
const (
	SkipVerifier OnAgentFailure = "skip"
	RunVerifier  OnAgentFailure = "run"
)

// Metric is an aggregate over rewards: sum, min, max or mean.
type Metric struct {
	Type string `yaml:"type" json:"type" required:"true" enum:"sum,min,max,mean" doc:"The aggregate."`
}

// Redact is the key redact: the secrets to hide in all output of Rollout.
type Redact struct {
	Except []string `yaml:"except" json:"except,omitempty" doc:"Variables of the host whose values are not secret."`
}

// Budget is the key budget: the spending limits of the job. nil means no limit.
type Budget struct {
	MaxCostUSD  *float64  `yaml:"max_cost_usd" json:"max_cost_usd,omitempty" above:"0" doc:"No trial starts once the trials of this job have cost so much together, in US dollars. Agents that run then get no more turns of the models in models; trials without such a model go on to their end. Each shard has its share, by the number of its trials."`
	MaxDuration *Duration `yaml:"max_duration" json:"max_duration,omitempty" unit:"duration" above:"0" is:"a duration such as 90m or 1h30m" doc:"How long the job may run, such as 90m. Trials that run then are cancelled. The time between a stop and a resumption does not count. Each shard has all of it."`
}

// Format is the format of tasks; see package task.
type Format string

// The values of datasets[].format and tasks_format.
const (
	FormatRollout Format = "rollout"
	FormatHarbor  Format = "harbor"
)

// Dataset is a directory of tasks, or a dataset of a registry: one of Path and Registry is set.
// Load sets Name; its default is the name of the directory. Format is empty if the job has none:
// package dataset then chooses it. The selection is the same on every machine; see package dataset.
type Dataset struct {
	Path         string         `yaml:"path" json:"path,omitempty" experiment:"no" doc:"Directory of tasks, relative to the job file."`
	Registry     *Registry      `yaml:"registry" json:"registry,omitempty" experiment:"no" doc:"The registry that lists name and version, instead of path."`
	Name         string         `yaml:"name" json:"name,omitempty" doc:"Name of the dataset in results, and in its registry. Default: the directory's name."`
	Version      string         `yaml:"version" json:"version,omitempty" doc:"Version of the dataset in its registry. Default: head, else the highest."`
	Format       Format         `yaml:"format" json:"format,omitempty" enum:"rollout,harbor" experiment:"no" doc:"Format of the tasks. Default: rollout for a path; for a registry its own format, else harbor. With harbor, the verifier's exit code does not count, the verifier also runs after an agent's failure, and more; see docs/tasks.md."`
	Tasks        []string       `yaml:"tasks" json:"tasks,omitempty" doc:"Only the dataset's tasks whose name matches one of these globs (*, ?, [a-z])."`
	ExcludeTasks []string       `yaml:"exclude_tasks" json:"exclude_tasks,omitempty" doc:"None of the dataset's tasks whose name matches one of these globs."`
	Metadata     map[string]any `yaml:"metadata" json:"metadata,omitempty" doc:"Only tasks with these values in [metadata] of their task.toml. Of two lists, one common element is enough."`
	NTasks       int            `yaml:"n_tasks" json:"n_tasks,omitempty" min:"1" max:"1000000" doc:"Size of a random sample of the selected tasks. A larger sample contains the smaller ones."`
	Seed         int            `yaml:"seed" json:"seed,omitempty" doc:"Seed of the sample. Default: 0."`
}

// Registry is the location of a registry: one of Path and URL is set.
type Registry struct {
	Path string `yaml:"path" json:"path,omitempty" doc:"A registry.json, relative to the job file."`
	URL  string `yaml:"url" json:"url,omitempty" doc:"URL of a registry.json: https://… or http://…. Or a repository with a dataset.toml: org/name@ref on GitHub, or git+https://….git@ref."`
}
