package result

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/core/agent"
)

// Metric is an aggregate of the rewards of completed trials; null if there are none.
type Metric struct {
	Type  string   `json:"type"`
	Value *float64 `json:"value"`
}

// Summary counts trials. Rates and means are over completed trials. The *All forms are over every
// planned trial, and a failed, cancelled or skipped one counts 0. Costs are US dollars.
type Summary struct {
	TotalTrials     int `json:"total_trials"`
	CompletedTrials int `json:"completed_trials"`
	FailedTrials    int `json:"failed_trials"`
	SkippedTrials   int `json:"skipped_trials"`
	// ReusedTrials counts those of CompletedTrials that were reused instead of run; their cost is
	// not in TotalCost.
	ReusedTrials int `json:"reused_trials,omitempty"`
	// ConfirmationTrials counts the confirmation attempts. They are in no other number of the
	// summary except TotalCost, of which ConfirmationCost is their part.
	ConfirmationTrials int `json:"confirmation_trials,omitempty"`
	ConfirmationCost   USD `json:"confirmation_cost,omitzero"`
	// TotalCostAtLeast and ConfirmationCostAtLeast: the cost is a lower bound.
	TotalCostAtLeast        bool `json:"total_cost_at_least,omitempty"`
	ConfirmationCostAtLeast bool `json:"confirmation_cost_at_least,omitempty"`

	PassRate   float64 `json:"pass_rate"`
	MeanReward float64 `json:"mean_reward"`
	TotalCost  USD     `json:"total_cost"` // of the trials that reported one; null if none did

	PassRateAll   float64  `json:"pass_rate_all"`
	MeanRewardAll float64  `json:"mean_reward_all"`
	Metrics       []Metric `json:"metrics,omitempty"`
	// PassK is set if a task has more than one attempt; by k.
	PassK []PassK `json:"pass_k,omitempty"`
	// Usage sums up the agents' usage of their models; nil if no trial had a gateway. It has the
	// trials of TotalCost, confirmation attempts included.
	Usage *UsageSum `json:"usage,omitempty"`
	// Scores sums up the scores of judges; nil without judges.
	Scores []ScoreSum `json:"scores,omitempty"`
}

// Outcome is an entry of a job's results: the facts of a trial that a comparison with another job
// needs.
type Outcome struct {
	Key
	Reward      *float64  `json:"reward"`
	Error       ErrorType `json:"error,omitempty"`
	Cost        USD       `json:"cost"`
	DurationSec float64   `json:"duration_sec"` // of the whole trial
	// ImageSec is the part of DurationSec in which the trial waited for its image to be built or
	// pulled; see TrialSec.
	ImageSec   float64 `json:"image_sec,omitempty"`
	TaskDigest string  `json:"task_digest,omitempty"`
	// StartedAt is when the trial began, in the job that ran it.
	StartedAt time.Time `json:"started_at,omitzero"`
	// Experiment is the number of what the trial ran in Job.Experiments, from 1; 0: not known.
	Experiment int  `json:"experiment,omitempty"`
	Reused     bool `json:"reused,omitempty"` // Cost and DurationSec are those of the original run
	// Again: only the tests of the trial ran, on the files that another job's trial left.
	// DurationSec is that of this run alone, Cost that of both.
	Again bool `json:"again,omitempty"`
	// Usage is the agent's usage of its model; nil without a gateway.
	Usage *OutcomeUsage `json:"usage,omitempty"`
	// Scores are those of judges and their criteria, by name; nil without judges.
	Scores map[string]OutcomeScore `json:"scores,omitempty"`
	// JudgeCost is the part of Cost that the models of judges cost; null without judges, or if it
	// is not known.
	JudgeCost USD `json:"judge_cost,omitzero"`
	// CostAtLeast and JudgeCostAtLeast: the cost is a lower bound.
	CostAtLeast      bool `json:"cost_at_least,omitempty"`
	JudgeCostAtLeast bool `json:"judge_cost_at_least,omitempty"`
}

