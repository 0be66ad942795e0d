package gate

import (
	"cmp"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/result"
)

// Confirmable returns the tasks that look broken and that Confirm.Attempts more attempts each may show to be flaky: those that
// passed in every attempt of the baseline and in none now, also if the agent or the verifier ended the attempts with an error.
// It leaves out
//   - tasks that have only attempts that the infrastructure ended, because these show nothing
//   - tasks whose files changed, tasks in quarantine at now, and tasks to which no max_broken_tasks of the policy applies
//   - tasks of an agent without a single reward: it does not work at all, which fails the job by itself
//
// The keys have no Attempt and are sorted; only the first Confirm.MaxTasks (0 means 20) are returned.
//
// head is the whole job. Its confirmation attempts are ignored, so a caller that was interrupted gets the same tasks again.
// A task needs no further attempt once one of them has passed.
func (p Policy) Confirmable(base, head result.Job, now time.Time) []result.Key {
	if p.Confirm.Attempts <= 0 {
		return nil
	}
	head.Confirmations, base.Confirmations = nil, nil
	diff := result.Compare(base, head)
	active, _ := p.activeQuarantines(head, now)
	works := map[string]bool{}
	for _, o := range head.Results {
		works[o.Agent] = works[o.Agent] || o.Completed()
	}
	var keys []result.Key
	for _, t := range diff.Tasks {
		if works[t.Agent] && isBroken(t) && !active.covers(t.Dataset, t.Task) && p.limitsBrokenTasksOf(t.Agent, t.Dataset) {
			keys = append(keys, result.Key{Agent: t.Agent, Dataset: t.Dataset, Task: t.Task})
		}
	}
	return keys[:min(len(keys), cmp.Or(p.Confirm.MaxTasks, maxConfirmed))]
}

// maxConfirmed is the default of Confirm.MaxTasks.
const maxConfirmed = 20

// LimitsBrokenTasks reports whether the policy has any limit on broken tasks.
func (p Policy) LimitsBrokenTasks() bool {
	return p.MaxBrokenTasks != nil || slices.ContainsFunc(p.Groups, func(g Group) bool { return g.MaxBrokenTasks != nil })
}

// limitsBrokenTasksOf reports whether a limit on broken tasks applies to an agent on a dataset.
func (p Policy) limitsBrokenTasksOf(agent, dataset string) bool {
	if p.MaxBrokenTasks != nil {
		return true
	}
	for _, g := range p.Groups {
		if g.MaxBrokenTasks != nil && g.matches(agent, dataset) {
			return true
		}
	}
	return false
}

// isBroken reports whether a task passed in every attempt of the baseline and in none now, confirmation attempts of both included.
// Attempts that the infrastructure ended do not count.
func isBroken(t result.TaskDiff) bool {
	if t.Change == result.Changed || t.Base == nil || t.Head == nil {
		return false
	}
	always := t.Base.Passed > 0 && t.Base.Passed == len(t.Base.Rewards)+t.Base.Lost
	never := t.Head.Passed == 0 && len(t.Head.Rewards)+t.Head.Lost > 0
	return always && never && !result.NotBroken(t.Confirmation, t.BaseConfirmation)
}
