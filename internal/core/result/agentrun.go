package result

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// AgentRun is one agent's part in a trial with judges.
type AgentRun struct {
	Name      string `json:"name"` // of the agent in the job, or of the judge
	Role      Role   `json:"role"`
	Agent     string `json:"agent"`               // that ran: an agent of the job, a preset, or "call"
	Model     string `json:"model,omitempty"`     // its name in models of the job; "" without one
	Placement string `json:"placement,omitempty"` // of a judge: "trial" or "fresh"; "" for a call
	// Digest is that of a judge's definition: its prompt, schema, agent and model. Scores of judges
	// with other digests are not compared.
	Digest string `json:"digest,omitempty"`
	// Trainable: the turns may be used for training. It is never true for a judge.
	Trainable bool `json:"trainable"`
	// Skipped: the judge's condition (when) was not met, so it did not run.
	Skipped bool `json:"skipped,omitempty"`
	// Usage has the requested and answered models; null without a gateway. It and Cost are those of
	// all attempts of a judge.
	Usage *Usage `json:"usage,omitempty"`
	Cost  USD    `json:"cost"` // of the model; null if it is not known
	// StartedAt is when a judge began; null if it did not run, and for the trial's own agent, whose
	// times are the trial's.
	StartedAt *time.Time `json:"started_at,omitempty"`
	// Sec is the time that the run took, with its environment; null if it did not run.
	Sec           *float64 `json:"sec,omitempty"`
	Attempts      int      `json:"attempts,omitempty"` // of a judge; see retry.judge_attempts
	StopCondition string   `json:"stop_condition,omitempty"`
	IsTruncated   bool     `json:"is_truncated,omitempty"`
	Error         *Error   `json:"error,omitempty"`
	Warnings      []string `json:"warnings,omitempty"`
	// Verdict is the judge's verdict, redacted: an object that fits its schema; null without one.
	Verdict json.RawMessage `json:"verdict,omitempty"`
	Score   *float64        `json:"score,omitempty"`
	// Criteria are the values of a judge's criteria by name, from 0 to 1.
	Criteria map[string]float64 `json:"criteria,omitempty"`
	Reason   string             `json:"reason,omitempty"` // hostile text, in the verdict's own words; shortened
	// Trajectory is the path of the record below the trial's directory; "" if there is none.
	Trajectory string `json:"trajectory,omitempty"`
	// Group describes the ranking of the trial by a judge with scope: group; null for others.
	Group *GroupRun `json:"group,omitempty"`
}

// GroupRun is the part of a trial in a ranking of all trials of its task.
type GroupRun struct {
	// ID tells rankings of other trials, and of other judges, apart.
	ID string `json:"id"`
	// Files is the trial whose directory has the files of the judge. The usage of the judge is in
	// that trial's AgentRun alone; its cost is shared by all trials that it ranked.
	Files Key `json:"files"`
	// Orders are the rankings, of which the score is the mean. Only the AgentRun of the trial in
	// Files has them.
	Orders []GroupOrder `json:"orders,omitempty"`
	// Ignored: the judge's errors are ignored (on_error: ignore), so the job is not incomplete
	// without the ranking.
	Ignored bool `json:"ignored,omitempty"`
	// EnvironmentCost is the part of the trial's cost that the judge's environments have; null if
	// they cost nothing or it is not known.
	EnvironmentCost USD `json:"environment_cost"`
}

// GroupOrder is a ranking of trials that were shown in one order.
type GroupOrder struct {
	Shown []Key `json:"shown"` // the first was shown first
	// Ranks are those of Shown. 1 is the best; trials that are equally good have the same.
	Ranks []int `json:"ranks"`
}

// Role is the part of an agent in a trial.
type Role string

// The roles.
const (
	RolePolicy Role = "policy" // the agent that is evaluated
	RoleJudge  Role = "judge"
)

// WithoutGroups returns the trial as it was before judges of groups ranked it: all of them, or the
// one with a name.
func (t Trial) WithoutGroups(name string) Trial {
	ranks := func(run AgentRun) bool { return run.Group != nil && (name == "" || run.Name == name) }
	if !slices.ContainsFunc(t.Agents, ranks) {
		return t
	}
	t.Scores, t.Rewards = maps.Clone(t.Scores), maps.Clone(t.Rewards)
	var agents []AgentRun
	t.Costs.Judges = USD{}
	for _, run := range t.Agents {
		if !ranks(run) {
			agents = append(agents, run)
			if run.Role == RoleJudge {
				t.Costs.Judges = t.Costs.Judges.Plus(run.Cost)
			}
			continue
		}
		if run.Group.EnvironmentCost.Amount() > 0 {
			t.Costs.Environment = t.Costs.Environment.Minus(run.Group.EnvironmentCost)
		}
		if _, has := t.Scores[run.Name]; has {
			t.Scores[run.Name] = nil
		}
		delete(t.Rewards, run.Name)
		of := "the judge " + run.Name
		t.Warnings = slices.DeleteFunc(slices.Clone(t.Warnings), func(w string) bool { return strings.HasPrefix(w, of+" ") || strings.HasPrefix(w, of+":") })
	}
	t.Agents = agents
	SumCosts(&t)
	return t
}
