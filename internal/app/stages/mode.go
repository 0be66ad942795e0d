package stages

import (
	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/result"
)

// Orders holds the options of running a planned job and of its report.
type Orders struct {
	Report   reporting.ReportOptions
	FailFast bool   // no trial starts after one that failed
	Rerun    string // additional flags of the command that resumes the job, each after a space
}

// Orders returns the orders in the request.
func (r RunRequest) Orders() Orders {
	return Orders{r.Report, r.FailFast, r.Rerun.Flags() + r.Job.EnvFlags() + host.Flag("log-format", r.LogFormat)}
}

// Orders returns the orders in the request.
func (r ResumeRequest) Orders() Orders {
	return RunRequest{Job: r.Job, Rerun: r.Rerun, Report: r.Report, FailFast: r.FailFast, LogFormat: r.LogFormat}.Orders()
}

// Purpose tells for what a job's trials run. The zero value is to measure their agents.
type Purpose struct {
	Proves bool // to prove tasks
	// Reverifies is the directory of the job whose trials are verified again, or only judged again
	// if OnlyJudges is true; "": none.
	Reverifies string
	OnlyJudges bool
}

// Pairing tells of a job that runs together with this one. The zero value is that there is none.
type Pairing struct {
	Beside *result.Beside // describes the other job
	Commit string         // of this job; "": that of the checkout
}
