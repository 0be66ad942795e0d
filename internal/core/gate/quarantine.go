package gate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/core/result"
)

// quarantines are a policy's quarantines that have not expired.
type quarantines []Quarantine

// activeQuarantines returns the quarantines that apply on the day of now, in UTC, and a note for
// each that has expired or matches no task of the job. A quarantine whose day is malformed has
// expired, because not gating a task by mistake is worse than gating it.
func (p Policy) activeQuarantines(head result.Job, now time.Time) (quarantines, []string) {
	var out quarantines
	var notes []string
	today := now.UTC().Format(time.DateOnly)
	for _, q := range p.Quarantine {
		switch _, err := time.Parse(time.DateOnly, q.Until); {
		case err != nil:
			notes = append(notes, fmt.Sprintf("the quarantine of %q has no valid day in until (%q): its tasks are gated", q.Task, q.Until))
		case q.Until < today: // days in this format sort
			notes = append(notes, fmt.Sprintf("the quarantine of %q (%s) ended on %s: its tasks are gated again", q.Task, q.Reason, q.Until))
		default:
			out = append(out, q)
			if !q.matchesAny(head) {
				notes = append(notes, fmt.Sprintf("the quarantine of %q matches no task of this job: correct or remove it", q.Task))
			}
		}
	}
	return out, notes
}

// Gates reports whether a task's trials count in the gate: none of the policy's quarantines covers
// it on the day of now.
func (p Policy) Gates(dataset, task string, now time.Time) bool {
	active, _ := p.activeQuarantines(result.Job{}, now)
	return !active.covers(dataset, task)
}

func (q Quarantine) covers(dataset, task string) bool {
	return matches(q.Task, task) && matches(q.Dataset, dataset)
}

func (q Quarantine) matchesAny(head result.Job) bool {
	for _, o := range head.Results.All() {
		if q.covers(o.Dataset, o.Task) {
			return true
		}
	}
	return slices.ContainsFunc(head.Skipped, func(k result.Key) bool { return q.covers(k.Dataset, k.Task) })
}

func (q quarantines) find(dataset, task string) (Quarantine, bool) {
	for _, one := range q {
		if one.covers(dataset, task) {
			return one, true
		}
	}
	return Quarantine{}, false
}

func (q quarantines) covers(dataset, task string) bool {
	_, ok := q.find(dataset, task)
	return ok
}

// tasks returns the job's tasks that are in quarantine, sorted by dataset and task.
func (q quarantines) tasks(head result.Job) []Quarantined {
	type name struct{ dataset, task string }
	seen := map[name]bool{}
	var out []Quarantined
	add := func(k result.Key) {
		n := name{k.Dataset, k.Task}
		if seen[n] {
			return
		}
		seen[n] = true
		if one, ok := q.find(k.Dataset, k.Task); ok {
			out = append(out, Quarantined{Dataset: k.Dataset, Task: k.Task, Reason: one.Reason, Until: one.Until})
		}
	}
	for _, o := range head.Results.All() {
		add(o.Key)
	}
	for _, k := range head.Skipped {
		add(k)
	}
	slices.SortFunc(out, func(a, b Quarantined) int {
		return cmp.Or(cmp.Compare(a.Dataset, b.Dataset), cmp.Compare(a.Task, b.Task))
	})
	return out
}
