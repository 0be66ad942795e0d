package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

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
	r.Budget.Settle(carried, t)
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
	return awake.WithTimeoutCause(ctx, left, failure.ErrOutOfTime)
}

// checkTime stops the job if its context has ended because the budget's duration is over.
func (r *run) checkTime(ctx context.Context) {
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), failure.ErrOutOfTime) {
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
