package judging

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"

	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// Rank runs the judge once for each order. made contains an error if one of them failed.
func (b *Bench) Rank(ctx context.Context, g *Group) (made Ranking) {
	j := g.Judge
	made = Ranking{ID: g.id, Scores: map[string]*float64{}, Label: map[string]string{}}
	made.Run = result.AgentRun{
		Name: j.Name, Role: result.RoleJudge, Agent: j.Spec.Agent, Model: j.Agent.Model, Placement: string(j.Place()), Digest: b.Digest(j.Spec),
		Group: &result.GroupRun{ID: g.id, Files: g.members[0].subject.Key, Ignored: j.OnError == judge.Ignore},
	}
	run := &made.Run
	fail := func(kind result.ErrorType, format string, args ...any) {
		run.Error = &result.Error{Type: kind, Message: failure.Hide(b.Secrets, fmt.Sprintf(format, args...))}
	}
	shown := g.candidates()
	switch {
	case len(shown) < 2:
		run.Skipped = true
		if j.When == "" { // with a condition, that is expected
			run.Warnings = append(run.Warnings, judge.ErrFewCandidates.Error())
		}
		return made
	case len(shown) > judge.MaxCandidates:
		fail(result.JudgeFailed, "the judge %s cannot rank %d trials of %s: %v", j.Name, len(shown), g, judge.ErrManyCandidates)
		return made
	}
	evidences := make([]*Evidence, len(shown))
	for i, m := range shown {
		e, err := m.evidence(b.Secrets)
		if err != nil {
			fail(result.JudgeFailed, "the judge %s cannot rank %s: the evidence of %s: %v", j.Name, g, m.trial.Key, err)
			return made
		}
		evidences[i] = e
	}
	began := b.Now()
	run.StartedAt = new(result.Stamp(began))
	defer func() { run.Sec = new(result.Seconds(b.Now().Sub(began))) }()
	orders := make([]order, j.Rankings())
	var all sync.WaitGroup
	for nth := range orders {
		all.Go(func() { orders[nth] = b.rankOrder(ctx, g, shown, evidences, nth) })
	}
	all.Wait()
	for _, o := range orders {
		o.addTo(run)
		if f := o.failed; f != nil && run.Error == nil {
			fail(f.Type, "%s", strings.Join(strings.Fields(f.Message), " "))
		}
	}
	if run.Error != nil {
		return made
	}
	beaten := make(map[string]int, len(shown)) // twice the number of beaten candidates; 1 for each equally good one
	for nth, o := range orders {
		wins := judge.Beaten(o.ranks)
		keys := make([]result.Key, len(shown))
		for place, i := range o.order {
			keys[place] = shown[i].trial.Key
			beaten[keys[place].String()] += wins[place]
			if nth == 0 {
				made.Label[keys[place].String()] = judge.Label(place)
			}
		}
		run.Group.Orders = append(run.Group.Orders, result.GroupOrder{Shown: keys, Ranks: o.ranks})
	}
	for key, n := range beaten {
		made.Scores[key] = new(float64(n) / float64(2*(len(shown)-1)*len(orders)))
	}
	return made
}

// order is the outcome of a ranking in one order.
type order struct {
	Outcome
	order []int // the candidates in the order shown, by index
	ranks []int // in this order
}

// rankOrder runs the judge on the candidates in the nth order.
func (b *Bench) rankOrder(ctx context.Context, g *Group, shown []member, evidences []*Evidence, nth int) (out order) {
	j := g.Judge
	seed := sha256.Sum256([]byte(g.String() + "\x00" + j.Name))
	out.order = judge.Order(len(shown), nth, binary.LittleEndian.Uint64(seed[:]))
	in := &groupEvidence{}
	for _, i := range out.order {
		in.candidates = append(in.candidates, evidences[i])
	}
	out.Run = result.AgentRun{Name: j.Name}
	below := j.Name
	if nth > 0 {
		below = fmt.Sprintf("%s.order-%d", j.Name, nth+1)
	}
	select {
	case b.Places <- struct{}{}:
		defer func() { <-b.Places }()
	case <-ctx.Done():
		return out
	}
	b.judgeIn(ctx, j, in, below, &out.Outcome)
	out.ranks = in.ranks
	return out
}

// addTo adds the cost, usage and warnings of a ranking in one order to the record of the judge.
func (o order) addTo(run *result.AgentRun) {
	run.Cost = run.Cost.Plus(o.Run.Cost)
	run.Group.EnvironmentCost = run.Group.EnvironmentCost.Plus(o.env)
	run.Usage = run.Usage.Plus(o.Run.Usage)
	run.Attempts = max(run.Attempts, o.Run.Attempts)
	run.StopCondition, run.IsTruncated = cmp.Or(run.StopCondition, o.Run.StopCondition), run.IsTruncated || o.Run.IsTruncated
	run.Warnings = append(run.Warnings, o.Run.Warnings...)
	if run.Verdict == nil {
		run.Verdict, run.Reason, run.Trajectory = o.Run.Verdict, o.Run.Reason, o.Run.Trajectory
	}
}
