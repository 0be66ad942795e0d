package app

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/trial/judging"
)

// failsFast reports whether no trial may start after this one (--fail-fast). The gate is ignored,
// except that tasks in quarantine may fail.
func (p *planned) failsFast(t result.Trial) bool {
	return failed(t) && p.Job.Gate.Gates(t.Dataset, t.Task, p.host.Now())
}

// failed reports whether a trial should have passed but did not: it has an error and no reward, or
// a reward below 1. The agent nop is not meant to pass.
func failed(t result.Trial) bool {
	switch {
	case t.Error != nil && t.Error.Type == result.Cancelled, t.Agent == agent.Nop && t.Completed():
		return false
	case t.Completed():
		return !t.Passed()
	}
	return t.Failed()
}

// budget returns the remaining budget of the job. A shard gets the share of the money that its
// trials are of all trials, but all of the time: shards run concurrently. earlier are the job's
// results, confirmations its confirmation attempts.
func (p *planned) budget(earlier []result.Trial, confirmations []result.Key) (job.Budget, error) {
	limits := p.Job.Budget
	if p.proves {
		return job.Budget{}, nil // proofs run no agents
	}
	var b job.Budget
	if limits.MaxDuration != nil {
		b.Duration = time.Duration(*limits.MaxDuration)
	}
	if limits.MaxCostUSD == nil {
		return b, nil
	}
	b.CostUSD = *limits.MaxCostUSD
	if p.shard != nil && len(p.specs) > 0 {
		b.CostUSD *= float64(len(p.own())) / float64(len(p.specs))
	}
	rankers := p.rankers()
	before, err := job.SupersededCost(p.host.Path(p.dir()), rankers)
	if err != nil {
		return b, fmt.Errorf("add up what the job has cost: %w", err)
	}
	b.Unranked = map[result.Key]result.USD{}
	for _, t := range earlier {
		unranked := judging.UnrankedCost(p.trialDir(t.Key), rankers)
		before = before.Plus(t.Spent().Total()).Plus(unranked)
		b.Unranked[t.Key] = unranked
	}
	has := map[result.Key]bool{}
	for _, t := range earlier {
		has[t.Key] = true
	}
	for _, key := range slices.Concat(job.Keys(p.own()), confirmations) {
		if !has[key] { // it was killed, or has not begun
			before = before.Plus(p.recordedCost(key))
		}
	}
	b.Spent = &job.Spending{}
	b.Spent.AddCost(before)
	return b, nil
}

// recordedCost returns the cost of a trial without a result.
func (p *planned) recordedCost(key result.Key) result.USD {
	return judging.RecordedCost(p.trialDir(key))
}

// trialDir returns the directory of a trial.
func (p *planned) trialDir(key result.Key) string {
	return filepath.Join(p.host.Path(p.dir()), filepath.FromSlash(key.Dir()))
}

// rankers returns the names of the judges that rank the trials of tasks.
func (p *planned) rankers() (names []string) {
	for _, s := range p.own() {
		for _, j := range s.GroupJudges {
			if !slices.Contains(names, j.Name) {
				names = append(names, j.Name)
			}
		}
	}
	return names
}

// uncounted returns a sentence if the budget's limit on the cost had no effect, else "".
func (o *opened) uncounted(ended result.Job) string {
	if _, known := ended.TotalCost.Reported(); known || o.proves || o.Job.Budget.MaxCostUSD == nil || ended.CompletedTrials+ended.FailedTrials == ended.ReusedTrials {
		return ""
	}
	return "budget.max_cost_usd had no effect: no trial reported what it cost (agents write it to agent/cost_usd.txt in their logs)"
}

// maxNamed is how many trials that were not started are named. result.json lists all.
const maxNamed = 20

// stopSentences returns sentences that say why trials of a job were not started, and which.
func stopSentences(ended result.Job) []string {
	var out []string
	names := func(list []result.Key) string {
		var names []string
		for _, k := range list[:min(len(list), maxNamed)] {
			names = append(names, k.String())
		}
		text := strings.Join(names, ", ")
		if n := len(list) - len(names); n > 0 {
			text += fmt.Sprintf(" and %d more", n)
		}
		return text
	}
	for _, s := range ended.Stopped {
		skipped := s.Skipped
		if len(ended.Stopped) == 1 && s.Shard == nil {
			skipped = len(ended.Skipped) // including those whose result was removed by hand
		}
		var what []string
		if s.Cancelled > 0 {
			what = append(what, fmt.Sprintf("%s %s cancelled", plural.Count(s.Cancelled, "trial"), was(s.Cancelled)))
		}
		if skipped > 0 || s.Cancelled == 0 {
			what = append(what, fmt.Sprintf("%s %s not started", plural.Count(skipped, "trial"), was(skipped)))
		}
		sentence := fmt.Sprintf("%s, so %s", s.Why, strings.Join(what, " and "))
		if s.Reason == result.StopFailFast {
			sentence += " (--fail-fast)"
		}
		if s.Shard != nil {
			sentence = fmt.Sprintf("in shard %s %s", s.Shard, sentence)
		}
		if len(ended.Stopped) == 1 && len(ended.Skipped) > 0 {
			sentence += ": " + names(ended.Skipped)
		}
		out = append(out, clean(sentence))
	}
	if len(out) > 1 && len(ended.Skipped) > 0 {
		out = append(out, clean("not started: "+names(ended.Skipped)))
	}
	return out
}

func was(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// moreBudget returns the flags that raise the budget of a job that its budget stopped, each after a
// space.
func moreBudget(stopped []result.Stop) string {
	has := func(reason result.StopReason) bool {
		return slices.ContainsFunc(stopped, func(s result.Stop) bool { return s.Reason == reason })
	}
	out := ""
	if has(result.StopBudgetCost) {
		out += " --budget-cost-usd MORE"
	}
	if has(result.StopBudgetDuration) {
		out += " --budget-duration LONGER"
	}
	return out
}
