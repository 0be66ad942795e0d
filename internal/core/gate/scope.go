package gate

import (
	"path"
	"slices"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/result"
)

// matches reports whether a glob as in Group matches a name. A malformed glob matches only itself;
// package config refuses them.
func matches(glob, name string) bool {
	ok, _ := path.Match(glob, name)
	return glob == "" || ok || glob == name
}

// scope is the part of a job that thresholds apply to: the whole job or a group.
type scope struct {
	Group
	whole  bool
	rounds bool // the job ran in rounds
	left   bool // the job left out all of its trials, because nothing that changed can affect them
	// unchanged: the job took all of its trials over from its baseline. equal counts the tasks that
	// are equal on both sides by construction. They are not in tasks.
	unchanged bool
	equal     int
	matched   int // planned trials, in quarantine or not
	planned   int // planned trials that are not in quarantine
	counted   int // those of planned whose agents are evaluated
	// evaluated are the agents that rates, means, drops and broken tasks are about; see
	// agent.Evaluated.
	evaluated map[string]bool
	// all holds the results, gated those of them that are not in quarantine, tasks the gated tasks
	// of the diff (nil without one) of the agents that are evaluated.
	all, gated result.Outcomes
	tasks      []result.TaskDiff
	seconds    float64
	confirming result.USD // the cost of confirmation attempts
}

// of returns the outcomes that the group selects, and those of them that are not in quarantine.
func (g Group) of(results result.Outcomes, q quarantines) (all, gated result.Outcomes) {
	all = results.Where(func(o result.Outcome) bool { return g.matches(o.Agent, o.Dataset) })
	return all, all.Without(func(o result.Outcome) bool { return q.covers(o.Dataset, o.Task) })
}

// scope returns the part of a job that a group selects.
func (g Group) scope(head result.Job, diff *result.Diff, q quarantines) scope {
	s := scope{Group: g, whole: g.Agent == "" && g.Dataset == "", left: head.NothingAffected(), unchanged: head.UnchangedSince(diff), rounds: head.Rounds != nil, evaluated: g.evaluated(head)}
	planned := func(agent string) {
		s.planned++
		if s.evaluated[agent] {
			s.counted++
		}
	}
	s.all, s.gated = g.of(head.Results, q)
	s.matched = s.all.Len()
	for _, o := range s.all.All() {
		if !o.Reused { // its time is another job's
			s.seconds += o.DurationSec
		}
		if !q.covers(o.Dataset, o.Task) {
			planned(o.Agent)
		}
	}
	for _, k := range head.Skipped {
		if g.matches(k.Agent, k.Dataset) {
			s.matched++
			if !q.covers(k.Dataset, k.Task) {
				planned(k.Agent)
			}
		}
	}
	for _, o := range head.Confirmations.All() {
		if g.matches(o.Agent, o.Dataset) {
			s.confirming = s.confirming.Plus(o.Cost)
			s.seconds += o.DurationSec
		}
	}
	if s.whole {
		s.seconds = head.TotalDurationSec
	}
	if diff == nil {
		return s
	}
	gated := where(diff.Tasks, func(t result.TaskDiff) bool {
		return s.evaluated[t.Agent] && g.matches(t.Agent, t.Dataset) && !q.covers(t.Dataset, t.Task)
	})
	s.tasks = where(gated, func(t result.TaskDiff) bool { return !t.TakenOver })
	s.equal = len(gated) - len(s.tasks)
	return s
}

// where returns the tasks for which is returns true. It shares its elements if these are all.
func where(tasks []result.TaskDiff, is func(result.TaskDiff) bool) []result.TaskDiff {
	n := 0
	for _, t := range tasks {
		if is(t) {
			n++
		}
	}
	if n == len(tasks) {
		return slices.Clip(tasks)
	}
	out := make([]result.TaskDiff, 0, n)
	for _, t := range tasks {
		if is(t) {
			out = append(out, t)
		}
	}
	return out
}

// evaluated returns the agents of the group's trials that its rates and comparisons are about:
// neither oracle nor nop, unless the group has no others, as one that names them has.
func (g Group) evaluated(head result.Job) map[string]bool {
	names := map[string]bool{}
	for _, o := range head.Results.All() {
		if g.matches(o.Agent, o.Dataset) {
			names[o.Agent] = true
		}
	}
	for _, k := range head.Skipped {
		if g.matches(k.Agent, k.Dataset) {
			names[k.Agent] = true
		}
	}
	out := map[string]bool{}
	for _, name := range agent.Evaluated(sortedKeys(names)) {
		out[name] = true
	}
	return out
}

func (g Group) matches(agent, dataset string) bool {
	return matches(g.Agent, agent) && matches(g.Dataset, dataset)
}

// comparable returns the tasks on which a drop is measured.
func (s scope) comparable() []result.TaskDiff {
	return where(s.tasks, result.TaskDiff.Comparable)
}

// rewarded returns the gated results with a reward, of the agents that are evaluated.
func (s scope) rewarded() result.Outcomes {
	return s.gated.Where(func(o result.Outcome) bool { return o.Completed() && s.evaluated[o.Agent] })
}

// prefix returns the beginning of a sentence about the scope; "" for the whole job.
func (s scope) prefix() string {
	switch {
	case s.whole:
		return ""
	case s.Dataset == "":
		return "agent " + s.Agent + ": "
	case s.Agent == "":
		return "dataset " + s.Dataset + ": "
	}
	return "agent " + s.Agent + ", dataset " + s.Dataset + ": "
}
