package gate

import (
	"fmt"
	"time"

	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/result"
)

// DefaultConfidence is that of a policy that names none.
const DefaultConfidence = 0.95

// judge is one call of Check.
type judge struct {
	policy Policy
	diff   *result.Diff
	checks []Check
	tests  []test // of those checks that are tested against luck
	notes  []string
}

func check(p Policy, head result.Job, diff *result.Diff, now time.Time) Verdict {
	if p.Confidence <= 0 || p.Confidence >= 1 {
		p.Confidence = DefaultConfidence
	}
	held, notes := p.current(head, now)
	j := &judge{policy: p, diff: diff, notes: notes}
	whole := p.Thresholds
	if whole.MaxFailedTrials == nil {
		whole.MaxFailedTrials = new(int)
	}
	j.scope(Group{Thresholds: whole}.in(head, diff, held))
	for _, g := range p.Groups {
		j.scope(g.in(head, diff, held))
	}
	j.runTests()
	j.noteComparison()
	v := Verdict{Checks: j.checks, Notes: j.notes, Quarantined: held.tasks(head)}
	v.Outcome, v.Reason = conclude(j.checks)
	if v.Outcome == Inconclusive && !v.Passed(p) {
		v.Reason += "; it fails all the same, because on_inconclusive is fail"
	}
	return v
}

// scope holds one part of the job against its thresholds, in the order of the documentation.
func (j *judge) scope(s scope) {
	j.minPassRate(s)
	j.minPassRateAll(s)
	j.minMeanReward(s)
	j.maxFailedTrials(s)
	j.drop(s, "max_pass_rate_drop", s.MaxPassRateDrop, passRates)
	j.drop(s, "max_mean_reward_drop", s.MaxMeanRewardDrop, meanRewards)
	j.maxBrokenTasks(s)
	j.maxCost(s)
	j.maxDuration(s)
}

// add adds a check, and returns its place.
func (j *judge) add(s scope, c Check) int {
	c.Agent, c.Dataset = s.Agent, s.Dataset
	if c.Outcome == "" {
		c.Outcome = Pass
	}
	c.Value, c.Limit = finite(c.Value), finite(c.Limit)
	j.checks = append(j.checks, c)
	return len(j.checks) - 1
}

// skip adds a check that has nothing to judge, for a good reason.
func (j *judge) skip(s scope, name string, limit float64, why string) {
	j.add(s, Check{Name: name, Limit: limit, Skipped: true, Message: "not checked: " + why})
}

// noComparison says why a limit on drops or broken tasks is not checked.
const noComparison = "no task can be compared with the baseline: each is new, removed, changed or without a verdict on one side"

// nothing reports that a threshold has nothing to judge, after adding a check that says so. A job without trials fails. A group
// without any is not checked: job files whose groups are about nothing are refused when they are read, so these trials were left
// out on purpose (--agent, --task); nor is one where a quarantine has taken everything.
func (j *judge) nothing(s scope, name string, limit float64) bool {
	switch {
	case s.matched == 0 && s.whole:
		j.add(s, Check{Name: name, Limit: limit, Outcome: Fail, Message: "the job has no trials, so there is nothing to check", Hint: "correct datasets, tasks, include_tasks and exclude_tasks"})
	case s.matched == 0:
		j.skip(s, name, limit, "this job has no trials of the group")
	case len(s.all) > 0 && len(s.gated) == 0:
		j.skip(s, name, limit, "all of its tasks are in quarantine")
	default:
		return false
	}
	return true
}

// conclude draws one outcome and a sentence from the checks.
func conclude(checks []Check) (Outcome, string) {
	for _, o := range []Outcome{Fail, Inconclusive} {
		var first string
		n := 0
		for _, c := range checks {
			if c.Outcome != o {
				continue
			}
			if n == 0 {
				first = scope{Group: Group{Agent: c.Agent, Dataset: c.Dataset}, whole: c.Agent+c.Dataset == ""}.name() + c.Message
			}
			n++
		}
		if n == 1 {
			return o, first
		}
		if n > 1 {
			return o, fmt.Sprintf("%s; and %s besides", first, plural.Count(n-1, "check"))
		}
	}
	if len(checks) == 1 {
		return Pass, checks[0].Message
	}
	skipped := 0
	for _, c := range checks {
		if c.Skipped {
			skipped++
		}
	}
	if skipped > 0 {
		return Pass, fmt.Sprintf("%s passed, %d had nothing to compare or to judge", plural.Count(len(checks)-skipped, "check"), skipped)
	}
	return Pass, fmt.Sprintf("all %d checks passed", len(checks))
}
