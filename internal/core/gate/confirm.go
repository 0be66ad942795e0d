package gate

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/core/result"
)

// Confirmable returns the confirmation attempts that a job plans: Confirm.Attempts each, at most,
// at tasks that look broken, which more attempts may show to be flaky. These passed in every
// attempt of the baseline and in none now, also if the agent, the verifier or a judge ended the
// attempts with an error. It leaves out
//   - tasks that have only attempts that the infrastructure ended, because these show nothing
//   - tasks whose files changed, tasks in quarantine at now, and tasks to which no max_broken_tasks
//     of the policy applies
//   - tasks of an agent without a single reward: it does not work at all, which fails the job by
//     itself
//
// both: a baseline that runs with the job makes attempts, too. Then tasks that look fixed are among
// them, unless nothing is tested (noise: ignore).
//
// At most Confirm.MaxTasks tasks are returned (0 means 20, or 100 of both kinds). They are chosen
// by a hash of their names: the choice does not depend on what a task looks like, so that it
// favours neither kind, and every shard and every reader makes the same one.
//
// head is the whole job. Its confirmation attempts are ignored, so a caller that was interrupted
// gets the same tasks again.
func (p Policy) Confirmable(base, head result.Job, now time.Time, both bool) result.PlannedConfirmation {
	if p.Confirm.Attempts <= 0 {
		return result.PlannedConfirmation{}
	}
	planned := result.PlannedConfirmation{Attempts: p.Confirm.Attempts, Both: both && p.Noise != NoiseIgnore}
	head.Confirmations, base.Confirmations = result.Outcomes{}, result.Outcomes{}
	diff := result.Compare(base, head)
	active, _ := p.activeQuarantines(head, now)
	works := map[string]bool{}
	for _, o := range head.Results.All() {
		works[o.Agent] = works[o.Agent] || o.Completed()
	}
	limited := p.limitsBrokenTasksIn(head)
	fixed := map[result.Key]bool{}
	for _, t := range diff.Tasks {
		rose := planned.Both && t.LooksFixed()
		if works[t.Agent] && !t.TakenOver && (rose || looksBroken(t)) && !active.covers(t.Dataset, t.Task) && limited(t.Agent, t.Dataset) {
			key := result.Key{Agent: t.Agent, Dataset: t.Dataset, Task: t.Task}
			fixed[key] = rose
			planned.Tasks = append(planned.Tasks, key)
		}
	}
	if most := cmp.Or(p.Confirm.MaxTasks, defaultMaxTasks(planned.Both)); len(planned.Tasks) > most {
		slices.SortFunc(planned.Tasks, func(a, b result.Key) int { return cmp.Or(cmp.Compare(lot(a), lot(b)), a.Compare(b)) })
		planned.Tasks = planned.Tasks[:most]
		slices.SortFunc(planned.Tasks, result.Key.Compare)
	}
	for _, k := range planned.Tasks {
		if fixed[k] {
			planned.Fixed = append(planned.Fixed, k)
		}
	}
	return planned
}

// lot returns a hash of a task's names.
func lot(k result.Key) string {
	sum := sha256.Sum256([]byte(k.Agent + "\x00" + k.Dataset + "\x00" + k.Task))
	return string(sum[:])
}

// defaultMaxTasks is the default of Confirm.MaxTasks. If both sides make attempts, the test is
// about the tasks that were tried again, so it takes more of them.
func defaultMaxTasks(both bool) int {
	if both {
		return 100
	}
	return 20
}

// LimitsBrokenTasks reports whether the policy has any limit on broken tasks.
func (p Policy) LimitsBrokenTasks() bool {
	return p.MaxBrokenTasks != nil || slices.ContainsFunc(p.Groups, func(g Group) bool { return g.MaxBrokenTasks != nil })
}

// limitsBrokenTasksIn returns a function that reports whether a limit on broken tasks applies to an
// agent on a dataset.
func (p Policy) limitsBrokenTasksIn(head result.Job) func(agent, dataset string) bool {
	var groups []Group
	var evaluated []map[string]bool
	for _, g := range append([]Group{{Thresholds: p.Thresholds}}, p.Groups...) {
		if g.MaxBrokenTasks != nil {
			groups, evaluated = append(groups, g), append(evaluated, g.evaluated(head))
		}
	}
	return func(agent, dataset string) bool {
		for i, g := range groups {
			if g.matches(agent, dataset) && evaluated[i][agent] {
				return true
			}
		}
		return false
	}
}

// looksBroken reports whether a task passed in every attempt of the baseline and in none now,
// confirmation attempts aside. Attempts that the infrastructure ended do not count.
func looksBroken(t result.TaskDiff) bool {
	if t.Change == result.Changed || t.Base == nil || t.Head == nil {
		return false
	}
	always := t.Base.Passed > 0 && t.Base.Passed == len(t.Base.Scores())
	never := t.Head.Passed == 0 && len(t.Head.Scores()) > 0
	return always && never
}
