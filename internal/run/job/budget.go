package job

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/internal/model/meter"
	"github.com/org/rollout-action/internal/run/trial"
)

// Budget limits the cost and the duration of a job. Once the trials have cost CostUSD, no more
// start, and running ones get no more answers of the job's models (trial.Options.Budget). When the
// job has run for Duration, running trials are cancelled, too.
type Budget struct {
	CostUSD float64 // in US dollars; 0: no limit
	// Spent is the cost of all trials, including earlier runs of the job and trials that were run
	// again. Jobs that run at the same time may share it. nil: nothing was spent.
	Spent *Spending
	// Running holds the part of Spent that this job's running trials have cost. nil: no trial adds
	// to it.
	Running *RunningCost
	// Carried holds the part of Spent that the results of trials will contain again, because only
	// their judges run.
	Carried map[result.Key]result.USD
	// Unranked holds the part of Spent that interrupted rankings have cost, by the trial whose
	// directory has their files. The judges rank again, so the new results of this trial, and of
	// those ranked with it, will contain the cost, too.
	Unranked map[result.Key]result.USD
	Duration time.Duration // without the time in which the job was stopped (result.Plan.Idle); 0: no limit
}

// Spending is a sum of US dollars that several jobs may add to. The zero Spending is ready to use.
type Spending struct {
	mu    sync.Mutex
	usd   float64
	bound bool // usd is a lower bound
	// turns counts the running turns of models, unknown those without a known maximum cost.
	// reserved is the sum of the maximum costs of the others.
	turns, unknown int
	reserved       float64
	changed        chan struct{} // closed when a turn ends; nil: no turn waits for that
	line           meter.Line    // of turns that wait to be admitted
}

// Add adds an amount.
func (s *Spending) Add(usd float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usd += usd
}

// reserve implements model.Purse.
func (s *Spending) reserve(at *meter.Place, limit, usd float64) (used bool, wait <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.usd >= limit:
		return true, nil
	case !at.IsFirst():
		return false, at.First()
	case s.unknown > 0, s.turns > 0 && s.usd+s.reserved >= limit:
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		return false, s.changed
	}
	s.turns++
	if math.IsInf(usd, 1) {
		s.unknown++
	} else {
		s.reserved += usd
	}
	return false, nil
}

// release implements model.Purse.
func (s *Spending) release(usd float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turns--; math.IsInf(usd, 1) {
		s.unknown--
	} else if s.reserved -= usd; s.turns == s.unknown {
		s.reserved = 0 // removes rounding errors
	}
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// AddCost adds a cost, which may be a lower bound.
func (s *Spending) AddCost(cost result.USD) {
	s.Add(cost.Amount())
	if cost.AtLeast() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.bound = true
	}
}

// Cost returns the sum, marked if it is a lower bound.
func (s *Spending) Cost() result.USD {
	s.mu.Lock()
	defer s.mu.Unlock()
	cost := result.Dollars(s.usd)
	if s.bound {
		cost = cost.LowerBound()
	}
	return cost
}

// Sum returns the sum in US dollars.
func (s *Spending) Sum() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usd
}

// RunningCost holds the model costs of a job's running trials. The zero RunningCost is ready to
// use.
type RunningCost struct {
	mu  sync.Mutex
	usd map[result.Key]float64
}

// Spend adds the cost of a running trial since the last call.
func (b Budget) Spend(key result.Key, usd float64) {
	b.Running.mu.Lock()
	defer b.Running.mu.Unlock()
	if b.Running.usd == nil {
		b.Running.usd = map[result.Key]float64{}
	}
	b.Running.usd[key] += usd
	b.Spent.Add(usd)
}

// Join implements model.Purse.
func (b Budget) Join() *meter.Place { return b.Spent.line.Join() }

// Reserve implements model.Purse.
func (b Budget) Reserve(at *meter.Place, usd float64) (used bool, wait <-chan struct{}) {
	if b.CostUSD <= 0 {
		return false, nil
	}
	return b.Spent.reserve(at, b.CostUSD, usd)
}

// Release implements model.Purse.
func (b Budget) Release(usd float64) {
	if b.CostUSD > 0 {
		b.Spent.release(usd)
	}
}

// Used reports whether the trials have cost CostUSD or more.
func (b Budget) Used() bool { return b.CostUSD > 0 && b.Spent.Sum() >= b.CostUSD }

