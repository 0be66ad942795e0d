package flags

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/config"
)

// Job are the flags that change a job file's keys.
type Job struct {
	agents, tasks, excluded, sets []string
	attempts, concurrent          int
	Name, jobsDir, envType        string
	datasets, metadata            []string
	nTasks, sampleSeed            int
	envFiles                      []string
	changed                       func(string) bool
}

// Add adds the flags for a new job.
func (f *Job) Add(cmd *cobra.Command) {
	Grouped(cmd, ForSelection, func(flags *pflag.FlagSet) {
		flags.StringArrayVarP(&f.agents, "agent", "a", nil, "run only this agent of the job file, or oracle or nop (repeatable)")
		flags.StringArrayVar(&f.tasks, "task", nil, "run only tasks whose name matches this glob (repeatable)")
		flags.StringArrayVar(&f.excluded, "exclude-task", nil, "leave out tasks whose name matches this glob (repeatable)")
	})
	f.AddScheduling(cmd)
	Grouped(cmd, ForRunning, func(flags *pflag.FlagSet) {
		flags.StringVar(&f.Name, "name", "", "the name of the job and of its directory; {date}, {commit} and {run} are placeholders")
		flags.StringVar(&f.jobsDir, "jobs-dir", "", "the directory in which the job's directory is made")
		flags.StringVar(&f.envType, "env-type", "", "the provider to run on")
	})
}

// AddSelection adds the flags that select trials and the provider, for a command that leaves no
// job.
func (f *Job) AddSelection(cmd *cobra.Command) {
	Grouped(cmd, ForSelection, func(flags *pflag.FlagSet) {
		flags.StringArrayVarP(&f.agents, "agent", "a", nil, "the agent of the job file, or oracle or nop")
		flags.StringArrayVar(&f.tasks, "task", nil, "the task of the job file, by a glob of its name")
		flags.StringArrayVar(&f.datasets, "dataset", nil, "only tasks of datasets whose name matches this glob")
		flags.StringVar(&f.envType, "env-type", "", "the provider to run on")
		flags.StringArrayVar(&f.sets, "set", nil, "set any key, as in environment.override_cpus=2 (repeatable)")
		flags.StringArrayVar(&f.envFiles, "env-file", nil, "read variables for the job file from this file of NAME=value lines; those of the environment win (repeatable)")
		f.changed = flags.Changed
	})
}

// AddScheduling adds the flags that also a job that is there already can be given.
func (f *Job) AddScheduling(cmd *cobra.Command) {
	Grouped(cmd, ForSelection, func(flags *pflag.FlagSet) {
		flags.StringArrayVar(&f.datasets, "dataset", nil, "run only datasets whose name matches this glob (repeatable)")
		flags.StringArrayVar(&f.metadata, "metadata", nil, "run only tasks of datasets with KEY=VALUE in [metadata] of task.toml (repeatable)")
		flags.IntVarP(&f.nTasks, "n-tasks", "l", 0, "run only a sample of so many tasks of each dataset")
		flags.IntVar(&f.sampleSeed, "sample-seed", 0, "which sample --n-tasks takes")
		flags.IntVar(&f.attempts, "n-attempts", 0, "attempts per agent and task")
		flags.StringArrayVar(&f.sets, "set", nil, "set any key, as in environment.override_cpus=2 (repeatable)")
		flags.StringArrayVar(&f.envFiles, "env-file", nil, "read variables for the job file from this file of NAME=value lines; those of the environment win (repeatable)")
	})
	Grouped(cmd, ForRunning, func(flags *pflag.FlagSet) { flags.IntVar(&f.concurrent, "n-concurrent", 0, "trials at a time") })
	f.changed = cmd.Flags().Changed
}

// AddNext adds the flags of a command that makes a new job from one that exists. suffix is what the
// new one's name ends in by default.
func (f *Job) AddNext(cmd *cobra.Command, suffix string) {
	flags := cmd.Flags()
	flags.StringVar(&f.Name, "name", "", "the name of the new job and of its directory (default: the old one's with "+suffix+")")
	flags.IntVar(&f.concurrent, "n-concurrent", 0, "trials at a time")
	flags.StringArrayVar(&f.envFiles, "env-file", nil, "read variables for the job file from this file of NAME=value lines; those of the environment win (repeatable)")
	f.changed = func(name string) bool { return name != "name" && flags.Changed(name) } // the old job keeps its name
}

// Request returns the job that a file and the flags ask for.
func (f *Job) Request(file string) (stages.JobRequest, error) {
	req := stages.JobRequest{File: file, Agents: f.agents, Selection: f.selection(), EnvFiles: f.envFiles}
	add := func(flag, path string, value any) {
		if f.changed(flag) {
			req.Overrides = append(req.Overrides, config.Override{Path: path, Literal: value, Origin: "--" + flag})
		}
	}
	add("n-attempts", "n_attempts", f.attempts)
	add("n-concurrent", "n_concurrent_trials", f.concurrent)
	add("name", "name", f.Name)
	add("jobs-dir", "jobs_dir", f.jobsDir)
	add("env-type", "environment.type", f.envType)
	add("task", "include_tasks", f.tasks)
	add("exclude-task", "exclude_tasks", f.excluded)
	for _, set := range f.sets {
		override, err := stages.ParseSet(set)
		if err != nil {
			return req, err
		}
		req.Sets = append(req.Sets, override)
	}
	return req, nil
}

