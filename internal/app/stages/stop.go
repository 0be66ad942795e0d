package stages

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/spending"
	"github.com/org/rollout-action/internal/run/trial/judging"
)

// failsFast reports whether no trial may start after this one (--fail-fast). The gate is ignored,
// except that tasks in quarantine may fail.
func (p *Planned) failsFast(t result.Trial) bool {
	return failed(t) && p.Job.Gate.Gates(t.Dataset, t.Task, p.Host.Now())
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

// Budget returns the remaining budget of the job. A shard gets the share of the money that its
// trials are of all trials, but all of the time: shards run concurrently. earlier are the job's
// results, confirmations its confirmation attempts.
func (p *Planned) Budget(earlier []result.Trial, confirmations []result.Key) (spending.Budget, error) {
	limits := p.Job.Budget
	if p.Proves {
		return spending.Budget{}, nil // proofs run no agents
	}
	var b spending.Budget
	if limits.MaxDuration != nil {
		b.Duration = time.Duration(*limits.MaxDuration)
	}
	if limits.MaxCostUSD == nil {
		return b, nil
	}
	b.CostUSD = *limits.MaxCostUSD
	if p.Shard != nil && len(p.Specs) > 0 {
		b.CostUSD *= float64(len(p.Own())) / float64(len(p.Specs))
	}
	rankers := p.rankers()
	before, err := job.SupersededCost(p.Host.Path(p.Dir()), rankers)
	if err != nil {
		return b, fmt.Errorf("add up what the job has cost: %w", err)
	}
	b.Unranked = map[result.Key]result.USD{}
	for _, t := range earlier {
		unranked := judging.UnrankedCost(p.TrialDir(t.Key), rankers)
		before = before.Plus(t.Spent().Total()).Plus(unranked)
		b.Unranked[t.Key] = unranked
	}
	has := map[result.Key]bool{}
	for _, t := range earlier {
		has[t.Key] = true
	}
	for _, key := range slices.Concat(job.Keys(p.Own()), confirmations) {
		if !has[key] { // it was killed, or has not begun
			before = before.Plus(p.RecordedCost(key))
		}
	}
	b.Spent = &spending.Spending{}
	b.Spent.AddCost(before)
	return b, nil
}

// RecordedCost returns the cost of a trial without a result.
func (p *Planned) RecordedCost(key result.Key) result.USD {
	return judging.RecordedCost(p.TrialDir(key))
}

// TrialDir returns the directory of a trial.
func (p *Planned) TrialDir(key result.Key) string {
	return filepath.Join(p.Host.Path(p.Dir()), filepath.FromSlash(key.Dir()))
}

// rankers returns the names of the judges that rank the trials of tasks.
func (p *Planned) rankers() (names []string) {
	for _, s := range p.Own() {
		for _, j := range s.GroupJudges {
			if !slices.Contains(names, j.Name) {
				names = append(names, j.Name)
			}
		}
	}
	return names
}

// Uncounted returns a sentence if the budget's limit on the cost had no effect, else "".
func (o *Opened) Uncounted(ended result.Job) string {
	if _, known := ended.TotalCost.Reported(); known || o.Proves || o.Job.Budget.MaxCostUSD == nil || ended.CompletedTrials+ended.FailedTrials == ended.ReusedTrials {
		return ""
	}
	return "budget.max_cost_usd had no effect: no trial reported its cost (agents write it to agent/cost_usd.txt in their logs)"
}
