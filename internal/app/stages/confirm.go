package stages

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/trial"
)

// Confirmer chooses the attempts that confirm broken tasks (gate.confirm). nil: there are none.
type Confirmer struct {
	P *Planned
	// again holds the attempts of an earlier run that showed nothing and are made again.
	again map[result.Key]bool
	// Base is set once the baseline was looked for.
	Base *reporting.FoundBaseline
	// Baseline is the plan of the baseline that also makes attempts; nil: only the job makes them.
	Baseline *result.Plan
	// chosen: the tasks that look broken have been determined.
	chosen bool
	noted  bool // the missing baseline was reported
}

// Confirmer returns the confirmer of a job; nil if its gate asks for no confirmation.
func (p *Planned) Confirmer(again map[result.Key]bool) *Confirmer {
	if p.Job.Gate.Confirm.Attempts <= 0 || p.Proves {
		return nil
	}
	return &Confirmer{P: p, again: again, Base: p.Found}
}

// baseline returns what the job is compared with. It is determined once, so that the verdict uses
// the same baseline.
func (c *Confirmer) baseline(ctx context.Context, plan result.Plan) *reporting.FoundBaseline {
	if c.Base == nil {
		b := &reporting.FoundBaseline{}
		b.Job, b.Sentence, b.Err = reporting.FinderOf(c.P.Host).Baseline(ctx, c.P.Dir(), reporting.EvaluatedIn(plan).Pooled(c.P.Job.Gate), c.P.Report)
		if ctx.Err() != nil {
			return b // it may exist
		}
		c.Base = b
	}
	return c.Base
}

// Found returns the baseline if it was determined, else nil.
func (c *Confirmer) Found() *reporting.FoundBaseline {
	if c == nil {
		return nil
	}
	return c.Base
}

// Plan returns plan with the tasks that look broken or, if the baseline also makes attempts, fixed.
// It keeps those that plan already has: a job that was killed continues with them.
func (c *Confirmer) Plan(ctx context.Context, plan result.Plan, trials []result.Trial) result.Plan {
	if c.chosen || !c.P.Report.Compares() {
		return plan
	}
	base := c.baseline(ctx, plan)
	if base.Job == nil {
		return plan
	}
	c.chosen = true
	again := c.P.Job.Gate.Confirmable(*base.Job, result.Summarize(plan, trials), c.P.Host.Now(), c.Baseline != nil)
	if c.Baseline != nil {
		again = again.WithBaseline(*c.Baseline)
	}
	if plan.Shard != nil {
		// A task's attempts may be spread over several shards. The one with the first attempt
		// retries it.
		first := map[result.Key]bool{}
		for _, k := range plan.Own().All() {
			first[k.Unnumbered()] = first[k.Unnumbered()] || k.Attempt == 1
		}
		again = again.Without(func(k result.Key) bool { return !first[k] })
	}
	return plan.WithConfirmation(again)
}

// Left reports whether an attempt remains to be made.
func (c *Confirmer) Left(ctx context.Context, plan result.Plan, trials []result.Trial) bool {
	if c == nil {
		return false
	}
	planned := c.Plan(ctx, plan, trials)
	c.chosen = false // nothing is written yet
	return len(planned.NextConfirmations(trials, c.again)) > 0 && c.Affords(planned, trials) == ""
}

// next implements job.Options.Confirm.
func (c *Confirmer) next(ctx context.Context, tree *job.Tree, emit event.Sink, trials []result.Trial) ([]trial.Spec, error) {
	say := func(format string, args ...any) {
		emit(event.Event{Time: c.P.Host.Now().UTC(), Kind: event.Notice, Message: fmt.Sprintf(format, args...)})
	}
	plan := c.Plan(ctx, tree.Plan, trials)
	c.NoteMissing(say)
	keys := plan.NextConfirmations(trials, c.again)
	if len(keys) == 0 {
		return nil, nil
	}
	if why := c.Affords(plan, trials); why != "" {
		say(NotAfforded, why)
		return nil, nil
	}
	if !reflect.DeepEqual(plan.Confirm, tree.Plan.Confirm) {
		say("%s", ToBeSure(*plan.Confirm, ""))
		if err := PlanConfirmation(tree, plan); err != nil {
			return nil, err
		}
	}
	return c.P.Confirmations(keys, c.again)
}

// NotAfforded is the format of the sentence about why a gate makes no confirmation attempts.
const NotAfforded = "no task is tried again (gate.confirm): %s"

// NoteMissing reports once that there is no baseline.
func (c *Confirmer) NoteMissing(say func(format string, args ...any)) {
	if c.Base != nil && c.Base.Job == nil && c.Base.Err == nil && !c.noted {
		c.noted = true
		say("whether tasks look broken is not known, so none is tried again: %s", c.Base.Sentence)
	}
}

// ToBeSure announces the confirmation attempts. of is added after their number: which jobs make
// them, or "" for this job alone.
func ToBeSure(c result.PlannedConfirmation, of string) string {
	return fmt.Sprintf("%s: up to %s more%s, to be sure", reporting.Looks("looks", "look", len(c.Tasks)-len(c.Fixed), len(c.Fixed)), plural.Count(c.Attempts, "attempt"), of)
}

// PlanConfirmation writes the tasks to retry into a job's plan.json.
func PlanConfirmation(tree *job.Tree, plan result.Plan) error {
	if err := tree.PlanConfirmation(plan); err != nil {
		return fmt.Errorf("note in %s which tasks are tried again: %w", result.PlanFile, err)
	}
	return nil
}

// Confirmations returns the specs of confirmation attempts, and removes the attempts from again.
func (p *Planned) Confirmations(keys []result.Key, again map[result.Key]bool) ([]trial.Spec, error) {
	specs := map[result.Key]trial.Spec{}
	for _, s := range p.Own() {
		specs[s.Key.Unnumbered()] = s
	}
	var todo []trial.Spec
	for _, key := range keys {
		delete(again, key)
		s, ok := specs[key.Unnumbered()]
		if !ok {
			return nil, errors.New("the plan confirms " + key.String() + ", which is no task of the job")
		}
		s.Key = key
		todo = append(todo, s)
	}
	return todo, nil
}

// Affords returns why no more attempts are made: the job has exceeded what its gate allows, so it
// fails anyway. "": they are made.
func (c *Confirmer) Affords(plan result.Plan, trials []result.Trial) string {
	limits := c.P.Job.Gate.Thresholds
	if limits.MaxCostUSD != nil && result.Summarize(plan, trials).TotalCost.Amount() > *limits.MaxCostUSD {
		return "the job has cost more than its gate allows (max_cost_usd)"
	}
	if limits.MaxDurationSec != nil {
		took := c.P.Host.Now().Sub(plan.StartedAt) - plan.Idle()
		if took > time.Duration(*limits.MaxDurationSec*float64(time.Second)) {
			return "the job has taken longer than its gate allows (max_duration_sec)"
		}
	}
	return ""
}
