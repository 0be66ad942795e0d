package host

import (
	"github.com/org/rollout-action/internal/core/report"
)

// Finished is the last stage of a job: the content of its directory, the baseline and the verdict.
type Finished struct {
	Input   report.Input
	Outcome Outcome
	// Incomplete are the sentences about missing results that a summary cannot derive from the
	// numbers of Input.
	Incomplete []string
	// Compared: a baseline was asked for.
	Compared bool
	// Judged: the verdict adds something to the numbers.
	Judged bool
	// NoResult: the job's result.json is missing, because the run was killed, could not write it,
	// or still goes on: Running.
	NoResult, Running bool
	// Resume is the command that runs the rest; "" if there is none.
	Resume string
	// ResumeWith is the command that resumes a job that was just cancelled, with the flags of this
	// run; "": it was not cancelled.
	ResumeWith string
}

// Outcome is the result of a use case that judges a job.
type Outcome int

// Outcomes of a job.
const (
	Passed  Outcome = iota
	Failed          // the gate failed, or results are missing
	Stopped         // it was cancelled, so nothing was judged
)