// settle adds the cost of a trial that has ended, less the cost of before and the amounts that
// Spend has added. before is empty if the trial has just ended.
func (b Budget) settle(before, now result.Trial) {
	usd := now.Spent().Total().Amount() - before.Spent().Total().Amount()
	if b.Running != nil {
		b.Running.mu.Lock()
		defer b.Running.mu.Unlock()
		usd -= b.Running.usd[now.Key]
		delete(b.Running.usd, now.Key)
	}
	b.Spent.Add(usd)
	if now.Spent().Total().AtLeast() {
		b.Spent.AddCost(result.Dollars(0).LowerBound())
	}
}

// stop keeps more trials from starting if because returns a reason. because is called with r.mu
// held, and not again after it has returned one.
func (r *run) stop(because func() (reason result.StopReason, why string)) {
	r.mu.Lock()
	why := ""
	if r.stopping == nil {
		var reason result.StopReason
		if reason, why = because(); why != "" {
			r.stopping = &result.Stop{Reason: reason, At: result.Stamp(r.Now()), Why: why}
		}
	}
	r.mu.Unlock()
	if why != "" {
		r.emit(event.Event{Kind: event.Notice, Message: "no more trials are started, because " + why})
	}
}

// stops reports whether no more trials may start.
func (r *run) stops() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopping != nil
}

// ended settles the cost of a trial that has ended, and stops the job if FailFast or the budget
// says so.
func (r *run) ended(t result.Trial) {
	carried := result.Trial{Costs: result.Costs{Model: r.Budget.Carried[t.Key]}}
	r.Budget.settle(carried, t)
	r.stop(func() (result.StopReason, string) {
		if r.FailFast != nil && r.running != nil && r.FailFast(t) {
			what := "failed"
			if t.Completed() {
				what = "did not pass"
			}
			return result.StopFailFast, fmt.Sprintf("%s %s (%s)", t.Key, what, describe(t))
		}
		return r.costs()
	})
}

// costs returns the reason to stop if the budget is used up. r.mu is held.
func (r *run) costs() (result.StopReason, string) {
	if !r.Budget.Used() {
		return "", ""
	}
	return result.StopBudgetCost, r.overspent()
}

// overspent returns a sentence that says that the budget is used up. r.mu is held.
func (r *run) overspent() string {
	of := "the budget"
	if r.Tree.Plan.Shard != nil {
		of = "this shard's share of the budget"
	}
	spent := r.Budget.Spent.Cost()
	sign := ""
	if spent.AtLeast() {
		sign = "≥ "
	}
	return fmt.Sprintf("the trials have cost %s%s, and %s is %s (budget.max_cost_usd)", sign, usd(spent.Amount()), of, usd(r.Budget.CostUSD))
}

func usd(amount float64) string { return fmt.Sprintf("$%.2f", amount) }

// withinTime returns a context that ends when the budget's duration is over.
func (r *run) withinTime(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.Budget.Duration <= 0 {
		return ctx, func() {}
	}
	left := r.Budget.Duration - (r.Now().Sub(r.Tree.Plan.StartedAt) - r.Tree.Plan.Idle())
	return awake.WithTimeoutCause(ctx, left, trial.ErrOutOfTime)
}

// checkTime stops the job if its context has ended because the budget's duration is over.
func (r *run) checkTime(ctx context.Context) {
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), trial.ErrOutOfTime) {
		r.stop(func() (result.StopReason, string) {
			return result.StopBudgetDuration, fmt.Sprintf("the job has run for %s (budget.max_duration)", r.Budget.Duration)
		})
	}
}

// noteStop writes into the plan why trials were left out.
func (r *run) noteStop() {
	stop := r.stopping
	if stop == nil {
		return
	}
	job := result.Summarize(r.Tree.Plan, r.counted())
	if !job.Cancelled {
		return // nothing was left out
	}
	if stop.Reason == result.StopBudgetCost {
		stop.Why = r.overspent() // with the cost of the last trials
	}
	stop.Skipped, stop.Cancelled = job.SkippedTrials, job.Errors[result.Cancelled]
	if err := r.Tree.PlanStop(*stop); err != nil {
		r.lost = append(r.lost, fmt.Errorf("note in %s why the job stopped: %w", result.PlanFile, err))
	}
}
