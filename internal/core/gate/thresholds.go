package gate

import (
	"fmt"
	"strings"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
)

// rounding is the relative error that a number may have from floating-point arithmetic: 0.1 + 0.2 >
// 0.3.
const rounding = 1e-9

func below(value, limit float64) bool { return value < limit-rounding*max(1, -limit, limit) }
func above(value, limit float64) bool { return value > limit+rounding*max(1, -limit, limit) }

// failIf returns the outcome of a threshold that needs no test.
func failIf(broken bool) Outcome {
	if broken {
		return Fail
	}
	return Pass
}

func (k *checker) minPassRate(s scope) {
	const name = "min_pass_rate"
	if s.MinPassRate == nil || k.nothingToCheck(s, name, *s.MinPassRate) || k.noRewards(s, name, *s.MinPassRate) {
		return
	}
	tasks, passed, trials := tallies(s.rewarded())
	rate, n := effectiveAttempts(tasks)
	low, high := wilson(rate, n, k.policy.Confidence)
	k.add(s, Check{
		Name: name, Value: rate, Limit: *s.MinPassRate, Outcome: failIf(below(rate, *s.MinPassRate)),
		Interval: &Interval{Low: low, High: high, Confidence: k.policy.Confidence},
		Message: fmt.Sprintf("pass rate %s (%d of %s; %s interval %s to %s), at least %s is asked for", percent(rate), passed,
			plural.Count(trials, "trial"), share(k.policy.Confidence), percent(low), percent(high), percent(*s.MinPassRate)),
	})
}

// minPassRateAll checks the pass rate over every planned trial: one without a reward, for whatever
// reason, did not pass.
func (k *checker) minPassRateAll(s scope) {
	const name = "min_pass_rate_all"
	if s.MinPassRateAll == nil || k.nothingToCheck(s, name, *s.MinPassRateAll) {
		return
	}
	passed, planned := 0, s.counted
	if planned == 0 {
		planned = s.planned
	}
	for _, o := range s.rewarded().All() {
		if o.Passed() {
			passed++
		}
	}
	rate := float64(passed) / float64(planned)
	k.add(s, Check{
		Name: name, Value: rate, Limit: *s.MinPassRateAll, Outcome: failIf(below(rate, *s.MinPassRateAll)),
		Message: fmt.Sprintf("pass rate over all planned trials %s (%d of %d), at least %s is asked for", percent(rate), passed, planned, percent(*s.MinPassRateAll)),
	})
}

// tallies counts attempts and passes of each task, over all agents.
func tallies(results result.Outcomes) (tasks []tally, passed, trials int) {
	type name struct{ dataset, task string }
	at := map[name]int{}
	for _, o := range results.All() {
		n := name{o.Dataset, o.Task}
		i, ok := at[n]
		if !ok {
			i = len(tasks)
			at[n] = i
			tasks = append(tasks, tally{})
		}
		tasks[i].attempts++
		trials++
		if o.Passed() {
			tasks[i].passed++
			passed++
		}
	}
	return tasks, passed, trials
}

func (k *checker) minMeanReward(s scope) {
	const name = "min_mean_reward"
	if s.MinMeanReward == nil || k.nothingToCheck(s, name, *s.MinMeanReward) || k.noRewards(s, name, *s.MinMeanReward) {
		return
	}
	results := s.rewarded()
	values := make([]float64, results.Len())
	for i, o := range results.All() {
		values[i] = *o.Reward
	}
	m := result.Mean(values)
	k.add(s, Check{
		Name: name, Value: m, Limit: *s.MinMeanReward, Outcome: failIf(below(m, *s.MinMeanReward)),
		Message: fmt.Sprintf("mean reward %s over %s, at least %s is asked for", number(m), plural.Count(results.Len(), "trial"), number(*s.MinMeanReward)),
	})
}

// noRewards reports whether there is no reward at all, and then adds a check that fails.
func (k *checker) noRewards(s scope, name string, limit float64) bool {
	if s.rewarded().Len() > 0 {
		return false
	}
	k.add(s, Check{Name: name, Limit: limit, Outcome: Fail, Message: "no trial has a reward, so there is nothing to check", Hint: "rollout show has the errors of the trials"})
	return true
}

// noneWithout returns the sentence that no trial has ended without a verdict. Some of the planned
// ones may not have run.
func noneWithout(planned int) string {
	if planned <= 1 {
		return "no trial ended without a verdict"
	}
	return fmt.Sprintf("none of %d trials ended without a verdict", planned)
}

