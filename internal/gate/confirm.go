package gate

import (
	"cmp"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/result"
)

// Confirmable are the tasks that look broken and that Confirm.Attempts more attempts each may show to be flaky: passed in every
// attempt of the baseline and in none now, be it that the agent or the verifier ended them with an error. Attempts that
// the infrastructure ended show nothing: a task that has no others is not among them. Nor are tasks whose files changed, that are in
// quarantine at now, or that no max_broken_tasks of the policy is about, nor those of an agent that has not one reward: it does not work at all, which fails
// the job by itself. The keys have no Attempt, and are sorted. There are at most
// Confirm.MaxTasks of them (0: 20), the first ones.
//
// head is the whole job. Its confirmation attempts are not looked at: a task that has some is named as before, so that whoever
// is interrupted finds the same tasks again. A task needs no further attempt once one of them has passed.
func (p Policy) Confirmable(base, head result.Job, now time.Time) []result.Key {
	if p.Confirm.Attempts <= 0 {
		return nil
	}
	head.Confirmations = nil
	diff := result.Compare(base, head)
	held, _ := p.current(head, now)
	works := map[string]bool{}
	for _, o := range head.Results {
		works[o.Agent] = works[o.Agent] || o.Completed()
	}
	var keys []result.Key
	for _, t := range diff.Tasks {
		if works[t.Agent] && broke(t) && !held.holds(t.Dataset, t.Task) && p.limitsBroken(t.Agent, t.Dataset) {
			keys = append(keys, result.Key{Agent: t.Agent, Dataset: t.Dataset, Task: t.Task})
		}
	}
	return keys[:min(len(keys), cmp.Or(p.Confirm.MaxTasks, maxConfirmed))]
}

// maxConfirmed is the default of Confirm.MaxTasks.
const maxConfirmed = 20

// LimitsBroken reports whether there is any limit on broken tasks.
func (p Policy) LimitsBroken() bool {
	return p.MaxBrokenTasks != nil || slices.ContainsFunc(p.Groups, func(g Group) bool { return g.MaxBrokenTasks != nil })
}

// limitsBroken reports whether a limit on broken tasks is about an agent on a dataset.
func (p Policy) limitsBroken(agent, dataset string) bool {
	if p.MaxBrokenTasks != nil {
		return true
	}
	for _, g := range p.Groups {
		if g.MaxBrokenTasks != nil && g.means(agent, dataset) {
			return true
		}
	}
	return false
}

// broke reports that a task passed in every attempt of the baseline and never now, confirmation attempts included, and that
// this is not only the infrastructure's doing.
func broke(t result.TaskDiff) bool {
	if t.Change == result.Changed || t.Base == nil || t.Head == nil {
		return false
	}
	always := t.Base.Passed > 0 && t.Base.Passed == len(t.Base.Rewards)+t.Base.Lost
	never := t.Head.Passed == 0 && len(t.Head.Rewards)+t.Head.Lost > 0
	return always && never && (t.Confirmation == nil || t.Confirmation.Passed == 0)
}
