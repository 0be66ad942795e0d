package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/reporters"
)

// reportFlags are the flags of every command that ends with a report: run, resume, merge and
// report.
type reportFlags struct {
	baseline, history string
	stored            storedFlags
	files             reportFiles
	github, comment   string
	gate              gateFlags
	changed           func(string) bool
}

func (f *reportFlags) add(cmd *cobra.Command, formats reporters.Table) {
	grouped(cmd, flagsReports, func(flags *pflag.FlagSet) {
		f.changed = flags.Changed
		flags.StringVar(&f.baseline, "baseline", app.BaselineNone, "compare with a job's directory or result.json, with the URL of one (https, s3), with github: or github:BRANCH (the last results on that branch), or with none")
		f.stored.add(cmd)
		flags.StringVar(&f.history, "history", "", "show the job among earlier ones in the page, the job summary and the comment: a file that rollout history add writes, or github:[BRANCH]")
		f.files.add(flags, formats, true)
		flags.StringVar(&f.github, "github", "auto", "write the job summary, annotations and outputs of a GitHub workflow: auto (in a workflow), on or off")
		flags.StringVar(&f.comment, "comment", "off", "comment on the pull request (needs GITHUB_TOKEN), or on the merge request in GitLab CI (needs GITLAB_TOKEN): off, always, changes or failures")
		f.gate.add(cmd)
		wants(flags, "baseline", "none compares with nothing")
		wants(flags, "github", "want auto, on or off")
		wants(flags, "comment", "want off, always, changes or failures")
	})
}

// options returns what the flags ask for, and the name of the report to print; "" is none.
func (f *reportFlags) options() (opts app.ReportOptions, printed string, err error) {
	given := func(flag, value string) string {
		if !f.changed(flag) {
			return ""
		}
		return value
	}
	opts = app.ReportOptions{
		Baseline: given("baseline", f.baseline), Stored: f.stored.at(f.changed), History: f.history,
		Options: f.files.options,
		GitHub:  given("github", f.github), Comment: given("comment", f.comment), Gate: f.gate.overrides(),
	}
	opts.Files, printed, err = f.files.parse()
	return opts, printed, err
}

// storedFlags say where on GitHub the results of a branch are.
type storedFlags struct{ workflow, artifact string }

func (f *storedFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.artifact, "baseline-artifact", app.DefaultBaselineArtifact, "with github: the artifact with the branch's result.json")
	cmd.Flags().StringVar(&f.workflow, "baseline-workflow", "", "with github: the file of the workflow whose runs left it, such as nightly.yml (default: this run's)")
}

func (f *storedFlags) at(changed func(string) bool) app.StoredAt {
	at := app.StoredAt{Workflow: f.workflow}
	if changed("baseline-artifact") {
		at.Artifact = f.artifact
	}
	return at
}

// The formats that several commands print.
const (
	formatText = "text" // the summary for terminals
	formatJSON = "json"
)
