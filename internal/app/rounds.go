package app

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/trial"
)

// rounds coordinates the confirmation attempts of a job and its baseline: each round has one
// attempt of both at each task that is still undecided. A round begins when both jobs have ended
// the previous one, so that the attempts run side by side.
type rounds struct {
	head  *confirmer // chooses the tasks
	sides [2]*roundsOf
	turns *job.Turns
	// ran: the baseline has run all trials, so that the job is compared with it.
	ran bool

	mu   sync.Mutex
	over bool // one of the jobs has ended: there are no more rounds
}

// roundsOf is the state of one job in the rounds.
type roundsOf struct {
	p       *planned
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
	notes []string // for the user
}

// next returns the function that returns the confirmation attempts of one job. See
// job.Options.Confirm.
func (r *rounds) next(side int) func(context.Context, *job.Tree, event.Sink, []result.Trial) ([]trial.Spec, error) {
	return func(ctx context.Context, tree *job.Tree, emit event.Sink, trials []result.Trial) ([]trial.Spec, error) {
		for {
			a := &arrival{plan: tree.Plan, trials: trials, next: make(chan round, 1)}
			r.arrive(ctx, side, a)
			var mine round
			select {
			case mine = <-a.next:
			case <-ctx.Done():
				return nil, nil // the job calls leave
			}
			for _, note := range mine.notes {
				emit(event.Event{Time: r.head.p.host.Now().UTC(), Kind: event.Notice, Message: note})
			}
			if mine.over {
				return nil, nil
			}
			if !reflect.DeepEqual(mine.plan.Confirm, tree.Plan.Confirm) {
				if err := planConfirmation(tree, mine.plan); err != nil {
					return nil, err
				}
			}
			if len(mine.keys) > 0 {
				return r.sides[side].p.confirmations(mine.keys, r.sides[side].again)
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
		decided := r.decide(ctx)
		var sides []int
		for i, part := range decided {
			if len(part.keys) > 0 {
				sides = append(sides, i)
			}
		}
		r.turns.Await(sides)
		r.over = decided[0].over
		r.tell(decided)
	}
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
	if r.ran && r.head.base == nil {
		ran := result.Summarize(base.plan, base.trials)
		r.head.base = &foundBaseline{job: &ran}
	}
	before := head.plan.Confirm
	r.head.beside = &base.plan
	parts[0].plan = r.head.plan(ctx, head.plan, head.trials)
	parts[1].plan = base.plan.ConfirmedLike(parts[0].plan)
	r.head.noteMissing(say)
	parts[0].keys, parts[1].keys = r.left(parts[0].plan, head.trials, parts[1].plan, base.trials)
	over := len(parts[0].keys)+len(parts[1].keys) == 0
	if why := r.head.affords(parts[0].plan, head.trials); !over && why != "" {
		say(notAfforded, why)
		over = true
	}
	if !over && !reflect.DeepEqual(before, parts[0].plan.Confirm) {
		say("%s", toBeSure(*parts[0].plan.Confirm, " of both"))
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
