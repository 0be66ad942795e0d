package affects

import (
	"slices"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/dataset"
	"github.com/org/rollout-action/internal/run/trial"
)

// Reason names the first changed file that can affect a trial, and the rule that matched it.
type Reason struct {
	File string
	Rule int // the index in the job file; -1: no rule names the file, so it affects all trials
}

// Selection is the outcome of Select.
type Selection struct {
	Affected []trial.Spec // in the order of the specs
	Reasons  []Reason     // of each of Affected
	Left     []trial.Spec // the other specs
	Nothing  []string     // the changed files that affect no trial
	Unnamed  []string     // those that no rule names, so that they affect all trials
}

// Select divides trials into those that the changed files can affect, and the others. Of each file
// the first rule with a matching path counts. A file that no rule names affects all trials.
func Select(rules []config.Affects, changed []string, specs []trial.Spec) Selection {
	var s Selection
	first := map[int]Reason{} // of each rule, by its index
	var order []int           // of rules, as files name them; -1 comes first, because it has all
	for _, file := range changed {
		rule := slices.IndexFunc(rules, func(r config.Affects) bool { return r.Matches(file) })
		if rule < 0 {
			s.Unnamed = append(s.Unnamed, file)
		}
		if _, known := first[rule]; !known {
			first[rule] = Reason{File: file, Rule: rule}
			order = append(order, rule)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return min(a, 0) - min(b, 0) })
	used := map[int]bool{}
	for _, spec := range specs {
		found := -1
		for i, rule := range order {
			if rule < 0 || selects(rules[rule], spec) {
				used[rule] = true
				if found < 0 {
					found = i
				}
			}
		}
		if found < 0 {
			s.Left = append(s.Left, spec)
			continue
		}
		s.Affected, s.Reasons = append(s.Affected, spec), append(s.Reasons, first[order[found]])
	}
	for _, file := range changed {
		if rule := slices.IndexFunc(rules, func(r config.Affects) bool { return r.Matches(file) }); !used[rule] {
			s.Nothing = append(s.Nothing, file)
		}
	}
	return s
}

// Of returns a function that reports whether a rule selects trials of a task, whatever the agent.
func Of(rule config.Affects) func(*task.Task) bool {
	return func(t *task.Task) bool { return rule.HasTask(t.Name) && dataset.HasMetadata(t, rule.Metadata) }
}

// selects reports whether a rule selects a trial.
func selects(rule config.Affects, spec trial.Spec) bool {
	return rule.HasAgent(spec.Key.Agent) && rule.HasTask(spec.Key.Task) && dataset.HasMetadata(spec.Task, rule.Metadata)
}

// Record returns the record of the trials that a selection leaves out. base is the commit from
// which changes count, files the number of files that changed.
func (s Selection) Record(base string, files int) *result.NotAffected {
	out := &result.NotAffected{Since: base, Files: files, Trials: len(s.Left), Affected: len(s.Affected), Tasks: []result.LeftOut{}}
	for _, spec := range s.Left {
		out.Tasks = append(out.Tasks, result.LeftOut{Agent: spec.Key.Agent, Dataset: spec.Key.Dataset, Task: spec.Key.Task})
	}
	slices.SortFunc(out.Tasks, func(a, b result.LeftOut) int { return a.Key().Compare(b.Key()) })
	out.Tasks = slices.Compact(out.Tasks)
	return out
}
