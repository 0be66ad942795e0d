package sidebyside

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/trial"
)

// rounds coordinates the confirmation attempts of a job and its baseline: each round has one
// attempt of both at each task that is still undecided. A round begins when both jobs have ended
// the previous one, so that the attempts run side by side.
type rounds struct {
	head  *stages.Confirmer // chooses the tasks
	sides [2]*roundsOf
	turns *job.Turns
	// ran: the baseline has run all trials, so that the job is compared with it.
	ran bool

	// looks chooses instead, for rounds of planned attempts; nil: the rounds are of confirmation
	// attempts.
	looks func() [2]round

	mu   sync.Mutex
	over bool // one of the jobs has ended: there are no more rounds
}

// attemptRounds coordinates the rounds of a job and its baseline that end when the verdict is clear
// (gate.stop): a round begins when both jobs have ended the previous one and the gate has looked.
type attemptRounds struct {
	pair *pair
	rounds
	left [2]*stages.Looks
}

// next returns the job.Options.NextRound of one job.
func (r *attemptRounds) next(side int) func(context.Context, *job.Tree, event.Sink, []result.Trial) ([]trial.Spec, error) {
	return func(ctx context.Context, tree *job.Tree, emit event.Sink, trials []result.Trial) ([]trial.Spec, error) {
		for {
			mine, err := r.part(ctx, side, tree, emit, trials)
			if err != nil {
				return nil, nil //nolint:nilerr // cancelled: the job calls leave
			}
			if mine.over {
				if mine.plan.Rounds.Ended() && !tree.Plan.Rounds.Ended() {
					return nil, tree.PlanRounds(mine.plan.Rounds)
				}
				return nil, nil
			}
			if len(mine.specs) > 0 {
				return mine.specs, nil
			}
		}
	}
}

// decide returns the parts of both jobs in the next round, when both have arrived.
func (r *attemptRounds) decide() (parts [2]round) {
	head, base := r.sides[0].arrived, r.sides[1].arrived
	ran := slices.Clone(base.trials)
	for _, t := range head.trials {
		if r.pair.shared[t.Agent] { // it counts for both
			ran = append(ran, t)
		}
	}
	has := func(wanted func(result.Key) bool) bool { return r.left[0].Has(wanted) || r.left[1].Has(wanted) }
	before := result.Summarize(base.plan, ran)
	which, end, note := reporting.Decide(r.pair.head.Job.Gate, r.pair.head.Host.Now(), before, head.plan, head.trials, has)
	if note != "" {
		parts[0].notes = []string{note}
	}
	if end == nil {
		parts[0].specs, parts[1].specs = r.left[0].Take(which), r.left[1].Take(which)
		return parts
	}
	of := *end
	of.NotNeeded = slices.DeleteFunc(slices.Clone(before.Skipped), which)
	if note != "" {
		parts[0].notes = []string{end.Sentence(of.CountNotNeeded(r.pair.shared))}
	}
	for i, rounds := range []*result.Rounds{end, &of} {
		parts[i].over, parts[i].plan.Rounds = true, rounds
	}
	return parts
}

// roundsOf is the state of one job in the rounds.
type roundsOf struct {
	p       *stages.Planned
	again   map[result.Key]bool
	arrived *arrival // nil: its trials still run
}

// arrival is a job that waits for the next round.
type arrival struct {
	plan   result.Plan
	trials []result.Trial
	next   chan round // receives its part of the next round
}

// round is the part of one job in a round.
type round struct {
	over  bool        // there are no more rounds
	plan  result.Plan // with the attempts
	keys  []result.Key
	specs []trial.Spec // instead of keys
	notes []string     // for the user
}

// some reports whether the job has trials in the round.
func (r round) some() bool { return len(r.keys)+len(r.specs) > 0 }

// part waits until both jobs have ended their rounds, and returns one job's part of the next one.
// It returns the error of ctx if ctx ends before.
func (r *rounds) part(ctx context.Context, side int, tree *job.Tree, emit event.Sink, trials []result.Trial) (mine round, err error) {
	a := &arrival{plan: tree.Plan, trials: trials, next: make(chan round, 1)}
	r.arrive(ctx, side, a)
	select {
	case mine = <-a.next:
	case <-ctx.Done():
		return mine, ctx.Err()
	}
	for _, note := range mine.notes {
		emit(event.Event{Time: r.sides[side].p.Host.Now().UTC(), Kind: event.Notice, Message: note})
	}
	return mine, nil
}

