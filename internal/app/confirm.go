package app

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/trial"
)

// foundBaseline is a baseline, or a sentence about why there is none.
type foundBaseline struct {
	job      *result.Job
	sentence string
	err      error
}

// confirmer chooses the attempts that confirm broken tasks (gate.confirm). nil: there are none.
type confirmer struct {
	p *planned
	// again holds the attempts of an earlier run that showed nothing and are made again.
	again map[result.Key]bool
	// base is set once the baseline was looked for.
	base *foundBaseline
	// beside is the plan of the baseline that also makes attempts; nil: only the job makes them.
	beside *result.Plan
	// chosen: the tasks that look broken have been determined.
	chosen bool
	noted  bool // the missing baseline was reported
}

// confirmer returns the confirmer of a job; nil if its gate asks for no confirmation.
func (p *planned) confirmer(again map[result.Key]bool) *confirmer {
	if p.Job.Gate.Confirm.Attempts <= 0 || p.proves {
		return nil
	}
	return &confirmer{p: p, again: again}
}

// baseline returns what the job is compared with. It is determined once, so that the verdict uses
// the same baseline.
func (c *confirmer) baseline(ctx context.Context, plan result.Plan) *foundBaseline {
	if c.base == nil {
		b := &foundBaseline{}
		b.job, b.sentence, b.err = c.p.host.finder().baseline(ctx, c.p.dir(), evaluatedIn(plan), c.p.report)
		if ctx.Err() != nil {
			return b // it may exist
		}
		c.base = b
	}
	return c.base
}

// found returns the baseline if it was determined, else nil.
func (c *confirmer) found() *foundBaseline {
	if c == nil {
		return nil
	}
	return c.base
}

// plan returns plan with the tasks that look broken or, if the baseline also makes attempts, fixed.
// It keeps those that plan already has: a job that was killed continues with them.
func (c *confirmer) plan(ctx context.Context, plan result.Plan, trials []result.Trial) result.Plan {
	if c.chosen || !c.p.report.compares() {
		return plan
	}
	base := c.baseline(ctx, plan)
	if base.job == nil {
		return plan
	}
	c.chosen = true
	again := c.p.Job.Gate.Confirmable(*base.job, result.Summarize(plan, trials), c.p.host.Now(), c.beside != nil)
	if c.beside != nil {
		again = again.Beside(*c.beside)
	}
	if plan.Shard != nil {
		// A task's attempts may be spread over several shards. The one with the first attempt
		// retries it.
		first := map[result.Key]bool{}
		for _, k := range plan.Own() {
			first[k.Unnumbered()] = first[k.Unnumbered()] || k.Attempt == 1
		}
		again = again.Without(func(k result.Key) bool { return !first[k] })
	}
	return plan.WithConfirmation(again)
}

// left reports whether an attempt remains to be made.
func (c *confirmer) left(ctx context.Context, plan result.Plan, trials []result.Trial) bool {
	if c == nil {
		return false
	}
	planned := c.plan(ctx, plan, trials)
	c.chosen = false // nothing is written yet
	return len(planned.NextConfirmations(trials, c.again)) > 0 && c.affords(planned, trials) == ""
}

// next implements job.Options.Confirm.
func (c *confirmer) next(ctx context.Context, tree *job.Tree, emit event.Sink, trials []result.Trial) ([]trial.Spec, error) {
	say := func(format string, args ...any) {
		emit(event.Event{Time: c.p.host.Now().UTC(), Kind: event.Notice, Message: fmt.Sprintf(format, args...)})
	}
	plan := c.plan(ctx, tree.Plan, trials)
	c.noteMissing(say)
	keys := plan.NextConfirmations(trials, c.again)
	if len(keys) == 0 {
		return nil, nil
	}
	if why := c.affords(plan, trials); why != "" {
		say(notAfforded, why)
		return nil, nil
	}
	if !reflect.DeepEqual(plan.Confirm, tree.Plan.Confirm) {
		say("%s", toBeSure(*plan.Confirm, ""))
		if err := planConfirmation(tree, plan); err != nil {
			return nil, err
		}
	}
	return c.p.confirmations(keys, c.again)
}

const notAfforded = "no task is tried again (gate.confirm): %s"

// noteMissing reports once that there is no baseline.
func (c *confirmer) noteMissing(say func(format string, args ...any)) {
	if c.base != nil && c.base.job == nil && c.base.err == nil && !c.noted {
		c.noted = true
		say("whether tasks look broken is not known, so none is tried again: %s", c.base.sentence)
	}
}

