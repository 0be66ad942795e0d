package stages

import (
	"testing"

	"github.com/org/rollout-action/internal/app/reporting"
)

func TestRunAndResumeGiveTheSameOrders(t *testing.T) {
	rerun, report := RerunRequest{OnlyFailed: true}, reporting.ReportOptions{Baseline: "jobs/old"}
	job := JobRequest{EnvFiles: []string{"a b.env"}}
	ran := RunRequest{Job: job, Rerun: rerun, Report: report, FailFast: true, LogFormat: "plain"}.Orders()
	resumed := ResumeRequest{Job: job, Rerun: rerun, Report: report, FailFast: true, LogFormat: "plain"}.Orders()
	if ran.Rerun != resumed.Rerun || ran.FailFast != resumed.FailFast || ran.Report.Baseline != resumed.Report.Baseline {
		t.Errorf("%+v, %+v", ran, resumed)
	}
	if want := " --only-failed --env-file 'a b.env' --log-format plain"; ran.Rerun != want || !ran.FailFast || ran.Report.Baseline != "jobs/old" {
		t.Errorf("%+v, want the flags%s", ran, want)
	}
}
