package gate

import (
	"time"

	"github.com/org/rollout-action/internal/result"
)

// Verdict is what the gate says about a job. It is part of the machine-readable report.
type Verdict struct {
	Outcome Outcome `json:"outcome"`
	// Reason is one sentence for people: why.
	Reason string  `json:"reason"`
	Checks []Check `json:"checks"`
	// Notes are further sentences: a suite too small to show anything, a quarantine that ran out, no baseline.
	Notes       []string      `json:"notes,omitempty"`
	Quarantined []Quarantined `json:"quarantined,omitempty"`
}

// Check is one threshold, held against one scope.
type Check struct {
	Name    string  `json:"name"`              // the key in the job file: max_pass_rate_drop
	Agent   string  `json:"agent,omitempty"`   // the group's glob; "" is all
	Dataset string  `json:"dataset,omitempty"` // the group's glob; "" is all
	Outcome Outcome `json:"outcome"`
	Value   float64 `json:"value"` // what was seen, in the threshold's unit; a drop is positive
	Limit   float64 `json:"limit"`
	// Message is a sentence for people with the numbers; Hint is what would help, or "".
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Test    *Test  `json:"test,omitempty"` // of drops that were tested against luck
	// Skipped: there was nothing to judge, for a good reason that Message says (no baseline, all in quarantine). It passes.
	Skipped bool `json:"skipped,omitempty"`
	// Interval is where a rate is likely to be, for rates of a job by itself.
	Interval *Interval `json:"interval,omitempty"`
}

// Interval holds the true value in a share Confidence of cases.
type Interval struct {
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"`
}

// Test is how a drop was told from luck. Drops are positive, gains negative.
type Test struct {
	Method string  `json:"method"` // "exact paired permutation test", "McNemar's exact test", …; see pValue
	Tasks  int     `json:"tasks"`  // tasks that were compared, however many agents tried each
	P      float64 `json:"p"`      // the chance to see such a drop by luck alone
	Low    float64 `json:"low"`    // the drop's confidence interval
	High   float64 `json:"high"`   //
	// Detectable is the smallest drop that this suite shows in four of five runs if many tasks share it; nil: none.
	Detectable *float64 `json:"detectable,omitempty"`
	// DetectableBroken is the same if few tasks broke: DetectableTasks of them. nil and 0: none.
	DetectableBroken *float64 `json:"detectable_broken,omitempty"`
	DetectableTasks  int      `json:"detectable_tasks,omitempty"`
	// Adjusted is P after correcting for how many drops were looked at (Looks, from 1): it is what is held against
	// 1 - confidence. IntervalConfidence is that of Low and High together: each of them alone holds with the confidence that
	// the drop was held against, so that Low is above 0 only if the drop counts as real.
	Adjusted           float64 `json:"p_adjusted"`
	Looks              int     `json:"looks"`
	IntervalConfidence float64 `json:"interval_confidence"`
	// NeededAttempts per task would show the drop asked about; 0: no number of attempts would, or they suffice.
	NeededAttempts int `json:"needed_attempts,omitempty"`
}

// Quarantined is a task that was not gated, and why.
type Quarantined struct {
	Dataset string `json:"dataset_name"`
	Task    string `json:"task_name"`
	Reason  string `json:"reason"`
	Until   string `json:"until"`
}

// Passed reports whether the job passes under the policy's on_inconclusive: the command ends with 0.
func (v Verdict) Passed(p Policy) bool {
	return v.Outcome == Pass || v.Outcome == Inconclusive && p.OnInconclusive != Fail
}

// Check holds a job against a policy. diff compares it with its baseline; nil: there is none, and thresholds on drops
// are not checked, which a note says. head is the whole job: a shard by itself may lack what a group means. now decides which quarantines still hold.
func (p Policy) Check(head result.Job, diff *result.Diff, now time.Time) Verdict {
	return check(p, head, diff, now)
}
