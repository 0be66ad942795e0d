package gate

import (
	"fmt"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
)

// DefaultConfidence is used if a policy has no Confidence.
const DefaultConfidence = 0.95

// checker collects the checks of one call of Policy.Check.
type checker struct {
	policy Policy
	diff   *result.Diff
	checks []Check
	tests  []comparison // of those checks that need a significance test; decideAll makes them
	notes  []string
	all    scope // the whole job
	rounds int   // those after which the tests looked at a job that runs in rounds; 0: there were no looks
	// uncompared: a limit compares with a baseline, and has nothing to compare with.
	uncompared bool
}

func check(p Policy, head result.Job, diff *result.Diff, now time.Time) Verdict {
	k, active := gather(p, head, diff, now)
	p = k.policy
	k.measureProven(head, now)
	k.decideAll(head, now)
	k.noteComparison()
	var base *result.Job
	if diff != nil {
		base = &diff.Base
	}
	if sentence := result.EndedEarly(base, head); sentence != "" {
		k.notes = append(k.notes, sentence)
	}
	v := Verdict{Checks: k.checks, Notes: k.notes, Quarantined: active.tasks(head)}
	v.Outcome, v.Reason = conclude(k.checks)
	better, byChance := k.improvement(k.all)
	v.Reason, v.FixedByChance = v.Reason+better, byChance
	advises, note := p.advice(now)
	if v.Advised = advises; note != "" {
		v.Notes = append([]string{note}, v.Notes...)
	}
	v.Uncompared = k.uncompared && (diff == nil || diff.Overall.Tasks == 0)
	if v.Outcome == Inconclusive {
		v.WaysOut = k.waysOut(head, advises)
	}
	if v.Outcome == Inconclusive && !v.Satisfied(p) {
		v.Reason += "; it fails all the same, because on_inconclusive is fail"
	}
	if v.Advised && !v.Satisfied(p) {
		v.Reason += p.sparedBy(now)
	}
	return v
}

// gather makes the checks of all thresholds, up to the tests, and returns the active quarantines.
func gather(p Policy, head result.Job, diff *result.Diff, now time.Time) (*checker, quarantines) {
	if p.Confidence <= 0 || p.Confidence >= 1 {
		p.Confidence = DefaultConfidence
	}
	active, notes := p.activeQuarantines(head, now)
	k := &checker{policy: p, diff: diff, notes: notes}
	whole := p.Thresholds
	if whole.MaxFailedTrials == nil {
		whole.MaxFailedTrials = new(int)
	}
	k.all = Group{Thresholds: whole}.scope(head, diff, active)
	k.checkScope(k.all)
	for _, g := range p.Groups {
		k.checkScope(g.scope(head, diff, active))
	}
	return k, active
}

// checkScope checks one part of the job against its thresholds, in the order of the documentation.
func (k *checker) checkScope(s scope) {
	k.minPassRate(s)
	k.minPassRateAll(s)
	k.minMeanReward(s)
	k.maxFailedTrials(s)
	k.drop(s, "max_pass_rate_drop", s.MaxPassRateDrop, passRates)
	k.drop(s, "max_mean_reward_drop", s.MaxMeanRewardDrop, meanRewards)
	k.maxBrokenTasks(s)
	for _, name := range sortedKeys(s.Scores) {
		k.minScore(s, name)
		k.scoreDrop(s, name)
	}
	k.maxCost(s)
	k.maxJudgeCost(s)
	k.maxCostIncrease(s)
	k.maxDuration(s)
}

// add appends a check and returns its index.
func (k *checker) add(s scope, c Check) int {
	c.Agent, c.Dataset = s.Agent, s.Dataset
	if c.Outcome == "" {
		c.Outcome = Pass
	}
	c.Value, c.Limit = finite(c.Value), finite(c.Limit)
	k.checks = append(k.checks, c)
	return len(k.checks) - 1
}

// skip adds a check that passes because there is nothing to check.
func (k *checker) skip(s scope, name string, limit float64, why string) {
	k.add(s, Check{Name: name, Limit: limit, Skipped: true, Message: "not checked: " + why})
}

// lack adds a check that has nothing to compare with. why is the reason: no baseline, or no task
// that both have. The policy's OnNoBaseline decides whether it passes.
func (k *checker) lack(s scope, name string, limit float64, why string) {
	k.uncompared = true
	if k.policy.OnNoBaseline != Fail {
		k.skip(s, name, limit, why)
		return
	}
	k.add(s, Check{
		Name: name, Limit: limit, Outcome: Fail, Message: "not checked: " + why + ", and on_no_baseline is fail",
		Hint: "run the job on the base branch first, or let this run pass with on_no_baseline: pass",
	})
}

// noComparison explains why a limit on drops or broken tasks was not checked.
const noComparison = "no task can be compared with the baseline: each is new, removed, changed or without a verdict on one side"

// incomparable adds a check of a limit that has no task to compare.
func (k *checker) incomparable(s scope, name string, limit float64) {
	if s.equal > 0 {
		k.skip(s, name, limit, "each task that can be compared is the same as in the baseline, from which trials were taken over")
		return
	}
	k.lack(s, name, limit, noComparison)
}

// nothingToCheck reports whether a threshold has no trials to check, and then adds a check with the
// outcome: it fails if the job has no trials, and is skipped if a group has none or a quarantine
// covers them all. Package config refuses groups that match nothing in the job file, so a group's
// trials are missing on purpose (--agent, --task).
func (k *checker) nothingToCheck(s scope, name string, limit float64) bool {
	switch {
	case s.matched > 0 && s.unchanged:
		k.skip(s, name, limit, "each trial is the baseline's own: the files of the task, the agent, the configuration and the image are the same")
	case s.matched == 0 && s.left:
		k.skip(s, name, limit, "nothing that changed can affect a trial")
	case s.matched == 0 && s.whole:
		k.add(s, Check{Name: name, Limit: limit, Outcome: Fail, Message: "the job has no trials, so there is nothing to check", Hint: "correct datasets, tasks, include_tasks and exclude_tasks"})
	case s.matched == 0:
		k.skip(s, name, limit, "this job has no trials of the group")
	case s.all.Len() > 0 && s.gated.Len() == 0:
		k.skip(s, name, limit, "all of its tasks are in quarantine")
	default:
		return false
	}
	return true
}

// conclude returns the outcome of all checks together and the sentence that explains it.
func conclude(checks []Check) (Outcome, string) {
	for _, o := range []Outcome{Fail, Inconclusive} {
		var first string
		n := 0
		for _, c := range checks {
			if c.Outcome != o {
				continue
			}
			if n == 0 {
				first = scope{Group: Group{Agent: c.Agent, Dataset: c.Dataset}, whole: c.Agent+c.Dataset == ""}.prefix() + c.Message
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
		return Pass, fmt.Sprintf("%s passed, %d had nothing to check", plural.Count(len(checks)-skipped, "check"), skipped)
	}
	return Pass, fmt.Sprintf("all %d checks passed", len(checks))
}