// next returns the function that returns the confirmation attempts of one job. See
// job.Options.Confirm.
func (r *rounds) next(side int) func(context.Context, *job.Tree, event.Sink, []result.Trial) ([]trial.Spec, error) {
	return func(ctx context.Context, tree *job.Tree, emit event.Sink, trials []result.Trial) ([]trial.Spec, error) {
		for {
			mine, err := r.part(ctx, side, tree, emit, trials)
			if err != nil {
				return nil, nil //nolint:nilerr // cancelled: the job calls leave
			}
			if mine.over {
				return nil, nil
			}
			if !reflect.DeepEqual(mine.plan.Confirm, tree.Plan.Confirm) {
				if err := stages.PlanConfirmation(tree, mine.plan); err != nil {
					return nil, err
				}
			}
			if len(mine.keys) > 0 {
				return r.sides[side].p.Confirmations(mine.keys, r.sides[side].again)
			}
		}
	}
}

// leave ends the rounds, because one of the jobs has ended.
func (r *rounds) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	r.tell([2]round{{over: true}, {over: true}})
}

// arrive records that a job waits for the next round. The last one to arrive decides its content.
func (r *rounds) arrive(ctx context.Context, side int, a *arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sides[side].arrived = a
	switch {
	case r.over:
		r.tell([2]round{{over: true}, {over: true}})
	case r.sides[0].arrived != nil && r.sides[1].arrived != nil:
		decided := r.choose(ctx)
		var sides []int
		for i, part := range decided {
			if part.some() {
				sides = append(sides, i)
			}
		}
		r.turns.Await(sides)
		r.over = decided[0].over
		r.tell(decided)
	}
}

// choose returns the parts of both jobs in the next round.
func (r *rounds) choose(ctx context.Context) [2]round {
	if r.looks != nil {
		return r.looks()
	}
	return r.decide(ctx)
}

// tell sends the waiting jobs their parts of a round.
func (r *rounds) tell(parts [2]round) {
	for i, s := range r.sides {
		if s.arrived != nil {
			s.arrived.next <- parts[i]
			s.arrived = nil
		}
	}
}

// decide returns the next round.
func (r *rounds) decide(ctx context.Context) (parts [2]round) {
	head, base := r.sides[0].arrived, r.sides[1].arrived
	say := func(format string, args ...any) {
		parts[0].notes = append(parts[0].notes, fmt.Sprintf(format, args...))
	}
	if r.ran && r.head.Base == nil {
		ran := result.Summarize(base.plan, base.trials)
		r.head.Base = &reporting.FoundBaseline{Job: &ran}
	}
	before := head.plan.Confirm
	r.head.Baseline = &base.plan
	parts[0].plan = r.head.Plan(ctx, head.plan, head.trials)
	parts[1].plan = base.plan.ConfirmedLike(parts[0].plan)
	r.head.NoteMissing(say)
	parts[0].keys, parts[1].keys = r.left(parts[0].plan, head.trials, parts[1].plan, base.trials)
	over := len(parts[0].keys)+len(parts[1].keys) == 0
	if why := r.head.Affords(parts[0].plan, head.trials); !over && why != "" {
		say(stages.NotAfforded, why)
		over = true
	}
	if !over && !reflect.DeepEqual(before, parts[0].plan.Confirm) {
		say("%s", stages.ToBeSure(*parts[0].plan.Confirm, " of both"))
	}
	if over {
		return [2]round{{over: true, notes: parts[0].notes}, {over: true}}
	}
	return parts
}

// left returns the attempts that the job and the baseline can make now.
func (r *rounds) left(head result.Plan, ofHead []result.Trial, base result.Plan, ofBase []result.Trial) (first, second []result.Key) {
	return result.NextBeside(result.Confirming{Plan: head, Made: ofHead, Again: r.sides[0].again}, result.Confirming{Plan: base, Made: ofBase, Again: r.sides[1].again})
}
