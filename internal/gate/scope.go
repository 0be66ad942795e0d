package gate

import (
	"path"
	"slices"

	"github.com/org/rollout-action/internal/agent"
	"github.com/org/rollout-action/internal/result"
)

// matches reports whether a glob as in Group means a name. A malformed one matches only itself; config checks them.
func matches(glob, name string) bool {
	ok, _ := path.Match(glob, name)
	return glob == "" || ok || glob == name
}

// scope is the part of a job that thresholds are about: the whole job, or a group.
type scope struct {
	Group
	whole   bool
	matched int // planned trials, quarantined ones too
	planned int // those of them that are not quarantined
	idle    int // those of planned that are nop's
	// all are the results in it, gated those that are not quarantined; tasks are the gated ones of the diff, nil without one.
	// nop has no part in rates where others have.
	all, gated []result.Outcome
	tasks      []result.TaskDiff
	seconds    float64
	confirming result.USD // what confirmation attempts cost
}

// in is the part of a job that a group is about.
func (g Group) in(head result.Job, diff *result.Diff, q quarantines) scope {
	s := scope{Group: g, whole: g.Agent == "" && g.Dataset == ""}
	for _, o := range head.Results {
		if !g.means(o.Agent, o.Dataset) {
			continue
		}
		s.matched++
		s.all = append(s.all, o)
		s.seconds += o.DurationSec
		if !q.holds(o.Dataset, o.Task) {
			s.gated = append(s.gated, o)
			s.planned++
			s.idle += idle(o.Agent)
		}
	}
	for _, k := range head.Skipped {
		if g.means(k.Agent, k.Dataset) {
			s.matched++
			if !q.holds(k.Dataset, k.Task) {
				s.planned++
				s.idle += idle(k.Agent)
			}
		}
	}
	for _, o := range head.Confirmations {
		if g.means(o.Agent, o.Dataset) {
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
	for _, t := range diff.Tasks {
		if g.means(t.Agent, t.Dataset) && !q.holds(t.Dataset, t.Task) {
			s.tasks = append(s.tasks, t)
		}
	}
	return s
}

// idle is 1 for nop and 0 for others.
func idle(name string) int {
	if name == agent.Nop {
		return 1
	}
	return 0
}

func (g Group) means(agent, dataset string) bool {
	return matches(g.Agent, agent) && matches(g.Dataset, dataset)
}

// comparable are the tasks that a drop is measured on.
func (s scope) comparable() []result.TaskDiff {
	var out []result.TaskDiff
	for _, t := range s.tasks {
		if t.Comparable() {
			out = append(out, t)
		}
	}
	return out
}

// rewarded returns the gated results with a reward. Those of nop are not among them unless the scope has no other agent: what
// does nothing says nothing about agents.
func (s scope) rewarded() []result.Outcome {
	onlyNop := !slices.ContainsFunc(s.all, func(o result.Outcome) bool { return o.Agent != agent.Nop })
	var out []result.Outcome
	for _, o := range s.gated {
		if o.Completed() && (onlyNop || o.Agent != agent.Nop) {
			out = append(out, o)
		}
	}
	return out
}

// name is how a sentence about the scope begins: "" for the whole job.
func (s scope) name() string {
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