// toBeSure announces the confirmation attempts to be made. of names what makes them in addition to
// the job, or is "".
func toBeSure(c result.PlannedConfirmation, of string) string {
	return fmt.Sprintf("%s: up to %s more%s, to be sure", looks("looks", "look", len(c.Tasks)-len(c.Fixed), len(c.Fixed)), plural.Count(c.Attempts, "attempt"), of)
}

// planConfirmation writes the tasks to retry into a job's plan.json.
func planConfirmation(tree *job.Tree, plan result.Plan) error {
	if err := tree.PlanConfirmation(plan); err != nil {
		return fmt.Errorf("note in %s which tasks are tried again: %w", result.PlanFile, err)
	}
	return nil
}

// confirmations returns the specs of confirmation attempts, and removes the attempts from again.
func (p *planned) confirmations(keys []result.Key, again map[result.Key]bool) ([]trial.Spec, error) {
	specs := map[result.Key]trial.Spec{}
	for _, s := range p.own() {
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

// looks formats counts of tasks: "2 tasks look broken and 1 fixed".
func looks(one, many string, broken, fixed int) string {
	verb := func(n int) string {
		if n == 1 {
			return plural.Count(n, "task") + " " + one
		}
		return plural.Count(n, "task") + " " + many
	}
	switch {
	case fixed == 0:
		return verb(broken) + " broken"
	case broken == 0:
		return verb(fixed) + " fixed"
	}
	return fmt.Sprintf("%s broken and %d fixed", verb(broken), fixed)
}

// affords returns why no more attempts are made: the job has exceeded what its gate allows, so it
// fails anyway. "": they are made.
func (c *confirmer) affords(plan result.Plan, trials []result.Trial) string {
	limits := c.p.Job.Gate.Thresholds
	if limits.MaxCostUSD != nil && result.Summarize(plan, trials).TotalCost.Amount() > *limits.MaxCostUSD {
		return "the job has cost more than its gate allows (max_cost_usd)"
	}
	if limits.MaxDurationSec != nil {
		took := c.p.host.Now().Sub(plan.StartedAt) - plan.Idle()
		if took > time.Duration(*limits.MaxDurationSec*float64(time.Second)) {
			return "the job has taken longer than its gate allows (max_duration_sec)"
		}
	}
	return ""
}

// unconfirmed reports which confirmation attempts are missing. incomplete says that the job's
// results are not complete; note is information for the user. beside is the baseline that ran with
// the job, or nil.
func unconfirmed(in report.Input, confirmations []result.Trial, beside *result.Tree, base *result.Job) (incomplete, note string) {
	if in.Policy.Confirm.Attempts <= 0 {
		return "", ""
	}
	left := map[result.Key]bool{}
	for _, k := range in.Plan.NextConfirmations(confirmations, cutShort(confirmations)) {
		left[k.Unnumbered()] = true
	}
	if beside != nil {
		clear(left)
		ofHead, ofBase := result.NextBeside(result.Confirming{Plan: in.Plan, Made: confirmations, Again: cutShort(confirmations)},
			result.Confirming{Plan: beside.Plan, Made: beside.Confirmations, Again: cutShort(beside.Confirmations)})
		for _, k := range slices.Concat(ofHead, ofBase) {
			left[k.Unnumbered()] = true
		}
	}
	if len(left) > 0 {
		fixed := 0
		for k := range left {
			if in.Plan.LooksFixed(k) {
				fixed++
			}
		}
		incomplete = fmt.Sprintf("%s, and not all attempts were made that would confirm it (gate.confirm)", looks("looks", "look", len(left)-fixed, fixed))
	}
	if base == nil || in.Plan.Shard != nil {
		return incomplete, ""
	}
	tried := map[result.Key]bool{}
	if in.Plan.Confirm != nil {
		for _, k := range in.Plan.Confirm.Tasks {
			tried[k] = true
		}
	}
	again := in.Policy.Confirmable(*base, in.Job, in.Now, beside != nil)
	if beside != nil {
		again = again.Beside(beside.Plan)
	}
	if again = again.Without(func(k result.Key) bool { return tried[k] }); len(again.Tasks) > 0 {
		note = fmt.Sprintf("%s and had no further attempts (gate.confirm): they are made when trials run with this baseline", looks("looks", "look", len(again.Tasks)-len(again.Fixed), len(again.Fixed)))
	}
	return incomplete, note
}

// cutShort returns the attempts that a cancel ended, which showed nothing.
func cutShort(confirmations []result.Trial) map[result.Key]bool {
	cut := map[result.Key]bool{}
	for _, t := range confirmations {
		if t.Error != nil && t.Error.Type == result.Cancelled && !t.Completed() {
			cut[t.Key] = true
		}
	}
	return cut
}