// OutcomeOf returns the outcome of a trial.
func OutcomeOf(t Trial) Outcome {
	o := Outcome{Key: t.Key, Reward: t.Reward, Cost: t.Cost, DurationSec: t.Durations.TotalSec, TaskDigest: t.TaskDigest, StartedAt: t.Timestamps.StartedAt, Reused: t.Reused != nil, Again: t.Reverified != nil && !t.Reverified.OnlyJudges, Usage: outcomeUsage(t), Scores: outcomeScores(t), JudgeCost: t.Costs.Judges}
	o.CostAtLeast, o.JudgeCostAtLeast = o.Cost.AtLeast(), o.JudgeCost.AtLeast()
	if t.Durations.ImageSec != nil {
		o.ImageSec = *t.Durations.ImageSec
	}
	if t.Error != nil {
		o.Error = t.Error.Type
	}
	return o
}

// TrialSec returns the time of the trial as all means have it: without the wait for the image,
// because only the first trial of a task on a machine waits for that.
func (o Outcome) TrialSec() float64 { return max(0, o.DurationSec-max(0, o.ImageSec)) }

// Completed reports whether the trial has a reward.
func (o Outcome) Completed() bool { return o.Reward != nil }

// Failed reports whether an error kept the trial from a reward; see Trial.Failed.
func (o Outcome) Failed() bool {
	return o.Reward == nil && o.Error != "" && o.Error != EnvironmentTeardownFailed
}

// Passed reports whether the reward is exactly 1; see Trial.Passed.
func (o Outcome) Passed() bool { return o.Reward != nil && *o.Reward == 1 }

// Job is the aggregate of a job's trials: <job>/result.json. Durations are in seconds.
type Job struct {
	JobName    string `json:"job_name"`
	PlanDigest string `json:"plan_digest"` // Plan.Digest
	// RolloutVersion is Plan.RolloutVersion.
	RolloutVersion string  `json:"rollout_version,omitempty"`
	Commit         *string `json:"commit"`           // Plan.Commit
	Shard          *Shard  `json:"shard,omitempty"`  // the part of the job that this covers; nil means all of it
	Beside         *Beside `json:"beside,omitempty"` // Plan.Beside
	// ConfirmsBoth is PlannedConfirmation.Both: tasks that looked fixed were tried again, too.
	ConfirmsBoth bool `json:"confirms_both,omitempty"`
	Cancelled    bool `json:"cancelled"`
	// Stopped is Plan.Stopped if results are missing.
	Stopped []Stop `json:"stopped,omitempty"`
	Summary
	TotalDurationSec float64            `json:"total_duration_sec"`
	StartedAt        time.Time          `json:"started_at"`
	EndedAt          time.Time          `json:"ended_at"`
	Agents           map[string]Summary `json:"agents"`
	Results          Outcomes           `json:"results"` // sorted by key
	// Experiments are what the trials ran, each once, so that other jobs can take Results over.
	Experiments []Experiment `json:"experiments,omitempty"`
	// Unchanged is the commit of the baseline from which all trials were taken over, because
	// nothing that the agents or tasks depend on has changed; "": some ran.
	Unchanged string `json:"unchanged,omitempty"`
	// Confirmations are the confirmation attempts (Trial.Confirmation). Results has none of them.
	Confirmations Outcomes `json:"confirmations,omitzero"`
	// Pool are earlier runs of the same job, the newest first, if they are a baseline together with
	// this one (gate.baseline.pool).
	Pool []Job `json:"-"`

	Costs Costs `json:"costs"`
	// CostsAtLeast lists the parts of Costs that are lower bounds.
	CostsAtLeast []string          `json:"costs_at_least,omitempty"`
	Errors       map[ErrorType]int `json:"errors"`  // number of trials by error type
	Skipped      []Key             `json:"skipped"` // planned trials without a result
	// NotAffected is Plan.NotAffected.
	NotAffected *NotAffected `json:"not_affected,omitempty"`
	// NotSelected is Plan.NotSelected.
	NotSelected *NotSelected `json:"not_selected,omitempty"`
	// Rounds is Plan.Rounds. Its trials that were not needed are in no number of the job.
	Rounds *Rounds `json:"rounds,omitempty"`
}

