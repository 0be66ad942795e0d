package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/org/rollout-action/internal/app"
)

// reportFlags are the flags of every command that ends with a report: run, resume, merge and
// report.
type reportFlags struct {
	baseline, history             string
	stored                        storedFlags
	junit, markdown, html, asJSON string
	caseFiles                     bool
	github, comment               string
	gate                          gateFlags
	changed                       func(string) bool
}

func (f *reportFlags) add(cmd *cobra.Command) {
	grouped(cmd, flagsReports, func(flags *pflag.FlagSet) {
		f.changed = flags.Changed
		flags.StringVar(&f.baseline, "baseline", app.BaselineNone, "compare with a job's directory or result.json, with the URL of one (https, s3), with github: or github:BRANCH (the last results on that branch), or with none")
		f.stored.add(cmd)
		flags.StringVar(&f.history, "history", "", "show the job among earlier ones in the page, the job summary and the comment: a file that rollout history add writes, or github:[BRANCH]")
		flags.StringVar(&f.junit, "junit", "", "write a JUnit XML report to this file")
		flags.BoolVar(&f.caseFiles, "junit-case-files", false, "name a file of the task in each JUnit test case, as annotations need and the strictest schema forbids; always so in a GitHub workflow")
		flags.StringVar(&f.markdown, "markdown", "", "write a Markdown report to this file")
		flags.StringVar(&f.html, "html", "", "write the job as a page to look at to this file, which needs no other file and no server")
		flags.StringVar(&f.asJSON, "report-json", "", "write the machine-readable report to this file: verdict, comparison, numbers")
		flags.StringVar(&f.github, "github", "auto", "write the job summary, annotations and outputs of a GitHub workflow: auto (in a workflow), on or off")
		flags.StringVar(&f.comment, "comment", "off", "comment on the pull request (needs GITHUB_TOKEN), or on the merge request in GitLab CI (needs GITLAB_TOKEN): off, always, changes or failures")
		f.gate.add(cmd)
		wants(flags, "baseline", "none compares with nothing")
		wants(flags, "github", "want auto, on or off")
		wants(flags, "comment", "want off, always, changes or failures")
	})
}

// options returns what the flags ask for.
func (f *reportFlags) options() app.ReportOptions {
	given := func(flag, value string) string {
		if !f.changed(flag) {
			return ""
		}
		return value
	}
	return app.ReportOptions{
		Baseline: given("baseline", f.baseline), Stored: f.stored.at(f.changed), History: f.history,
		JUnit: f.junit, Markdown: f.markdown, HTML: f.html, JSON: f.asJSON, CaseFiles: f.caseFiles,
		GitHub: given("github", f.github), Comment: given("comment", f.comment), Gate: f.gate.overrides(),
	}
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
