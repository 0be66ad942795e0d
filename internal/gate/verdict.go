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
}

// Test is how a drop was told from luck. Drops are positive, gains negative.
type Test struct {
	Method     string   `json:"method"`               // "paired permutation test", "McNemar's exact test", …
	Tasks      int      `json:"tasks"`                // pairs that were compared
	P          float64  `json:"p"`                    // the chance to see such a drop by luck alone
	Low        float64  `json:"low"`                  // the drop's confidence interval
	High       float64  `json:"high"`                 //
	Detectable *float64 `json:"detectable,omitempty"` // the smallest drop that this suite could have shown; nil: none
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
// are not checked, which a note says. now decides which quarantines still hold.
func (p Policy) Check(head result.Job, diff *result.Diff, now time.Time) Verdict {
	return check(p, head, diff, now)
}
