package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/reporters/provereport"
)

// proveFlags are the flags of validate that are about running tasks.
type proveFlags struct {
	run                     bool
	runs, nopRuns           int
	offline                 bool
	since, shard            string
	format                  string
	junit, markdown, asJSON string
	github                  string
	given                   func(string) bool
	notes                   []string // for people, about what the flags came to
}

// onlyWithRun are the flags that mean nothing where nothing is run.
var onlyWithRun = []string{"runs", "nop-runs", "offline", "changed", "shard", "junit", "markdown", "report-json", "github", "log-format"}

func (f *proveFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.given = flags.Changed
	flags.BoolVar(&f.run, "run", false, "prove the tasks: run their solutions, and nothing at all, and see what that scores")
	flags.IntVar(&f.runs, "runs", 3, "how often the solution of each task is run")
	flags.IntVar(&f.nopRuns, "nop-runs", 1, "how often each task is run without doing anything")
	flags.BoolVar(&f.offline, "offline", false, "run each solution once more without any network, and say which tasks need one")
	flags.StringVar(&f.since, "changed", "", "only tasks with files that changed since this commit, branch or tag, committed or not")
	flags.StringVar(&f.shard, "shard", "", "only this part of the tasks, as in 2/4")
	flags.StringVar(&f.format, "format", formatText, "what is printed: text, "+strings.Join(slices.Sorted(maps.Keys(provereport.Formats)), ", ")+"; without --run text or json")
	flags.StringVar(&f.junit, "junit", "", "write a JUnit XML report to this file")
	flags.StringVar(&f.markdown, "markdown", "", "write a Markdown report to this file")
	flags.StringVar(&f.asJSON, "report-json", "", "write the machine-readable report to this file")
	flags.StringVar(&f.github, "github", "auto", "write the job summary, annotations and outputs of a GitHub workflow: auto (in a workflow), on or off")
}

// check refuses flags that mean nothing together.
func (f *proveFlags) check(job jobFlags) error {
	for _, flag := range []string{"agent", "n-attempts"} {
		if job.changed(flag) {
			return usage("--%s has no meaning with --run, which runs oracle and nop: see --runs and --nop-runs", flag)
		}
	}
	if f.runs < 1 || f.nopRuns < 1 {
		return usage("--runs and --nop-runs want at least 1")
	}
	if f.since == "" && f.given("changed") {
		return usage("--changed has no value: name a commit, branch or tag, or leave it out")
	}
	if _, ok := provereport.Formats[f.format]; !ok && f.format != formatText {
		return usage("--format %s: want text, %s", f.format, strings.Join(slices.Sorted(maps.Keys(provereport.Formats)), ", "))
	}
	return (&reportFlags{github: f.github, comment: "off", gate: gateFlags{changed: func(string) bool { return false }}, changed: f.given}).check()
}

// needRun refuses flags of validate --run without --run.
func (f *proveFlags) needRun() error {
	for _, flag := range onlyWithRun {
		if f.given(flag) {
			return usage("--%s is for tasks that are run: it needs --run", flag)
		}
	}
	if f.format != formatText && f.format != formatJSON {
		return usage("--format %s without --run: want text or json", clean(f.format))
	}
	return nil
}
