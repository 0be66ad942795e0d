package flags

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/reporters"
)

// Report are the flags of every command that ends with a report: run, resume, merge, verify and
// report.
type Report struct {
	baseline, history string
	stored            Stored
	Files             Files
	github, comment   string
	gate              Gate
	changed           func(string) bool
}

// Add adds the flags, with those of the formats of reports.
func (f *Report) Add(cmd *cobra.Command, formats reporters.Table) {
	Grouped(cmd, ForReports, func(flags *pflag.FlagSet) {
		f.changed = flags.Changed
		flags.StringVar(&f.baseline, "baseline", reporting.BaselineNone, "compare with a job's directory or result.json, with the URL of one (https, s3), with github: or github:BRANCH (the last results on that branch), with github:BRANCH:RUN (those of one run), or with none")
		f.stored.Add(cmd)
		flags.StringVar(&f.history, "history", "", "show the job among earlier ones in the page, the job summary and the comment: a file that rollout history add writes, or github:[BRANCH]")
		f.Files.Add(flags, formats, true)
		flags.StringVar(&f.github, "github", "auto", "write the job summary, annotations and outputs of a GitHub workflow: auto (in a workflow), on or off")
		flags.StringVar(&f.comment, "comment", "off", "comment on the pull request (needs GITHUB_TOKEN), or on the merge request in GitLab CI (needs GITLAB_TOKEN): off, always, changes or failures")
		f.gate.Add(cmd)
		Wants(flags, "baseline", "none compares with nothing")
		Wants(flags, "github", "want auto, on or off")
		Wants(flags, "comment", "want off, always, changes or failures")
	})
}

// Options returns what the flags ask for, and the name of the report to print; "" is none.
func (f *Report) Options() (opts reporting.ReportOptions, printed string, err error) {
	given := func(flag, value string) string {
		if !f.changed(flag) {
			return ""
		}
		return value
	}
	opts = reporting.ReportOptions{
		Baseline: given("baseline", f.baseline), Stored: f.stored.At(f.changed), History: f.history,
		Options: f.Files.options,
		GitHub:  given("github", f.github), Comment: given("comment", f.comment), Gate: f.gate.Overrides(),
	}
	opts.Files, printed, err = f.Files.Parse()
	return opts, printed, err
}

// Stored are the flags that say where on GitHub the results of a branch are.
type Stored struct{ workflow, artifact string }

// Add adds the flags.
func (f *Stored) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.artifact, "baseline-artifact", reporting.DefaultBaselineArtifact, "with github: the artifact with the branch's result.json")
	cmd.Flags().StringVar(&f.workflow, "baseline-workflow", "", "with github: the file of the workflow whose runs left it, such as nightly.yml (default: this run's)")
}

// At returns where the results are. changed reports whether a flag was given.
func (f *Stored) At(changed func(string) bool) reporting.StoredAt {
	at := reporting.StoredAt{Workflow: f.workflow}
	if changed("baseline-artifact") {
		at.Artifact = f.artifact
	}
	return at
}

// The formats that several commands print.
const (
	FormatText = "text" // the summary for terminals
	FormatJSON = "json"
)
