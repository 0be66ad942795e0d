package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/core/result"
)

// ScoreHead lists the column titles of ScoreRow.Cells.
var ScoreHead = []string{"mean", "trials", "without"}

// ScoreNote explains the columns.
const ScoreNote = "Scores of judges are from 0 to 1. Without: the judge did not run, or gave no verdict."

// ScoreRow sums up the scores that a judge, or one of its criteria, gave an agent. Agent and Name
// may be hostile.
type ScoreRow struct {
	Agent, Name string
	Cells       []string // as ScoreHead
}

// ScoreChangeHead lists the column titles of ScoreChange.Cells.
var ScoreChangeHead = []string{"baseline", "now", "change", "tasks"}

// ScoreChange compares a score with the baseline, on the tasks that have it on both sides. Agent
// and Name may be hostile.
type ScoreChange struct {
	Agent, Name string
	Cells       []string // as ScoreChangeHead
}

// ScoreChanges returns how the scores of agents differ from the baseline, and notes about scores
// that cannot be compared; none without judges.
func ScoreChanges(d *result.Diff) (rows []ScoreChange, notes []string) {
	if d == nil {
		return nil, nil
	}
	for _, g := range d.Agents {
		var changed []string
		for _, s := range g.Scores {
			if s.Changed > 0 && !strings.Contains(s.Name, ".") {
				changed = append(changed, fmt.Sprintf("%s on %s", s.Name, Plural(s.Changed, "task")))
			}
			if s.Base == nil || s.Head == nil {
				continue
			}
			rows = append(rows, ScoreChange{g.Agent, s.Name, []string{Number(*s.Base), Number(*s.Head), Signed(*s.Head-*s.Base, Number), strconv.Itoa(s.Tasks)}})
		}
		if len(changed) > 0 {
			notes = append(notes, fmt.Sprintf("agent %s: the judge changed, so scores are not compared (%s); rewards that depend on them may differ because of that", g.Agent, strings.Join(changed, ", ")))
		}
	}
	return rows, notes
}

// Scores returns the scores of a job's agents, sorted by agent and name; none without judges.
func Scores(job result.Job) []ScoreRow {
	var rows []ScoreRow
	for _, name := range slices.Sorted(maps.Keys(job.Agents)) {
		for _, s := range job.Agents[name].Scores {
			mean := "–"
			if s.Mean != nil {
				mean = Number(*s.Mean)
			}
			rows = append(rows, ScoreRow{name, s.Name, []string{mean, strconv.Itoa(s.Trials), strconv.Itoa(s.Missing)}})
		}
	}
	return rows
}
