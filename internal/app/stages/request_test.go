package stages

import (
	"testing"

	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/reporters"
)

// The command that resumes a job repeats the flags that choose what runs again, and those of its
// report.
func TestFlagsOfTheCommandThatResumes(t *testing.T) {
	for name, tc := range map[string]struct {
		rerun    RerunRequest
		report   reporting.ReportOptions
		compared bool
		want     string
	}{
		"none":           {},
		"only failed":    {rerun: RerunRequest{OnlyFailed: true}, want: " --only-failed"},
		"types and more": {rerun: RerunRequest{RetryErrors: []string{"agent_execution_timeout", "all"}, OnlyFailed: true}, want: " --retry-errors agent_execution_timeout,all --only-failed"},
		"a report": {
			report: reporting.ReportOptions{Baseline: "github:main", Stored: reporting.StoredAt{Workflow: "nightly.yml"}, Files: []reporting.ReportFile{{Format: "junit", Path: "a b.xml"}, {Format: "comment", Path: "c.md"}}, Options: reporters.Options{CaseFiles: true}, GitHub: "on"},
			want:   " --baseline 'github:main' --baseline-workflow nightly.yml --junit 'a b.xml' --report comment=c.md --junit-case-files --github on",
		},
		"a URL":                          {report: reporting.ReportOptions{Baseline: "s3://b/k"}, want: " --baseline 's3://b/k'"},
		"a URL that may have secrets":    {report: reporting.ReportOptions{Baseline: "https://e.org/x?sig=1"}, want: " --baseline BASELINE"},
		"a baseline that is missing now": {compared: true, want: " --baseline BASELINE"},
		"no baseline on purpose":         {report: reporting.ReportOptions{Baseline: reporting.BaselineNone}, compared: true, want: " --baseline none"},
	} {
		if got := tc.report.Flags(tc.compared) + tc.rerun.Flags(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
