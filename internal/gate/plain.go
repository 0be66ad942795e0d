package gate

import (
	"fmt"

	"github.com/org/rollout-action/internal/result"
)

// rounding is by how much a number may miss a limit for no other reason than how computers count: 0.1 + 0.2 > 0.3.
const rounding = 1e-9

func below(value, limit float64) bool { return value < limit-rounding*max(1, -limit, limit) }
func above(value, limit float64) bool { return value > limit+rounding*max(1, -limit, limit) }

// failIf is the outcome of a plain threshold.
func failIf(broken bool) Outcome {
	if broken {
		return Fail
	}
	return Pass
}

func (j *judge) minPassRate(s scope) {
	const name = "min_pass_rate"
	if s.MinPassRate == nil || j.nothing(s, name, *s.MinPassRate) || j.noRewards(s, name, *s.MinPassRate) {
		return
	}
	tasks, passed, trials := tallies(s.rewarded())
	rate, n := effective(tasks)
	low, high := wilson(rate, n, j.policy.Confidence)
	j.add(s, Check{
		Name: name, Value: rate, Limit: *s.MinPassRate, Outcome: failIf(below(rate, *s.MinPassRate)),
		Interval: &Interval{Low: low, High: high, Confidence: j.policy.Confidence},
		Message: fmt.Sprintf("pass rate %s (%d of %s; %s interval %s to %s), at least %s is asked for", percent(rate), passed,
			counted(trials, "trial"), share(j.policy.Confidence), percent(low), percent(high), percent(*s.MinPassRate)),
	})
}

// tallies counts the passes of each task, by all agents together.
func tallies(results []result.Outcome) (tasks []tally, passed, trials int) {
	type name struct{ dataset, task string }
	at := map[name]int{}
	for _, o := range results {
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

func (j *judge) minMeanReward(s scope) {
	const name = "min_mean_reward"
	if s.MinMeanReward == nil || j.nothing(s, name, *s.MinMeanReward) || j.noRewards(s, name, *s.MinMeanReward) {
		return
	}
	results := s.rewarded()
	values := make([]float64, len(results))
	for i, o := range results {
		values[i] = *o.Reward
	}
	m := result.Mean(values)
	j.add(s, Check{
		Name: name, Value: m, Limit: *s.MinMeanReward, Outcome: failIf(below(m, *s.MinMeanReward)),
		Message: fmt.Sprintf("mean reward %s over %s, at least %s is asked for", number(m), counted(len(results), "trial"), number(*s.MinMeanReward)),
	})
}

// noRewards reports that there is not one reward to judge, after failing the check.
func (j *judge) noRewards(s scope, name string, limit float64) bool {
	if len(s.rewarded()) > 0 {
		return false
	}
	j.add(s, Check{Name: name, Limit: limit, Outcome: Fail, Message: "no trial has a reward, so there is nothing to check", Hint: "look at the errors of the trials"})
	return true
}

func (j *judge) maxFailedTrials(s scope) {
	const name = "max_failed_trials"
	if s.MaxFailedTrials == nil {
		return
	}
	limit := *s.MaxFailedTrials
	asked := !s.whole || j.policy.MaxFailedTrials != nil
	// That nothing failed where nothing was tried is no reason to pass, whoever asked.
	if (asked || s.matched == 0) && j.nothing(s, name, float64(limit)) {
		return
	}
	failed := 0
	for _, o := range s.gated {
		if o.Failed() {
			failed++
		}
	}
	c := Check{Name: name, Value: float64(failed), Limit: float64(limit), Outcome: failIf(limit >= 0 && failed > limit)}
	c.Message = fmt.Sprintf("%d of %s failed", failed, counted(s.matched-len(s.all)+len(s.gated), "trial"))
	switch {
	case limit < 0:
		c.Message += ", any number may"
	case limit == 0 && failed > 0:
		c.Message += ", none may"
	case limit > 0:
		c.Message += fmt.Sprintf(", %d may", limit)
	}
	if c.Outcome == Fail {
		c.Hint = "a trial that ends with an error instead of a reward was not judged"
	}
	j.add(s, c)
}

func (j *judge) maxBrokenTasks(s scope) {
	const name = "max_broken_tasks"
	if s.MaxBrokenTasks == nil || j.nothing(s, name, float64(*s.MaxBrokenTasks)) {
		return
	}
	if j.diff == nil {
		j.skip(s, name, float64(*s.MaxBrokenTasks), noBaseline)
		return
	}
	broken, crashed, flaky, once := 0, 0, 0, false
	for _, t := range s.tasks {
		tried := t
		tried.Confirmation = nil
		switch {
		case broke(t):
			broken++
			if len(t.Head.Rewards) == 0 {
				crashed++
			}
			once = once || t.Confirmation == nil && (t.Base.Total == 1 || t.Head.Total == 1)
		case broke(tried):
			flaky++
		}
	}
	c := Check{Name: name, Value: float64(broken), Limit: float64(*s.MaxBrokenTasks), Outcome: failIf(broken > *s.MaxBrokenTasks)}
	c.Message = fmt.Sprintf("%s broke (passed in every attempt of the baseline, and in none now), at most %d may", counted(broken, "task"), *s.MaxBrokenTasks)
	if crashed > 0 {
		c.Message += fmt.Sprintf("; %d of them for errors alone", crashed)
	}
	if flaky > 0 {
		c.Message += fmt.Sprintf("; %s passed when tried again (flaky)", counted(flaky, "more task"))
	}
	if c.Outcome == Fail && once {
		c.Hint = "with one attempt a flaky task breaks by luck; n_attempts: 3 in both jobs makes that rare, and gate.quarantine holds known ones"
	}
	j.add(s, c)
}

func (j *judge) maxCost(s scope) {
	const name = "max_cost_usd"
	if s.MaxCostUSD == nil || s.matched == 0 && j.nothing(s, name, *s.MaxCostUSD) {
		return
	}
	cost := 0.0
	for _, o := range s.all {
		cost += o.Cost
	}
	j.add(s, Check{
		Name: name, Value: cost, Limit: *s.MaxCostUSD, Outcome: failIf(above(cost, *s.MaxCostUSD)),
		Message: fmt.Sprintf("the trials cost %s, at most %s is allowed", dollars(cost), dollars(*s.MaxCostUSD)),
	})
}

func (j *judge) maxDuration(s scope) {
	const name = "max_duration_sec"
	if s.MaxDurationSec == nil || s.matched == 0 && j.nothing(s, name, *s.MaxDurationSec) {
		return
	}
	what := "the job took"
	if !s.whole {
		what = "the trials took together"
	}
	j.add(s, Check{
		Name: name, Value: s.seconds, Limit: *s.MaxDurationSec, Outcome: failIf(above(s.seconds, *s.MaxDurationSec)),
		Message: fmt.Sprintf("%s %s s, at most %s s is allowed", what, seconds(s.seconds), seconds(*s.MaxDurationSec)),
	})
}
