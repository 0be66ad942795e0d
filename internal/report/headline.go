package report

import (
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/agent"
	"github.com/org/rollout-action/internal/gate"
	"github.com/org/rollout-action/internal/result"
)

// Mark is the one word for how a job ended.
type Mark string

// The marks. A job passes with MarkPassed and MarkInconclusive.
const (
	MarkPassed       Mark = "passed"
	MarkFailed       Mark = "failed"
	MarkInconclusive Mark = "inconclusive"
	MarkIncomplete   Mark = "incomplete" // something is missing, so nothing is certain
	MarkPart         Mark = "part"       // a shard: only the merge is judged
)

// Emoji returns the mark as a picture.
func (m Mark) Emoji() string {
	return map[Mark]string{MarkPassed: "✅", MarkFailed: "❌", MarkInconclusive: "🟡", MarkIncomplete: "⛔", MarkPart: "🧩"}[m]
}

// Mark returns how the job ended.
func (in Input) Mark() Mark {
	switch {
	case len(in.Incomplete) > 0:
		return MarkIncomplete
	case in.Plan.Shard != nil && in.Verdict.Outcome == "":
		return MarkPart
	case !in.Passed():
		return MarkFailed
	case in.Verdict.Outcome == gate.Inconclusive:
		return MarkInconclusive
	}
	return MarkPassed
}

// Headline returns how the job ended in a few words, none of them from outside: "2 broken, 1 fixed", or without a baseline
// "10 of 12 tasks passed". Without a baseline it counts the tasks of the agents that are evaluated: oracle and nop count only
// where there is no other, and nop only where it is alone.
func (in Input) Headline(cases []Case) string {
	if in.Diff == nil {
		passed, total := 0, 0
		for _, c := range evaluated(cases) {
			total++
			if c.State == Passed {
				passed++
			}
		}
		return Count(passed) + " of " + Plural(total, "task") + " passed"
	}
	var parts []string
	for _, change := range []result.Change{result.Broken, result.Errored, result.Worse, result.Fixed, result.Better} {
		if n := in.Diff.Counts[change]; n > 0 {
			parts = append(parts, Count(n)+" "+string(change))
		}
	}
	if len(parts) == 0 {
		return "no task got better or worse"
	}
	return strings.Join(parts, ", ")
}

// evaluated returns the cases of the agents that are neither oracle nor nop; if there are none, oracle's; else all.
func evaluated(cases []Case) []Case {
	for _, others := range [][]string{{agent.Oracle, agent.Nop}, {agent.Nop}} {
		kept := slices.DeleteFunc(slices.Clone(cases), func(c Case) bool { return slices.Contains(others, c.Agent) })
		if len(kept) > 0 {
			return kept
		}
	}
	return cases
}
