package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/untrusted"
	"github.com/org/rollout-action/reporters"
)

// reportFlags are the flags of every command that ends with a report: run, merge and report.
type reportFlags struct {
	baseline                string
	stored                  storedAt
	junit, markdown, asJSON string
	caseFiles               bool
	github, comment         string
	format                  string // of what is printed; only report has a flag for it
	gate                    gateFlags
	changed                 func(string) bool
}

func (f *reportFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.changed = flags.Changed
	flags.StringVar(&f.baseline, "baseline", "none", "compare with a job's directory or result.json, with github: or github:BRANCH (the last results on that branch), or with none")
	f.stored.add(cmd)
	flags.StringVar(&f.junit, "junit", "", "write a JUnit XML report to this file")
	flags.BoolVar(&f.caseFiles, "junit-case-files", false, "name a file of the task in each JUnit test case, as annotations need and the strictest schema forbids; always so in a GitHub workflow")
	flags.StringVar(&f.markdown, "markdown", "", "write a Markdown report to this file")
	flags.StringVar(&f.asJSON, "report-json", "", "write the machine-readable report to this file: verdict, comparison, numbers")
	flags.StringVar(&f.github, "github", "auto", "write the job summary, annotations and outputs of a GitHub workflow: auto (in a workflow), on or off")
	flags.StringVar(&f.comment, "comment", "off", "comment on the pull request: off, always, changes or failures; needs GITHUB_TOKEN")
	f.gate.add(cmd)
}

// storedAt is where on GitHub the results of a branch are.
type storedAt struct{ workflow, artifact string }

func (s *storedAt) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.artifact, "baseline-artifact", defaultBaselineArtifact, "with github: the artifact with the branch's result.json")
	cmd.Flags().StringVar(&s.workflow, "baseline-workflow", "", "with github: the file of the workflow whose runs left it, such as nightly.yml (default: this run's)")
}

// defaultBaselineArtifact is the artifact that holds the merged job's result.json and nothing else.
const defaultBaselineArtifact = "rollout-result"

// formatText is the summary for terminals, and what is printed by default.
const (
	formatText = "text"
	formatJSON = "json"
)

// given returns the flags that were given and are not in the job's directory, as a shell takes them, each after a space. Those of the
// gate are in config.json. compared: the job began with a baseline, so that a command without one lacks it.
func (f *reportFlags) given(compared bool) string {
	if f.changed == nil {
		return ""
	}
	var out strings.Builder
	add := func(name, value string) {
		if f.changed(name) {
			out.WriteString(" --" + name + " " + untrusted.ShellPath(value))
		}
	}
	if compared && !f.changed("baseline") {
		out.WriteString(" --baseline BASELINE")
	}
	add("baseline", f.baseline)
	add("baseline-artifact", f.stored.artifact)
	add("baseline-workflow", f.stored.workflow)
	add("junit", f.junit)
	if f.caseFiles && f.changed("junit-case-files") {
		out.WriteString(" --junit-case-files")
	}
	add("markdown", f.markdown)
	add("report-json", f.asJSON)
	add("github", f.github)
	add("comment", f.comment)
	return out.String()
}

// forgets reports whether a job that began with a baseline is judged without one, although nobody asked for that.
func (f *reportFlags) forgets(plan result.Plan) bool {
	return plan.Compared && !f.compares() && !(f.changed != nil && f.changed("baseline"))
}

// check refuses values that mean nothing, before any work is done.
func (f *reportFlags) check() error {
	if err := f.gate.check(); err != nil {
		return err
	}
	if f.baseline == "" && f.changed("baseline") {
		return usage("--baseline has no value: none compares with nothing")
	}
	switch f.github {
	case "auto", "on", "off":
	default:
		return usage("--github %s: want auto, on or off", f.github)
	}
	if _, ok := reporters.All[f.format]; !ok && f.format != formatText && f.format != "" {
		return usage("--format %s: want text, %s", f.format, strings.Join(slices.Sorted(maps.Keys(reporters.All)), ", "))
	}
	switch f.comment {
	case "off", "always", "changes", "failures":
	default:
		return usage("--comment %s: want off, always, changes or failures", f.comment)
	}
	return nil
}

// compares reports whether a baseline was asked for.
func (f *reportFlags) compares() bool { return f.baseline != "none" && f.baseline != "" }

// ready checks the flags of a command that takes long before it reports: it reports a missing baseline now.
func (a *app) ready(flags reportFlags) error {
	if err := flags.check(); err != nil {
		return err
	}
	if !flags.compares() || strings.HasPrefix(flags.baseline, githubPrefix) {
		return nil
	}
	_, _, err := a.readBaseline(flags.baseline)
	return err
}
