package json

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// SchemaVersion is incremented when a field changes its meaning or is removed. New fields do not
// change it.
const SchemaVersion = 1

// Reporter writes the object, indented, with a final newline. It implements report.Reporter. Texts
// from outside are not changed: programs that show them must make them safe. The file itself is
// safe to print: invisible characters, and what GitHub's runner would read as a command, are
// written as \u escapes.
type Reporter struct{}

// Report is the object. Rates are from 0 to 1, rewards have no unit, costs are US dollars,
// durations seconds, times UTC. Lists are never null, and are sorted as stated.
type Report struct {
	SchemaVersion int    `json:"schema_version"`
	JobName       string `json:"job_name"`
	// Passed: the gate passed and nothing is missing, so the exit code is 0.
	Passed bool `json:"passed"`
	// Outcome is passed, failed, inconclusive (passes), incomplete (does not pass) or part (a
	// shard, which is not judged).
	Outcome report.Mark `json:"outcome"`
	// Headline is the outcome in a few words: "2 broken, 1 fixed".
	Headline string `json:"headline"`
	// Verdict is the verdict of the gate: outcome (pass, fail, inconclusive; "" for a shard),
	// reason, checks, notes, quarantined.
	Verdict    gate.Verdict `json:"verdict"`
	Incomplete []string     `json:"incomplete"` // sentences about the missing parts of the job
	Notes      []string     `json:"notes"`

	Commit      *string       `json:"commit"` // of the job file; null outside git
	Sha         string        `json:"sha"`    // that was evaluated, for display; "" if unknown
	PlanDigest  string        `json:"plan_digest"`
	Shard       *result.Shard `json:"shard"` // null for a whole job
	Cancelled   bool          `json:"cancelled"`
	StartedAt   time.Time     `json:"started_at"`
	EndedAt     time.Time     `json:"ended_at"`
	DurationSec float64       `json:"duration_sec"` // from the start to the end of the last trial

	Summary result.Summary `json:"summary"` // of all trials
	Costs   result.Costs   `json:"costs"`
	// CostsAtLeast has the names of the parts of Costs that are lower bounds.
	CostsAtLeast []string                 `json:"costs_at_least,omitempty"`
	Errors       map[result.ErrorType]int `json:"errors"` // number of trials by type of error
	States       map[report.State]int     `json:"states"` // number of tasks, for each agent, by state; every state has an entry
	Groups       []Group                  `json:"groups"` // sorted by agent and dataset
	Tasks        []Task                   `json:"tasks"`  // for each agent, sorted by agent, dataset and task

	// Versus compares agents in pairs, as the key compare of the job file asks; omitted without it.
	Versus []gate.Versus `json:"versus,omitempty"`

	Baseline Baseline `json:"baseline"`
	Diff     *Diff    `json:"diff"` // null without a baseline
	Links    Links    `json:"links"`
}

// Group sums up the trials of one agent on one dataset.
type Group struct {
	Agent   string `json:"agent_name"`
	Dataset string `json:"dataset_name"`
	result.Summary
	DurationSec float64 `json:"duration_sec"` // of its trials, together
}

// Task has one agent's attempts at one task.
type Task struct {
	Agent   string `json:"agent_name"`
	Dataset string `json:"dataset_name"`
	Task    string `json:"task_name"`
	Path    string `json:"path"` // in its repository; "" if unknown
	// State is passed, flaky, failed, errored, skipped or unverified.
	State       report.State  `json:"state"`
	Change      result.Change `json:"change,omitempty"` // since the baseline, see Diff; omitted without one
	Quarantined bool          `json:"quarantined"`
	Reward      *float64      `json:"reward"`                  // mean of the attempts that have one; null without any
	Cost        result.USD    `json:"cost"`                    // null if none was reported
	CostAtLeast bool          `json:"cost_at_least,omitempty"` // Cost is a lower bound
	DurationSec float64       `json:"duration_sec"`
	Attempts    []Attempt     `json:"attempts"` // planned ones, by number
	// Confirmation has the results of the attempts that were made because the task looked broken or
	// fixed (gate.confirm). No other number of the task has them; it is left out without any.
	Confirmation *Side `json:"confirmation,omitempty"`
}