// EvaluatedTrials returns the number of trials that Evaluated averages over.
func (j *Job) EvaluatedTrials() (completed int) {
	if len(j.Agents) == 0 {
		return j.CompletedTrials
	}
	for _, name := range agent.Evaluated(slices.Sorted(maps.Keys(j.Agents))) {
		completed += j.Agents[name].CompletedTrials
	}
	return completed
}

// Evaluated returns the pass rate and the mean reward of the agents that agent.Evaluated selects,
// over their completed trials; nil if they have completed none. Those of Summary are over the
// trials of all agents.
func (j *Job) Evaluated() (passRate, meanReward *float64) {
	if len(j.Agents) == 0 && j.CompletedTrials > 0 { // a file of another program
		return new(j.PassRate), new(j.MeanReward)
	}
	var passed, sum float64
	completed := j.EvaluatedTrials()
	for _, name := range agent.Evaluated(slices.Sorted(maps.Keys(j.Agents))) {
		s := j.Agents[name]
		passed += s.PassRate * float64(s.CompletedTrials)
		sum = finite(sum + s.MeanReward*float64(s.CompletedTrials))
	}
	if completed <= 0 {
		return nil, nil
	}
	// The shares of the agents are divided again, so they are rounded: 3 of 3 trials are not
	// 0.9999999999999999.
	return new(math.Round(passed) / float64(completed)), new(sum / float64(completed))
}

// Group is the summary of one agent on one dataset.
type Group struct {
	Agent   string
	Dataset string
	Summary
}

// MetricTypes are the aggregates that a job may ask for. Source: specification, "metrics".
var MetricTypes = []string{"sum", "min", "max", "mean"}

// Summarize computes a Job from its trials. trials may have any order and are not changed. Trials
// that the plan does not name are ignored, as is a second result with the same key. A planned trial
// without a result is skipped, and a job with skipped or cancelled trials is cancelled. Of a
// shard's plan, only the shard's own trials count. Confirmation attempts at planned tasks become
// Confirmations, and count only for the costs, the time and whether the job is cancelled.
//
// Summarize depends only on its arguments: run, report and merge all get their numbers from it.
// Source: specification, "Job result.json".
func Summarize(plan Plan, trials []Trial) Job {
	job, _ := summarize(plan, Whole(trials))
	return job
}

// summarize returns what Summarize and Groups return: of packed trials, each is unpacked once.
func summarize(plan Plan, trials Trials) (Job, []Group) {
	own := plan.Own()
	found := own.find(trials)
	job := begun(plan)
	since, counted := unchanged{}, attemptCounter{}
	var all Tally
	agents, groups := map[string]*Tally{}, groupTallies{}
	known := map[Experiment]int{}
	job.Results.rows = make([]row, 0, min(own.Len(), trials.Len()))
	for i, key := range own.All() {
		perAgent := agents[key.Agent]
		if perAgent == nil {
			perAgent = &Tally{}
			agents[key.Agent] = perAgent
		}
		trial := at(trials, found[i])
		since.add(trial)
		counted.add(key, trial)
		if trial == nil {
			job.Skipped = append(job.Skipped, key)
			all.Skip()
			perAgent.Skip()
			groups.of(key).Skip()
			continue
		}
		all.Add(*trial)
		perAgent.Add(*trial)
		groups.of(key).Add(*trial)
		o := OutcomeOf(*trial)
		o.Experiment = job.ran(*trial, known)
		job.Results.Append(o)
		job.note(*trial)
		if trial.Error != nil {
			job.Errors[trial.Error.Type]++
		}
	}
	job.Unchanged = since.commit
	for _, trial := range confirmations(plan.within(), trials) {
		all.Add(*trial)
		if agents[trial.Agent] == nil {
			agents[trial.Agent] = &Tally{}
		}
		agents[trial.Agent].Add(*trial)
		groups.of(trial.Key).Add(*trial)
		job.Confirmations.Append(OutcomeOf(*trial))
		job.note(*trial)
	}
	job.Cancelled = job.Cancelled || len(job.Skipped) > 0
	if job.Cancelled {
		job.Stopped = plan.Stopped
	}
	job.Summary = all.Summary(plan.Metrics)
	job.CostsAtLeast = job.Costs.AtLeast()
	job.TotalDurationSec = Seconds(max(0, job.EndedAt.Sub(job.StartedAt)-plan.Idle()))
	job.Results.Sort()
	slices.SortFunc(job.Skipped, Key.Compare)
	counts := counted.sorted()
	job.PassK = passK(counts)
	for name, t := range agents {
		s := t.Summary(plan.Metrics)
		s.PassK = passK(within(counts, name, nil))
		job.Agents[name] = s
	}
	return job, groups.groups(plan, counts)
}

