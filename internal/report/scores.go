package report

import (
	"maps"
	"slices"
	"strconv"

	"github.com/org/rollout-action/internal/result"
)

// ScoreHead are the columns of scores, as ScoreRow.Cells has them.
var ScoreHead = []string{"mean", "trials", "without"}

// ScoreNote explains the columns.
const ScoreNote = "Scores of judges are from 0 to 1. Without: the judge did not run, or gave no verdict."

// ScoreRow is what a judge, or one of its criteria, says of an agent. Agent and Name may be hostile.
type ScoreRow struct {
	Agent, Name string
	Cells       []string // as ScoreHead
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
