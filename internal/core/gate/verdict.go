package gate

import (
	"time"

	"github.com/org/rollout-action/internal/core/result"
)

// Verdict is the gate's decision about a job. It is part of the machine-readable report.
type Verdict struct {
	Outcome Outcome `json:"outcome"`
	// Reason explains the outcome in one sentence.
	Reason string  `json:"reason"`
	Checks []Check `json:"checks"`
	// Notes are further sentences, about a suite that is too small, an expired quarantine, a
	// missing baseline.
	Notes []string `json:"notes,omitempty"`
	// Uncompared: a limit compares with a baseline, but there is none, or no task can be compared
	// with it. See Policy.OnNoBaseline.
	Uncompared  bool          `json:"uncompared,omitempty"`
	Quarantined []Quarantined `json:"quarantined,omitempty"`
	// WaysOut are what would decide an inconclusive verdict; empty of any other.
	WaysOut []WayOut `json:"ways_out,omitempty"`
	// FixedByChance: tasks were fixed, but chance alone fixes as many.
	FixedByChance bool `json:"fixed_by_chance,omitempty"`
	// Advised: the policy only advised when it was checked, so the job passes with any outcome. See
	// Policy.Mode.
	Advised bool `json:"advised,omitempty"`
}

// Check is the result of one threshold for the whole job or for one group.
type Check struct {
	Name    string  `json:"name"`              // the key in the job file, such as max_pass_rate_drop
	Agent   string  `json:"agent,omitempty"`   // the group's glob; "" is all
	Dataset string  `json:"dataset,omitempty"` // the group's glob; "" is all
	Outcome Outcome `json:"outcome"`
	Value   float64 `json:"value"` // the measured number, in the threshold's unit; a drop is positive
	Limit   float64 `json:"limit"`
	// Message is a sentence with the numbers. Hint is advice; "" if there is none.
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Test    *Test  `json:"test,omitempty"` // null if nothing was tested
	// Skipped: there was nothing to check, for the reason in Message (no baseline, all in
	// quarantine). It passes.
	Skipped bool `json:"skipped,omitempty"`
	// Interval is the confidence interval of min_pass_rate's rate.
	Interval *Interval `json:"interval,omitempty"`
}

// Interval is a confidence interval: it contains the true value with probability Confidence.
type Interval struct {
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"`
}

// Test is a significance test of a drop or of broken tasks. Drops are positive, gains negative.
type Test struct {
	Method string  `json:"method"` // the test's name, such as "exact paired permutation test"
	Tasks  int     `json:"tasks"`  // compared tasks, however many agents tried each
	P      float64 `json:"p"`      // the p-value: how likely such a drop is if nothing changed
	Low    float64 `json:"low"`    // of the drop's confidence interval
	High   float64 `json:"high"`   // of the same
	// Detectable is the smallest drop that this suite detects in four of five runs if many tasks
	// share it. nil: none.
	Detectable *float64 `json:"detectable,omitempty"`
	// DetectableBroken is the same if few tasks broke, namely DetectableTasks of them. nil and 0:
	// none.
	DetectableBroken *float64 `json:"detectable_broken,omitempty"`
	DetectableTasks  int      `json:"detectable_tasks,omitempty"`
	// Adjusted is P corrected for the number of tests in this verdict (Tests, at least 1). It is
	// compared with 1 - confidence. IntervalConfidence is the confidence of Low and High together.
	// Each bound alone has the confidence of the test, so Low is above 0 only if the drop is
	// significant.
	Adjusted           float64 `json:"p_adjusted"`
	Tests              int     `json:"looks"`
	IntervalConfidence float64 `json:"interval_confidence"`
	// Rounds: the tests looked after rounds of attempts, the last time after so many (gate.stop).
	// Adjusted then covers the earlier looks, too. 0: there was one test at the end.
	Rounds int `json:"rounds,omitempty"`
	// NeededAttempts is the number of attempts per task that would detect a drop of twice the
	// threshold, or the observed one if that is 0. 0: the present ones do, or no number does.
	NeededAttempts int `json:"needed_attempts,omitempty"`
}

// Quarantined is a task that was not gated, with the reason.
type Quarantined struct {
	Dataset string `json:"dataset_name"`
	Task    string `json:"task_name"`
	Reason  string `json:"reason"`
	Until   string `json:"until"`
}

// Passed reports whether the job passes: its outcome satisfies the policy, or the policy only
// advises. Then the command's exit code is 0.
func (v Verdict) Passed(p Policy) bool { return v.Advised || v.Satisfied(p) }

// Satisfied reports whether the outcome passes under the policy's OnInconclusive, in any mode.
func (v Verdict) Satisfied(p Policy) bool {
	return v.Outcome == Pass || v.Outcome == Inconclusive && p.OnInconclusive != Fail
}

// Check checks a job against the policy. diff compares the job with its baseline. If it is nil,
// there is no baseline: thresholds on drops and broken tasks are not checked, which their messages
// state; OnNoBaseline decides whether they pass. head must be the whole job, because a shard may
// lack the trials of a group. now decides which quarantines still apply.
func (p Policy) Check(head result.Job, diff *result.Diff, now time.Time) Verdict {
	return check(p, head, diff, now)
}
