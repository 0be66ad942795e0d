package result

import "time"

// Comparison sums up a Diff. Rates and rewards are those of the comparable tasks of the agents that
// are evaluated.
type Comparison struct {
	Base            ComparedJob    `json:"base"`
	Changes         map[Change]int `json:"changes"` // how many tasks have each
	Flaky           int            `json:"flaky"`
	ComparableTasks int            `json:"comparable_tasks"`
	PassRate        BaseAndHead    `json:"pass_rate"`
	MeanReward      BaseAndHead    `json:"mean_reward"`
	// Agents are the agents by name, and Tasks their tasks, the most important changes first. Both
	// are nil in files of format 1. LeftOut counts the tasks beyond the bounds of Tasks.
	Agents  []ComparedAgent `json:"agents,omitempty"`
	Tasks   []ComparedTask  `json:"tasks,omitempty"`
	LeftOut int             `json:"tasks_left_out,omitempty"`
}

// ComparedAgent sums up an agent's comparable tasks, as GroupDiff does.
type ComparedAgent struct {
	Agent           string `json:"agent_name"`
	ComparableTasks int    `json:"comparable_tasks"`
	Base            Level  `json:"base"`
	Head            Level  `json:"head"`
}

// ComparedTask sums up a TaskDiff. Base or Head is nil if that job does not have the task.
type ComparedTask struct {
	Agent   string        `json:"agent_name"`
	Dataset string        `json:"dataset_name"`
	Task    string        `json:"task_name"`
	Change  Change        `json:"change"`
	Base    *ComparedSide `json:"base"`
	Head    *ComparedSide `json:"head"`
	// Confirmed describes the results of further attempts; "" without any.
	Confirmed string `json:"confirmed,omitempty"`
}

// ComparedSide sums up the attempts of one side. The means are over the scored attempts
// (Attempts.Scores) that have the number; null if none has.
type ComparedSide struct {
	Attempts     int      `json:"attempts"` // planned ones
	Passed       int      `json:"passed"`
	MeanReward   *float64 `json:"mean_reward"`
	MeanCost     USD      `json:"mean_cost"`
	CostAtLeast  bool     `json:"mean_cost_at_least,omitempty"` // MeanCost is a lower bound
	MeanDuration *float64 `json:"mean_duration_sec"`
	MeanTurns    *float64 `json:"mean_turns"`
	InputTokens  *float64 `json:"mean_input_tokens"`
	OutputTokens *float64 `json:"mean_output_tokens"`
}

// Cost returns MeanCost as the lower bound that it may be.
func (s ComparedSide) Cost() USD { return s.MeanCost.boundIf(s.CostAtLeast) }

// Bounds of a Comparison: entries, and bytes of the names and texts in Tasks. With them a file is
// far smaller than MaxVerdictFile.
const (
	maxComparedAgents = 100
	maxComparedTasks  = 1000
	maxComparedText   = 192 << 10
)

// ComparedJob identifies the baseline of a comparison.
type ComparedJob struct {
	JobName    string    `json:"job_name"`
	Commit     *string   `json:"commit"`
	PlanDigest string    `json:"plan_digest"`
	StartedAt  time.Time `json:"started_at"`
	// Runs are the runs of a baseline of several, the newest first.
	Runs []PooledRun `json:"runs,omitempty"`
}

// BaseAndHead holds one number for both sides of a comparison.
type BaseAndHead struct {
	Base float64 `json:"base"`
	Head float64 `json:"head"`
}

// ComparisonOf sums up a diff; nil for nil.
func ComparisonOf(d *Diff) *Comparison {
	if d == nil {
		return nil
	}
	c := &Comparison{
		Base:    ComparedJob{JobName: d.Base.JobName, Commit: d.Base.Commit, PlanDigest: d.Base.PlanDigest, StartedAt: d.Base.StartedAt, Runs: d.Base.PooledRuns()},
		Changes: d.Counts, Flaky: d.Flaky, ComparableTasks: d.Overall.Tasks,
		PassRate:   BaseAndHead{d.Overall.Base.PassRate, d.Overall.Head.PassRate},
		MeanReward: BaseAndHead{d.Overall.Base.MeanReward, d.Overall.Head.MeanReward},
	}
	for _, a := range d.Agents[:min(len(d.Agents), maxComparedAgents)] {
		c.Agents = append(c.Agents, ComparedAgent{a.Agent, a.Tasks, a.Base, a.Head})
	}
	text := 0
	for _, change := range Changes {
		for _, t := range d.Tasks {
			if t.Change != change {
				continue
			}
			confirmed := t.ConfirmedText()
			text += len(t.Agent) + len(t.Dataset) + len(t.Task) + len(confirmed)
			if len(c.Tasks) == maxComparedTasks || text > maxComparedText {
				c.LeftOut++
				continue
			}
			c.Tasks = append(c.Tasks, ComparedTask{t.Agent, t.Dataset, t.Task, change, comparedSide(t.Base), comparedSide(t.Head), confirmed})
		}
	}
	return c
}

// comparedSide sums up attempts; nil for nil.
func comparedSide(a *Attempts) *ComparedSide {
	if a == nil {
		return nil
	}
	m := MeansOf(a.Scored())
	s := &ComparedSide{
		Attempts: int(a.Total), Passed: a.Passed, MeanCost: m.Cost(), CostAtLeast: m.Cost().AtLeast(), MeanDuration: m.Duration(),
		MeanTurns: meanIfAny(m.Turns), InputTokens: meanIfAny(m.InputTokens), OutputTokens: meanIfAny(m.OutputTokens),
	}
	if len(a.Scores()) > 0 {
		s.MeanReward = new(a.Mean())
	}
	return s
}