// Attempt describes a trial.
type Attempt struct {
	Attempt     int           `json:"attempt"`
	Run         bool          `json:"run"` // false if there is no result
	Reward      *float64      `json:"reward"`
	Error       *result.Error `json:"error"`
	Cost        result.USD    `json:"cost"`                    // null if none was reported
	CostAtLeast bool          `json:"cost_at_least,omitempty"` // Cost is a lower bound
	DurationSec float64       `json:"duration_sec"`
	Dir         string        `json:"dir"` // below the job's directory
	// Reused tells which job ran the trial, if it was not this one; cost and duration are those of
	// that run.
	Reused *result.Reused `json:"reused,omitempty"`
	// Reverified tells which job ran the agent, if this one ran only the tests; a part of the cost
	// is that of the agent's run.
	Reverified *result.Reverified `json:"reverified,omitempty"`
	// Rewards are the numbers in the verifier's reward.json by name, if there is one. Names are
	// hostile.
	Rewards map[string]float64 `json:"rewards,omitempty"`
	// Advantage is the reward minus the mean of the task's attempts. AdvantageNormalized is that
	// divided by their standard deviation. They are omitted for tasks with one attempt or with an
	// attempt without a reward, and in shards.
	Advantage           *float64 `json:"advantage,omitempty"`
	AdvantageNormalized *float64 `json:"advantage_normalized,omitempty"`
}

// Baseline identifies what was compared with. Description is a sentence about it, or about why
// there is nothing to compare with.
type Baseline struct {
	Description string  `json:"description"`
	JobName     string  `json:"job_name,omitempty"`
	Commit      *string `json:"commit,omitempty"`
}

// Diff is the comparison with the baseline. Changes has the number of tasks by change: broken,
// errored, worse, fixed, better, changed (the task's own files), new, removed, same, and the others
// of result.Changes.
type Diff struct {
	Counts  map[result.Change]int `json:"counts"`
	Flaky   int                   `json:"flaky"`
	Overall Compared              `json:"overall"`
	Groups  []Compared            `json:"groups"` // for each agent and dataset, sorted
	// Tasks are the tasks that are not the same, including removed ones, sorted by agent, dataset
	// and task.
	Tasks []TaskDiff `json:"tasks"`
}

// Compared compares two jobs on the tasks that both have, unchanged and with scores. A trial that
// the agent or the verifier ended without a reward counts as 0, as in the checks.
type Compared struct {
	Agent   string `json:"agent_name,omitempty"`
	Dataset string `json:"dataset_name,omitempty"`
	Tasks   int    `json:"tasks"`
	Base    Level  `json:"base"`
	Head    Level  `json:"head"`
	// Usage has means per trial of both sides, and how many trials know no cost; omitted if no
	// agent has a model of the job.
	Usage *result.UsageDiff `json:"usage,omitempty"`
	// Scores compares what judges gave; omitted without judges.
	Scores []result.ScoreDiff `json:"scores,omitempty"`
}

// Level sums up a job: means over tasks of the means of their trials, as in result.Level.
type Level struct {
	PassRate    float64    `json:"pass_rate"`
	MeanReward  float64    `json:"mean_reward"`
	Cost        result.USD `json:"mean_cost"`
	CostAtLeast bool       `json:"mean_cost_at_least,omitempty"` // Cost is a lower bound
	DurationSec *float64   `json:"mean_duration_sec"`            // null if trials did not run as a whole
}

// TaskDiff is a task that changed. Base or Head is null if that job does not have the task.
type TaskDiff struct {
	Agent   string        `json:"agent_name"`
	Dataset string        `json:"dataset_name"`
	Task    string        `json:"task_name"`
	Change  result.Change `json:"change"`
	Flaky   bool          `json:"flaky"`
	Base    *Side         `json:"base"`
	Head    *Side         `json:"head"`
	// Confirmation has the results of the attempts that confirm or refute the change
	// (gate.confirm); it is omitted without any.
	Confirmation *Side `json:"confirmation,omitempty"`
	// BaseConfirmation has the corresponding attempts of the baseline, if it ran together with
	// the job.
	BaseConfirmation *Side `json:"base_confirmation,omitempty"`
}

