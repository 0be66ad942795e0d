package stages

import (
	"context"
	"slices"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/trial"
)

// PlanInRounds lets the attempts of a new job be made in rounds, if its gate says so (gate.stop)
// and it is compared with a baseline: a stored one, or one that runs at the same time. A shard of
// several makes them up to a round that was asked for (0: none was), if the looks are at all tasks:
// then Look tells which round is next.
func (p *Planned) PlanInRounds(beside bool, round int) error {
	if !p.Job.Gate.StopsEarly(p.Job.NAttempts) {
		return nil
	}
	if !beside {
		if why := p.notInRounds(); why != "" {
			if !inCI(p.Host) { // each shard of each run would repeat it
				host.Linef(p.Host.Output, "note: %s%s", reporting.MakesAll, why)
			}
			return nil
		}
	}
	p.Rounds = &result.Rounds{Attempts: p.Job.NAttempts}
	if p.Shard == nil || p.Shard.Total == 1 || !p.Job.Gate.LooksAtAllTasks() {
		return nil
	}
	const instead = "run the job in one part (shards: 1, or without --shard), limit only broken tasks (max_broken_tasks), or use --stop-early=end"
	switch {
	case beside:
		return host.Usagef("gate.stop: early looks at all tasks of both sides after each round of attempts, and shards make rounds only against a stored baseline: give --baseline instead of --against, " + instead)
	case slices.ContainsFunc(p.Specs, func(s trial.Spec) bool { return len(s.GroupJudges) > 0 }):
		return host.Usagef("gate.stop: early looks at all tasks after each round of attempts, and a judge with scope: group gives its scores when all attempts of a task are there: " + instead)
	case round == 0:
		return host.Usagef("gate.stop: early looks at all tasks after each round of attempts, and a shard has only a part of them: run each shard with --round 1, then rollout merge --look tells which round is next; or " + instead)
	}
	p.Rounds.Upto = min(round, p.Rounds.Attempts)
	return nil
}

// PinBaseline records in a shard that makes a later round which baseline the looks before it
// compared with, for the later ones. It refuses another one than that of earlier rounds. began is
// the plan of these; nil: there are none.
func (p *Planned) PinBaseline(ctx context.Context, began *result.Plan) error {
	if p.Rounds == nil || p.Rounds.Upto < 2 {
		return nil
	}
	found := p.Found
	if found == nil {
		of := began
		if of == nil {
			plan, err := p.Record(ctx)
			if err != nil {
				return err
			}
			of = &plan
		}
		base := reporting.FinderOf(p.Host).Find(ctx, p.Dir(), reporting.EvaluatedIn(*of), p.Report)
		found = &base
	}
	if over(ctx) {
		return nil // the run reports the cancel
	}
	if found.Err != nil {
		return found.Err
	}
	if began != nil && began.Rounds != nil {
		if err := found.SameAs(began.Rounds.Baseline); err != nil {
			return err
		}
	}
	p.Rounds.Baseline = found.LookedAt()
	return nil
}

// notInRounds returns why a job makes all attempts although its gate says that it may end early; ""
// if it makes them in rounds.
func (p *Planned) notInRounds() string {
	if run := becomesBaseline(p.Host); run != "" {
		return "the results of " + run + " become a baseline, which needs all attempts"
	}
	if !p.Report.Compares() {
		return "the job is compared with none (--baseline)"
	}
	return ""
}

// MayEndEarly reports whether this run may make fewer attempts than the job has (gate.stop), if it
// is compared with a baseline.
func (p *Planned) MayEndEarly() bool {
	return p.Job.Gate.StopsEarly(p.Job.NAttempts) && becomesBaseline(p.Host) == ""
}

// InRounds reports whether each shard of several makes one round of attempts, and a look decides
// about the next (gate.stop).
func (p *Planned) InRounds(shards int) bool {
	return shards > 1 && p.MayEndEarly() && p.Job.Gate.LooksAtAllTasks()
}

// Looks decides after each round of a job's attempts whether another one follows (gate.stop). nil:
// there are no rounds.
type Looks struct {
	P    *Planned
	base *reporting.FoundBaseline // nil: it was not looked for
	left map[result.Key]trial.Spec
}

// newLooks returns the looks of a job that is compared with a stored baseline.
func (o *Opened) newLooks() *Looks {
	if r := o.Tree.Plan.Rounds; r.Ended() || r.Upto > 0 || o.Beside != nil {
		return nil
	}
	return NewLooks(o.Planned, o.Todo)
}

// NewLooks returns the looks of a job with the trials that remain.
func NewLooks(p *Planned, todo []trial.Spec) *Looks {
	l := &Looks{P: p, base: p.Found, left: map[result.Key]trial.Spec{}}
	for _, s := range todo {
		l.left[s.Key] = s
	}
	return l
}

// Found returns the baseline if it was determined, else nil.
func (l *Looks) Found() *reporting.FoundBaseline {
	if l == nil {
		return nil
	}
	return l.base
}

// next implements job.Options.NextRound.
func (l *Looks) next(ctx context.Context, tree *job.Tree, emit event.Sink, trials []result.Trial) ([]trial.Spec, error) {
	say := func(text string) { emit(event.Event{Time: l.P.Host.Now().UTC(), Kind: event.Notice, Message: text}) }
	if tree.Plan.Rounds.Ended() {
		return l.Take(func(result.Key) bool { return true }), nil
	}
	if l.base == nil {
		base := &reporting.FoundBaseline{}
		base.Job, base.Sentence, base.Err = reporting.FinderOf(l.P.Host).Baseline(ctx, l.P.Dir(), reporting.EvaluatedIn(tree.Plan), l.P.Report)
		if over(ctx) {
			return nil, nil // it may exist
		}
		l.base = base
	}
	if why := l.base.NotLookable(tree.Plan.Rounds.Attempts); why != "" {
		say(reporting.MakesAll + why)
		if err := tree.PlanRounds(nil); err != nil {
			return nil, err
		}
		return l.Take(func(result.Key) bool { return true }), nil
	}
	wanted, end, note := reporting.Decide(l.P.Job.Gate, l.P.Host.Now(), *l.base.Job, tree.Plan, trials, l.Has)
	if note != "" {
		say(note)
	}
	if end != nil {
		return nil, tree.PlanRounds(end)
	}
	return l.Take(wanted), nil
}

// Has reports whether a trial remains to be run that is wanted.
func (l *Looks) Has(wanted func(result.Key) bool) bool {
	for key := range l.left {
		if wanted(key) {
			return true
		}
	}
	return false
}

// Take returns the remaining trials that are wanted, in the order of the plan. They no longer
// remain.
func (l *Looks) Take(wanted func(result.Key) bool) []trial.Spec {
	var out []trial.Spec
	for _, s := range l.P.Specs {
		if spec, ok := l.left[s.Key]; ok && wanted(s.Key) {
			out = append(out, spec)
			delete(l.left, s.Key)
		}
	}
	return out
}
