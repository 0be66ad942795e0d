package cli

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/inspect"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/flags"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/output/export"
)

// completion returns the values that a shell may complete. cmd has parsed flags, args are the
// arguments so far.
type completion func(v *command.Invocation, cmd *cobra.Command, args []string) []string

// flagValues has the completions of flags, by name. They are those of every command with the flag.
var flagValues = map[string]completion{
	"env-type":     func(v *command.Invocation, _ *cobra.Command, _ []string) []string { return v.Host().Providers.Names() },
	"agent":        ofJob(func(n app.JobNames) []string { return n.Agents }),
	"task":         ofJob(func(n app.JobNames) []string { return n.Tasks }),
	"exclude-task": ofJob(func(n app.JobNames) []string { return n.Tasks }),
	"dataset":      ofJob(func(n app.JobNames) []string { return n.Datasets }),
	"log-format":   fixed("auto", "live", "plain", "json"),
	"task-format":  fixed("rollout", "harbor"),
	"github":       fixed("auto", "on", "off"),
	"comment":      fixed("off", "always", "changes", "failures"),
	"reuse":        jobDirs,
	"baseline":     jobDirs,
	"timings":      jobDirs,
	"rerun":        rerunNames,
	"report":       reportNames,
}

// formatValues returns the values of --format of a command.
func formatValues(v *command.Invocation, command string) []string {
	switch command {
	case "export":
		return export.Formats
	case "validate":
		return append([]string{flags.FormatText}, v.Reporters.Proofs().Names()...)
	case "report":
		return append([]string{flags.FormatText}, v.Reporters.Names()...)
	case "check":
		return []string{flags.FormatText, "json"}
	}
	return nil
}

// reportNames completes the names of reports up to their files.
func reportNames(v *command.Invocation, cmd *cobra.Command, _ []string) []string {
	formats := v.Reporters
	if cmd.Name() == "validate" {
		formats = formats.Proofs()
	}
	var names []string
	for _, name := range formats.Names() {
		names = append(names, name, name+"=")
	}
	return names
}

// takesJobs are the commands whose arguments are jobs, with the number of them; 0: any.
var takesJobs = map[string]int{"show": 1, "report": 1, "resume": 1, "export": 1, "diff": 2, "compare": 0, "merge": 0, "verify": 1, "rejudge": 1}

func fixed(values ...string) completion {
	return func(*command.Invocation, *cobra.Command, []string) []string { return values }
}

// ofJob completes names of the job file that the arguments name, or of job.yaml.
func ofJob(names func(app.JobNames) []string) completion {
	return func(v *command.Invocation, _ *cobra.Command, args []string) []string {
		file := "job.yaml"
		if len(args) > 0 {
			file = args[0]
		}
		return names(app.NamesOf(v.Host(), file))
	}
}

// jobDirs completes the directories of jobs where jobs are by default.
func jobDirs(v *command.Invocation, _ *cobra.Command, _ []string) []string {
	return inspect.JobDirs(v.Host().Paths, host.JobsDir)
}

// rerunNames completes what --rerun may name in the job that the arguments name: by its directory,
// or for run by its job file.
func rerunNames(v *command.Invocation, cmd *cobra.Command, args []string) []string {
	if cmd.Name() != "run" {
		if len(args) == 0 {
			return nil
		}
		return inspect.RerunNames(v.Host().Paths, args[0])
	}
	req := stages.JobRequest{File: "job.yaml"}
	if len(args) > 0 {
		req.File = args[0]
	}
	for flag, key := range map[string]string{"name": "name", "jobs-dir": "jobs_dir"} {
		if value, err := cmd.Flags().GetString(flag); err == nil && cmd.Flags().Changed(flag) {
			req.Overrides = append(req.Overrides, config.Override{Path: key, Literal: value, Origin: "--" + flag})
		}
	}
	return inspect.RerunNames(v.Host().Paths, app.JobDir(v.Host(), req))
}

// completeValues registers the completions with all commands below cmd.
func completeValues(v *command.Invocation, cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		completeValues(v, c)
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		values, ok := flagValues[f.Name]
		if formats := formatValues(v, cmd.Name()); f.Name == "format" && formats != nil {
			values, ok = fixed(formats...), true
		}
		if !ok {
			return
		}
		// A command may have registered its own, which stays.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			return completed(values(v, cmd, args), prefix)
		})
	})
	most, ok := takesJobs[cmd.Name()]
	if !ok || cmd.HasParent() && cmd.Parent().HasParent() { // "datasets show" is another one
		return
	}
	own := cmd.ValidArgsFunction
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		switch {
		case most == 0 || len(args) < most:
			given := func(dir string) bool { return slices.Contains(args, dir) }
			return completed(slices.DeleteFunc(jobDirs(v, cmd, args), given), prefix)
		case own != nil:
			return own(cmd, args, prefix)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// maxCompleted is how many values a shell is offered.
const maxCompleted = 1000

// completed returns the values that begin with the prefix, at most maxCompleted. If none does, the
// shell completes files.
func completed(values []string, prefix string) ([]string, cobra.ShellCompDirective) {
	values = slices.DeleteFunc(slices.Clone(values), func(value string) bool {
		return !strings.HasPrefix(value, strings.TrimPrefix(prefix, "."+string(os.PathSeparator)))
	})
	if len(values) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return values[:min(len(values), maxCompleted)], cobra.ShellCompDirectiveNoFileComp
}