// Side sums up a task's attempts in one of the two jobs.
type Side struct {
	Attempts   int      `json:"attempts"` // planned
	Completed  int      `json:"completed"`
	Passed     int      `json:"passed"`
	Failed     int      `json:"failed"`
	Lost       int      `json:"lost,omitempty"` // those of failed that the agent, the verifier or a judge ended: they count as 0
	MeanReward *float64 `json:"mean_reward"`    // null without rewards
}

// Links lead to more information. Each is an absolute URL or "".
type Links struct {
	Run      string `json:"run"`
	Artifact string `json:"artifact"`
	Commit   string `json:"commit"`
	Files    string `json:"files"`
}

// Write implements report.Reporter.
func (Reporter) Write(w io.Writer, in report.Input) error {
	data, err := result.Marshal(Of(in))
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	_, err = io.WriteString(w, untrusted.JSON(string(data)))
	return err
}

// Of returns the object for a job.
func Of(in report.Input) Report {
	cases := report.Cases(in)
	r := Report{
		SchemaVersion: SchemaVersion, JobName: in.Job.JobName, Passed: in.Passed() && in.Mark() != report.MarkPart, Outcome: in.Mark(),
		Headline: in.Headline(cases), Verdict: verdict(in.Verdict), Incomplete: texts(in.Incomplete), Notes: texts(in.Notes),
		Commit: in.Job.Commit, Sha: in.Links.Sha, PlanDigest: in.Job.PlanDigest, Shard: in.Job.Shard, Cancelled: in.Job.Cancelled,
		StartedAt: in.Job.StartedAt, EndedAt: in.Job.EndedAt, DurationSec: finite(in.Job.TotalDurationSec),
		Versus: in.Versus, Summary: summary(in.Job.Summary), Errors: map[result.ErrorType]int{}, States: map[report.State]int{},
		Costs:        result.Costs{Environment: in.Job.Costs.Environment.Finite(), Model: in.Job.Costs.Model.Finite(), Judges: in.Job.Costs.Judges.Finite()},
		CostsAtLeast: in.Job.Costs.AtLeast(),
		Groups:       groups(in, cases),
		Tasks:        []Task{},
		Baseline:     Baseline{Description: in.Baseline}, Diff: diff(in.Diff),
		Links: Links{Run: in.Links.Run, Artifact: in.Links.Artifact, Commit: in.Links.Commit, Files: in.Links.Files},
	}
	for kind, n := range in.Job.Errors {
		r.Errors[kind] = n
	}
	for _, s := range report.States {
		r.States[s] = 0
	}
	for _, c := range cases {
		r.States[c.State]++
		r.Tasks = append(r.Tasks, task(c, in.Plan.Shard == nil))
	}
	if in.Diff != nil {
		r.Baseline.JobName, r.Baseline.Commit = in.Diff.Base.JobName, in.Diff.Base.Commit
	}
	return r
}

func groups(in report.Input, cases []report.Case) []Group {
	type key struct{ agent, dataset string }
	times := map[key]float64{}
	for _, c := range cases {
		times[key{c.Agent, c.Dataset}] += c.Seconds()
	}
	out := []Group{}
	for _, g := range in.Groups {
		out = append(out, Group{Agent: g.Agent, Dataset: g.Dataset, Summary: summary(g.Summary), DurationSec: finite(times[key{g.Agent, g.Dataset}])})
	}
	return out
}

func task(c report.Case, whole bool) Task {
	t := Task{
		Agent: c.Agent, Dataset: c.Dataset, Task: c.Task, Path: c.Path, State: c.State, Change: c.Change(), Quarantined: c.Quarantine != nil,
		Cost: c.Cost().Finite(), CostAtLeast: c.Cost().AtLeast(), DurationSec: finite(c.Seconds()), Attempts: []Attempt{},
		Confirmation: side(c.Confirmation),
	}
	if mean, ok := c.Reward(); ok {
		t.Reward = new(finite(mean))
	}
	advantages := c.Advantages()
	for i, a := range c.Attempts() {
		attempt := Attempt{Attempt: a.Number, Dir: c.Key(a).Dir()}
		if t := a.Trial.Unpack(); t != nil {
			attempt.Run, attempt.Reward, attempt.Error = true, pointer(t.Reward), t.Error
			attempt.Reused, attempt.Reverified = t.Reused, t.Reverified
			attempt.Rewards = rewards(t.Rewards)
			attempt.Cost, attempt.CostAtLeast, attempt.DurationSec = t.Cost.Finite(), t.Cost.AtLeast(), finite(t.Durations.TotalSec)
		}
		if whole && advantages != nil {
			attempt.Advantage, attempt.AdvantageNormalized = &advantages[i].Plain, &advantages[i].Normalized
		}
		t.Attempts = append(t.Attempts, attempt)
	}
	return t
}