// begun returns a Job without trials.
func begun(plan Plan) Job {
	return Job{
		JobName:        plan.JobName,
		PlanDigest:     plan.Digest,
		Commit:         plan.Commit,
		Shard:          plan.Shard,
		Beside:         plan.Beside,
		ConfirmsBoth:   plan.Confirm != nil && plan.Confirm.Both,
		RolloutVersion: plan.RolloutVersion,
		StartedAt:      plan.StartedAt,
		EndedAt:        plan.StartedAt,
		Agents:         map[string]Summary{},
		Results:        OutcomesOf(),
		Errors:         map[ErrorType]int{},
		Skipped:        []Key{},
		NotAffected:    plan.NotAffected,
		NotSelected:    plan.NotSelected,
		Rounds:         plan.Rounds,
	}
}

// note adds the cost and the end of a trial, and notes whether it was cancelled. A reused trial
// ended in another job.
func (j *Job) note(t Trial) {
	j.Costs = j.Costs.Plus(t.Spent())
	j.Cancelled = j.Cancelled || t.Error != nil && t.Error.Type == Cancelled
	if t.Reused == nil && t.Timestamps.EndedAt.After(j.EndedAt) {
		j.EndedAt = t.Timestamps.EndedAt
	}
}

// confirmations returns the confirmation attempts at planned tasks, sorted by key; the first of
// each key counts.
func confirmations(planned Keys, trials Trials) []*Trial {
	var found []*Trial
	for i := range trials.Len() {
		if _, confirmation := trials.Key(i); confirmation {
			found = append(found, trials.At(i))
		}
	}
	if len(found) == 0 {
		return nil
	}
	tasks := map[Key]bool{}
	for _, k := range planned.All() {
		k.Attempt = 0
		tasks[k] = true
	}
	slices.SortStableFunc(found, func(a, b *Trial) int { return a.Key.Compare(b.Key) })
	found = slices.CompactFunc(found, func(a, b *Trial) bool { return a.Key == b.Key })
	return slices.DeleteFunc(found, func(t *Trial) bool {
		k := t.Key
		k.Attempt = 0
		return !tasks[k]
	})
}

// Groups returns a summary for each agent and dataset, sorted by both.
func Groups(plan Plan, trials []Trial) []Group {
	_, groups := summarize(plan, Whole(trials))
	return groups
}

// groupTallies counts the trials of each agent on each dataset.
type groupTallies map[Key]*Tally

// of returns the tally of the group that a trial belongs to.
func (g groupTallies) of(k Key) *Tally {
	group := Key{Agent: k.Agent, Dataset: k.Dataset}
	if g[group] == nil {
		g[group] = &Tally{}
	}
	return g[group]
}

// groups returns the summaries. counts are those of all attempts.
func (g groupTallies) groups(plan Plan, counts []attemptCounts) []Group {
	groups := make([]Group, 0, len(g))
	for k, t := range g {
		s := t.Summary(plan.Metrics)
		s.PassK = passK(within(counts, k.Agent, &k.Dataset))
		groups = append(groups, Group{Agent: k.Agent, Dataset: k.Dataset, Summary: s})
	}
	slices.SortFunc(groups, func(a, b Group) int {
		return Key{Agent: a.Agent, Dataset: a.Dataset}.Compare(Key{Agent: b.Agent, Dataset: b.Dataset})
	})
	return groups
}

// Seconds returns d in seconds, rounded to the millisecond, as all durations in result files are.
func Seconds(d time.Duration) float64 {
	return float64(d.Round(time.Millisecond).Milliseconds()) / 1000 // d.Seconds() would give 9.899000000000001
}
