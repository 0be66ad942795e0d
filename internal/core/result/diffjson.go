package result

import (
	"bytes"
	"encoding/json"
	"time"
)

// side identifies and sums up one of the two jobs in a diff's JSON.
type side struct {
	JobName    string    `json:"job_name"`
	Commit     *string   `json:"commit"`
	PlanDigest string    `json:"plan_digest"`
	StartedAt  time.Time `json:"started_at"`
	Cancelled  bool      `json:"cancelled"`
	Rounds     *Rounds   `json:"rounds,omitempty"`
	// Runs are the runs of a baseline of several; the summary is that of the newest.
	Runs []PooledRun `json:"runs,omitempty"`
	Summary
}

func sideOf(j Job) side {
	return side{
		JobName: j.JobName, Commit: j.Commit, PlanDigest: j.PlanDigest, StartedAt: j.StartedAt,
		Cancelled: j.Cancelled, Rounds: j.Rounds, Summary: j.Summary, Runs: j.PooledRuns(),
	}
}

// MarshalJSON encodes a diff with stable names: base and head (the jobs' names, commits and
// summaries, without their results), changes (how many tasks have each), flaky, not_affected (how
// many tasks this job left out because of what changed), not_selected (how many it did not select),
// overall, agents, groups and tasks.
func (d Diff) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Base    side           `json:"base"`
		Head    side           `json:"head"`
		Changes map[Change]int `json:"changes"`
		Flaky   int            `json:"flaky"`
		Left    int            `json:"not_affected,omitempty"`
		Other   int            `json:"not_selected,omitempty"`
		Overall GroupDiff      `json:"overall"`
		Agents  []GroupDiff    `json:"agents"`
		Groups  []GroupDiff    `json:"groups"`
		Tasks   []TaskDiff     `json:"tasks"`
	}{sideOf(d.Base), sideOf(d.Head), d.Counts, d.Flaky, d.NotAffected, d.NotSelected, d.Overall, filled(d.Agents), filled(d.Groups), filled(d.Tasks)})
}

// MarshalJSON encodes a group with its delta. The name of the agent or dataset is null if the group
// covers all of them.
func (g GroupDiff) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Agent   *string     `json:"agent_name"`
		Dataset *string     `json:"dataset_name"`
		Tasks   int         `json:"comparable_tasks"`
		Base    Level       `json:"base"`
		Head    Level       `json:"head"`
		Delta   Level       `json:"delta"`
		Usage   *UsageDiff  `json:"usage,omitempty"`
		Scores  []ScoreDiff `json:"scores,omitempty"`
	}{orNull(g.Agent), orNull(g.Dataset), g.Tasks, g.Base, g.Head, g.Delta(), g.Usage, g.Scores})
}

// MarshalJSON encodes the fields, the scores, the digest and parts of the sum with stable names.
// Costs that are a lower bound have the mark cost_at_least.
func (a *Attempts) MarshalJSON() ([]byte, error) {
	s := a.Sum()
	return inner(struct {
		Total       int32       `json:"total"`
		Rewards     []float64   `json:"rewards"`
		Scores      []float64   `json:"scores"`
		Passed      int         `json:"passed"`
		Failed      int32       `json:"failed"`
		Cancelled   int32       `json:"cancelled"`
		Lost        int32       `json:"lost"`
		Errors      []ErrorType `json:"errors,omitempty"`
		Cost        USD         `json:"cost"`
		CostAtLeast bool        `json:"cost_at_least,omitempty"`
		DurationSec float64     `json:"duration_sec"`
		Digest      string      `json:"task_digest,omitempty"`
	}{a.Total, a.Rewards, a.Scores(), a.Passed, a.Failed, a.Cancelled, a.Lost, s.Errors, s.Cost, s.Cost.AtLeast(), s.DurationSec, a.Digest()})
}

// inner returns the JSON of a part of a file. The encoder around it escapes HTML, or does not.
func inner(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return out.Bytes(), err
}

func orNull(name string) *string {
	if name == "" {
		return nil
	}
	return &name
}

// filled returns a list that JSON encodes as [] if it is empty.
func filled[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