func diff(d *result.Diff) *Diff {
	if d == nil {
		return nil
	}
	out := Diff{Counts: d.Counts, Flaky: d.Flaky, Overall: compared(d.Overall), Groups: []Compared{}, Tasks: []TaskDiff{}}
	for _, g := range d.Groups {
		out.Groups = append(out.Groups, compared(g))
	}
	for _, t := range d.Tasks {
		if t.Change != result.Same {
			out.Tasks = append(out.Tasks, TaskDiff{
				Agent: t.Agent, Dataset: t.Dataset, Task: t.Task, Change: t.Change, Flaky: t.Flaky, Base: side(t.Base), Head: side(t.Head), Confirmation: side(t.Confirmation), BaseConfirmation: side(t.BaseConfirmation),
			})
		}
	}
	return &out
}

func compared(g result.GroupDiff) Compared {
	level := func(l result.Level) Level {
		return Level{PassRate: finite(l.PassRate), MeanReward: finite(l.MeanReward), Cost: l.Cost.Finite(), CostAtLeast: l.Cost.AtLeast(), DurationSec: pointer(l.DurationSec)}
	}
	return Compared{Agent: g.Agent, Dataset: g.Dataset, Tasks: g.Tasks, Base: level(g.Base), Head: level(g.Head), Usage: g.Usage, Scores: g.Scores}
}

func side(a *result.Attempts) *Side {
	if a == nil {
		return nil
	}
	s := Side{Attempts: int(a.Total), Completed: len(a.Rewards), Passed: a.Passed, Failed: int(a.Failed), Lost: int(a.Lost)}
	if len(a.Rewards) > 0 {
		s.MeanReward = new(finite(a.Mean()))
	}
	return &s
}

func summary(s result.Summary) result.Summary {
	for _, f := range []*float64{&s.PassRate, &s.MeanReward, &s.PassRateAll, &s.MeanRewardAll} {
		*f = finite(*f)
	}
	if s.Usage != nil {
		u := *s.Usage
		u.Cost, u.ModelSec, u.WaitingSec = u.Cost.Finite(), finite(u.ModelSec), finite(u.WaitingSec)
		s.Usage = &u
	}
	s.TotalCost, s.ConfirmationCost = s.TotalCost.Finite(), s.ConfirmationCost.Finite()
	metrics := make([]result.Metric, len(s.Metrics))
	for i, m := range s.Metrics {
		metrics[i] = result.Metric{Type: m.Type, Value: pointer(m.Value)}
	}
	s.Metrics = metrics
	return s
}

func verdict(v gate.Verdict) gate.Verdict {
	checks := make([]gate.Check, len(v.Checks))
	for i, c := range v.Checks {
		c.Value, c.Limit = finite(c.Value), finite(c.Limit)
		if c.Test != nil {
			t := *c.Test
			t.P, t.Low, t.High, t.Detectable = finite(t.P), finite(t.Low), finite(t.High), pointer(t.Detectable)
			c.Test = &t
		}
		checks[i] = c
	}
	v.Checks = checks
	return v
}

// finite returns f, or the nearest number that JSON can represent: sums of what an artifact claims
// may be infinite.
func finite(f float64) float64 {
	if math.IsNaN(f) {
		return 0
	}
	return min(max(f, -math.MaxFloat64), math.MaxFloat64)
}

// rewards returns the rewards that JSON can represent.
func rewards(all map[string]float64) map[string]float64 {
	if len(all) == 0 {
		return nil
	}
	out := make(map[string]float64, len(all))
	for name, r := range all {
		out[name] = finite(r)
	}
	return out
}

func pointer(f *float64) *float64 {
	if f == nil {
		return nil
	}
	return new(finite(*f))
}

func texts(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
