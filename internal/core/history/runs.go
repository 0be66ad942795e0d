package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/org/rollout-action/internal/core/result"
)

// Run is the part of a job in the history that belongs to one agent.
type Run struct {
	Point
	Agent   Agent
	Changed Changed // since the last run of all tasks
}

// Part reports whether the job left tasks out because of what changed, or because flags did not
// select them, so that its numbers are about a part of the tasks and comparable with those of no
// other run. Flags matter only for the agents of Runs and Whole: they leave out what another run
// has.
func (a *Agent) Part() bool { return a.LeftOut+a.unselected > 0 }

// marked returns points in which an agent knows how many tasks of other runs the flags of its job
// did not select. If no run has them, for example because every run has the same flags, none is
// missing.
func marked(points []Point, name string) []Point {
	if !slices.ContainsFunc(points, func(p Point) bool { return p.NotSelected != nil }) {
		return points
	}
	all := map[result.Key]bool{} // of the tasks that the agent had in any run
	for _, p := range points {
		for _, a := range p.Agents {
			for _, t := range a.Tasks {
				if a.Name == name && t.Attempts > 0 {
					all[result.Key{Dataset: t.Dataset, Task: t.Name}] = true
				}
			}
		}
	}
	points = slices.Clone(points)
	for i, p := range points {
		if p.NotSelected == nil {
			continue
		}
		left := 0
		for task := range all {
			if p.NotSelected.Has(task) {
				left++
			}
		}
		points[i].Agents = slices.Clone(p.Agents)
		for j := range p.Agents {
			if points[i].Agents[j].Name == name {
				points[i].Agents[j].unselected = left
			}
		}
	}
	return points
}

// IsPart reports whether the run of an agent in p had a part of the tasks that it has in p and the
// other points.
func IsPart(points []Point, p Point, name string) bool {
	runs := Runs(append(Without(points, p), p), name)
	return len(runs) > 0 && runs[len(runs)-1].same(p) && runs[len(runs)-1].Agent.Part()
}

// Runs returns the jobs that have an agent, in the order of the points.
func Runs(points []Point, name string) []Run {
	var runs []Run
	var whole *Agent // in the last run of all tasks
	points = marked(points, name)
	for _, p := range points {
		i := slices.IndexFunc(p.Agents, func(a Agent) bool { return a.Name == name })
		if i < 0 {
			continue
		}
		run := Run{Point: p, Agent: p.Agents[i]}
		if whole != nil {
			run.Changed = ChangeOf(*whole, run.Agent)
		}
		if run.Agent.Part() {
			run.Changed.Part = true
		} else {
			whole = &p.Agents[i]
		}
		runs = append(runs, run)
	}
	return runs
}

// Whole returns the runs of all tasks.
func Whole(runs []Run) []Run {
	return slices.DeleteFunc(slices.Clone(runs), func(r Run) bool { return r.Agent.Part() })
}

// PartsNote says how many of the runs of an agent had a part of the tasks; "" if none had.
func PartsNote(points []Point, name string) string {
	runs := Runs(points, name)
	switch n := len(runs) - len(Whole(runs)); n {
	case 0:
		return ""
	case 1:
		return "1 run had only a part of the tasks (--changed, --task and the like): its rates are in no level, block or chart."
	default:
		return fmt.Sprintf("%d runs had only a part of the tasks (--changed, --task and the like): their rates are in no level, block or chart.", n)
	}
}

// TaskRuns holds the attempts at a task in each of some runs; runs that did not have the task have
// zero attempts.
type TaskRuns struct {
	Dataset, Name string
	Runs          []Task
}

// TasksOf returns the tasks of runs, sorted. If a file has a task twice in a run, the first counts.
func TasksOf(runs []Run) []TaskRuns {
	type key struct{ dataset, task string }
	all := map[key]*TaskRuns{}
	for i, run := range runs {
		seen := map[key]bool{}
		for _, t := range run.Agent.Tasks {
			k := key{t.Dataset, t.Name}
			if seen[k] {
				continue
			}
			seen[k] = true
			if all[k] == nil {
				all[k] = &TaskRuns{t.Dataset, t.Name, make([]Task, len(runs))}
			}
			all[k].Runs[i] = t
		}
	}
	var out []TaskRuns
	for _, t := range all {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b TaskRuns) int { return cmp.Or(cmp.Compare(a.Dataset, b.Dataset), cmp.Compare(a.Name, b.Name)) })
	return out
}

// Sign returns ✓ if each attempt at a task passed, ~ if some did, ✗ if none did, and · if there is
// no attempt with a score.
func (t Task) Sign() string {
	switch {
	case t.Attempts <= 0:
		return "·"
	case t.Passed >= t.Attempts:
		return "✓"
	case t.Passed > 0:
		return "~"
	}
	return "✗"
}

// Names returns the names of all agents, sorted.
func Names(points []Point) []string {
	names := map[string]bool{}
	for _, p := range points {
		for _, a := range p.Agents {
			names[a.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// BranchOf returns the branch of the newest point that names one; "" if none does.
func BranchOf(points []Point) string {
	for _, p := range slices.Backward(points) {
		if p.Branch != "" {
			return p.Branch
		}
	}
	return ""
}

// Without returns the points of other jobs than p.
func Without(points []Point, p Point) []Point { return slices.DeleteFunc(slices.Clone(points), p.same) }