// Describing returns the arguments that describe the job of a command line: those in args and the
// flags, without the name of the job, a selection of tasks and what one run does with the job. It
// returns nil if stdin has the job.
func Describing(cmd *cobra.Command, args []string) []string {
	if slices.Contains(args, "-") {
		return nil
	}
	out := slices.Clone(args)
	cmd.Flags().Visit(func(f *pflag.Flag) {
		describes := slices.Contains([]string{ForSelection, ForTasks, ForGate}, HeadingOf(f)) || slices.Contains([]string{"env-type", "jobs-dir", "n-concurrent"}, f.Name)
		if !describes || slices.Contains([]string{"task", "exclude-task", "n-tasks", "sample-seed", "changed"}, f.Name) {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			out = append(out, "--"+f.Name+"="+value)
		}
	})
	return out
}

// selection returns what the flags say about datasets.
func (f *Job) selection() config.Selection {
	s := config.Selection{Datasets: f.datasets, Metadata: f.metadata}
	if f.changed("n-tasks") {
		s.NTasks = &f.nTasks
	}
	if f.changed("sample-seed") {
		s.Seed = &f.sampleSeed
	}
	return s
}

// View are the flags that say how a running job is shown.
type View struct {
	Format  string
	changed func(string) bool
}

// Add adds the flags.
func (f *View) Add(cmd *cobra.Command) {
	Grouped(cmd, ForRunning, func(flags *pflag.FlagSet) {
		flags.StringVar(&f.Format, "log-format", "auto", "how progress is shown: auto, live, plain or json")
		Wants(flags, "log-format", "want auto, live, plain or json")
		f.changed = flags.Changed
	})
}

// Given returns the format if it was given, else "".
func (f *View) Given() string {
	if !f.changed("log-format") {
		return ""
	}
	return f.Format
}

// Rerun are the flags that say what of a job that is there already is run again.
type Rerun struct {
	retryErrors []string
	onlyFailed  bool
	trials      []string
}

// Add adds the flags. when begins their descriptions: where they mean something.
func (f *Rerun) Add(cmd *cobra.Command, when string) {
	Grouped(cmd, ForExisting, func(flags *pflag.FlagSet) {
		flags.StringSliceVar(&f.retryErrors, "retry-errors", nil, when+"also run trials again that ended with these error types, such as agent_execution_timeout, or with any (all)")
		flags.StringArrayVar(&f.trials, "rerun", nil, when+"also run trials again that this glob names as AGENT/TASK or AGENT/DATASET/TASK, with __N one attempt, with any result (repeatable)")
		flags.BoolVar(&f.onlyFailed, "only-failed", false, when+"run only failed trials again; leave out trials that never ran or were interrupted")
	})
}

// Request returns what the flags ask for.
func (f *Rerun) Request() stages.RerunRequest {
	return stages.RerunRequest{RetryErrors: f.retryErrors, OnlyFailed: f.onlyFailed, Trials: f.trials}
}

// Budget are the flags that win over the keys of budget in a job file.
type Budget struct {
	cost, duration string
	changed        func(string) bool
}

// Add adds the flags.
func (f *Budget) Add(cmd *cobra.Command) {
	Grouped(cmd, ForRunning, func(flags *pflag.FlagSet) {
		flags.StringVar(&f.cost, "budget-cost-usd", "", "start no more trials once they have cost so many US dollars together, and give agents that run no more turns of their models (budget.max_cost_usd; --max-cost-usd only judges)")
		flags.StringVar(&f.duration, "budget-duration", "", "stop after this time, as in 90m, and cancel what runs then (budget.max_duration; --max-duration-sec only judges)")
		for _, name := range []string{"budget-cost-usd", "budget-duration"} {
			Wants(flags, name, "leave it out for what the job file says, or write null for no limit")
		}
		f.changed = flags.Changed
	})
}

// AddTo adds the keys of the job file that the flags set.
func (f *Budget) AddTo(req *stages.JobRequest) {
	if f.changed("budget-cost-usd") {
		req.Overrides = append(req.Overrides, stages.BudgetCost(f.cost))
	}
	if f.changed("budget-duration") {
		req.Overrides = append(req.Overrides, stages.BudgetDuration(f.duration))
	}
}

// AddFailFast adds --fail-fast.
func AddFailFast(cmd *cobra.Command, failFast *bool) {
	Grouped(cmd, ForRunning, func(flags *pflag.FlagSet) {
		flags.BoolVar(failFast, "fail-fast", false, "start no more trials after the first one that does not pass: an error, or a reward below 1; not for nop and tasks in quarantine")
	})
}

// AddJobFile adds --job-file, for a job that exists.
func AddJobFile(cmd *cobra.Command, path *string) {
	Grouped(cmd, ForExisting, func(flags *pflag.FlagSet) {
		flags.StringVar(path, "job-file", "", "read the job from this file instead of its config.json (use it if the job directory moved)")
	})
}

// AddTimings adds --timings.
func AddTimings(cmd *cobra.Command, path *string) {
	Grouped(cmd, ForRunning, func(flags *pflag.FlagSet) {
		flags.StringVar(path, "timings", "", "balance shards by the durations in an earlier job's directory or result.json; the same for all shards")
	})
}
