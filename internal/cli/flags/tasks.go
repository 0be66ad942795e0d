package flags

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/cli/command"
)

// Tasks are the flags that describe a job without a job file: its tasks, and an agent.
type Tasks struct {
	paths            []string
	registry, format string
	own              stages.OwnAgent
}

// Add adds the flags.
func (f *Tasks) Add(cmd *cobra.Command) {
	Grouped(cmd, ForTasks, func(flags *pflag.FlagSet) {
		flags.StringArrayVarP(&f.paths, "path", "p", nil, "without a job file: a directory of tasks or of one task, as the arguments are (repeatable)")
		flags.StringVar(&f.registry, "registry", "", "without a job file: the registry (path or URL) of the datasets that the arguments name, as NAME or NAME@VERSION")
		flags.StringVar(&f.format, "task-format", "", "without a job file: whose rules the tasks follow: rollout (the default) or harbor")
		flags.StringArrayVar(&f.own.Files, "files", nil, "without a job file: files of the agent, as agents[].files has them (repeatable)")
		flags.StringVar(&f.own.Install, "install", "", "without a job file: the bash script that installs the agent")
		flags.StringVar(&f.own.Execute, "execute", "", "without a job file: the bash script that runs the agent")
		flags.StringArrayVar(&f.own.Env, "agent-env", nil, "without a job file: a variable of the agent, as NAME=VALUE, or NAME to pass on that of this environment (repeatable)")
		flags.BoolVar(&f.own.CacheInstall, "cache-install", false, "without a job file: run install once per image")
		Wants(flags, "task-format", "want rollout or harbor")
	})
}

// Set adds what the flags say to a request. The arguments are a job file, or what has tasks.
func (f *Tasks) Set(req *stages.JobRequest, args []string) error {
	targets := slices.Concat(args, f.paths)
	if len(targets) == 0 {
		return command.Usagef("name a job file, or a directory of tasks")
	}
	req.File, req.More, req.Registry, req.TaskFormat, req.Own = targets[0], targets[1:], f.registry, f.format, f.own
	return nil
}