func (k *checker) maxFailedTrials(s scope) {
	const name = "max_failed_trials"
	if s.MaxFailedTrials == nil {
		return
	}
	limit := *s.MaxFailedTrials
	asked := !s.whole || k.policy.MaxFailedTrials != nil
	// A job without trials fails even without this threshold, and of one that took all over nothing
	// is checked.
	if (asked || s.matched == 0 || s.unchanged) && k.nothingToCheck(s, name, float64(limit)) {
		return
	}
	failed, lost, cancelled := 0, 0, 0
	for _, o := range s.gated.All() {
		switch {
		case !o.Failed():
		case o.Error.Fault() == result.FaultAgent && !(agent.Agent{Name: o.Agent}).Reserved(): // if the oracle fails, it is the task's failure
			lost++
		default:
			failed++
			if o.Error == result.Cancelled {
				cancelled++
			}
		}
	}
	c := Check{Name: name, Value: float64(failed), Limit: float64(limit), Outcome: failIf(limit >= 0 && failed > limit)}
	c.Message = fmt.Sprintf("%d of %s %s no verdict", failed, plural.Count(s.planned, "trial"), plural.Have(failed))
	more := " more"
	if failed == 0 {
		c.Message, more = noneWithout(s.planned), ""
	}
	switch cancelled {
	case 0:
	case failed:
		c.Message += " (cancelled)"
	default:
		c.Message += fmt.Sprintf(" (%d of them cancelled)", cancelled)
	}
	switch {
	case limit < 0:
		c.Message += ", any number may"
	case limit == 0 && failed > 0:
		c.Message += ", none may"
	case limit > 0:
		c.Message += fmt.Sprintf(", %d may", limit)
	}
	switch lost {
	case 0:
	case 1:
		c.Message += fmt.Sprintf("; 1%s was lost by the agent, which failed or took too long", more)
	default:
		c.Message += fmt.Sprintf("; %d%s were lost by the agent, which failed or took too long", lost, more)
	}
	switch {
	case c.Outcome != Fail:
	case cancelled == failed:
		c.Hint = "the job was cancelled while they ran: resume it to get them"
	default:
		c.Hint = "an error of the infrastructure, the task, the agent's installation, the verifier or a judge kept them from one"
	}
	if without := s.neverRewarded(); limit >= 0 && c.Outcome == Pass && len(without) > 0 {
		c.Outcome = Fail
		c.Message += fmt.Sprintf("; but no trial of %s has a reward", strings.Join(without, ", "))
		c.Hint = "an agent that fails at every task was probably not able to run; max_failed_trials: -1 allows it"
	}
	k.add(s, c)
}

// neverRewarded returns the agents that lost trials and have no reward at all, sorted.
func (s scope) neverRewarded() []string {
	rewarded := map[string]bool{}
	for _, o := range s.gated.All() {
		if o.Failed() || o.Completed() {
			rewarded[o.Agent] = rewarded[o.Agent] || o.Completed()
		}
	}
	var out []string
	for _, name := range sortedKeys(rewarded) {
		if !rewarded[name] {
			out = append(out, "agent "+name)
		}
	}
	return out
}

func (k *checker) maxCost(s scope) {
	const name = "max_cost_usd"
	if s.MaxCostUSD == nil || (s.matched == 0 || s.unchanged) && k.nothingToCheck(s, name, *s.MaxCostUSD) {
		return
	}
	cost, confirming := s.confirming, ""
	for _, o := range s.all.All() {
		if o.Reused { // its cost is another job's
			o.Cost = result.Dollars(0)
		}
		cost = cost.Plus(o.Cost)
	}
	if amount := s.confirming.Amount(); amount > 0 {
		confirming = fmt.Sprintf(" (%s%s of it to confirm broken tasks)", costBound(s.confirming), dollars(amount))
	}
	amount, reported := cost.Reported()
	text := fmt.Sprintf("the trials cost %s%s%s", costBound(cost), dollars(amount), confirming)
	if !reported {
		text = "no trial has reported its cost"
	}
	c := Check{
		Name: name, Value: amount, Limit: *s.MaxCostUSD, Outcome: failIf(above(amount, *s.MaxCostUSD)),
		Message: fmt.Sprintf("%s, at most %s is allowed", text, dollars(*s.MaxCostUSD)),
	}
	if cost.AtLeast() && c.Outcome == Pass {
		c.Hint = "the cost of some calls of models is not known, or estimated: the trials' warnings say why"
	}
	k.add(s, c)
}

// costBound returns the prefix of an amount: "≥ " if it is a lower bound.
func costBound(cost result.USD) string {
	if cost.AtLeast() {
		return "≥ "
	}
	return ""
}

func (k *checker) maxDuration(s scope) {
	const name = "max_duration_sec"
	if s.MaxDurationSec == nil || (s.matched == 0 || s.unchanged) && k.nothingToCheck(s, name, *s.MaxDurationSec) {
		return
	}
	what := "the job took"
	if !s.whole {
		what = "the trials took together"
	}
	k.add(s, Check{
		Name: name, Value: s.seconds, Limit: *s.MaxDurationSec, Outcome: failIf(above(s.seconds, *s.MaxDurationSec)),
		Message: fmt.Sprintf("%s %s s, at most %s s is allowed", what, seconds(s.seconds), seconds(*s.MaxDurationSec)),
	})
}
