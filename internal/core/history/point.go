package history

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
)

// Format is the version of the lines that this program writes, and the newest that it reads.
const Format = 1

// Confidence is the confidence level of the intervals of pass rates.
const Confidence = 0.95

// Point is a job in the history: a line of the file.
type Point struct {
	Format    int       `json:"history_format"`
	JobName   string    `json:"job_name"`
	StartedAt time.Time `json:"started_at"`
	Commit    *string   `json:"commit"`
	Branch    string    `json:"branch,omitempty"`
	// PlanDigest, JobName and StartedAt identify the job: points that agree in them are one.
	PlanDigest string       `json:"plan_digest"`
	Verdict    gate.Outcome `json:"verdict,omitempty"` // "": not known
	Agents     []Agent      `json:"agents"`            // sorted by name
	// NotSelected is that of the job if flags selected its tasks; nil otherwise.
	NotSelected *result.NotSelected `json:"not_selected,omitempty"`
}

// Agent holds the numbers of an agent. The pass rate and the mean reward are over the attempts with
// a reward, as those of the job. Means are per trial; each has its number of trials.
type Agent struct {
	Name       string         `json:"name"`
	Passed     int            `json:"passed"`
	Attempts   int            `json:"attempts"`       // with a reward
	Lost       int            `json:"lost,omitempty"` // further ones that the agent, the verifier or a judge ended without a reward
	PassRate   float64        `json:"pass_rate"`
	Interval   *gate.Interval `json:"interval"` // of PassRate; null if there is none
	MeanReward float64        `json:"mean_reward"`
	// RewardInterval is that of MeanReward; null if there is none, or an earlier version wrote the
	// line.
	RewardInterval *gate.Interval `json:"mean_reward_interval,omitempty"`
	Cost           Mean           `json:"cost"`
	CostAtLeast    bool           `json:"cost_at_least,omitempty"` // the mean is a lower bound
	DurationSec    Mean           `json:"duration_sec"`
	InputTokens    Mean           `json:"input_tokens"`
	OutputTokens   Mean           `json:"output_tokens"`
	Tokens         Mean           `json:"tokens,omitzero"`  // both together; an earlier version wrote none
	Models         []string       `json:"models,omitempty"` // that answered, sorted
	Judges         []string       `json:"judges,omitempty"` // NAME=DIGEST, sorted
	// LeftOut counts the tasks that the job left out because of what changed (--changed). If there
	// are any, the numbers are about a part of the tasks only; see Part.
	LeftOut int    `json:"tasks_left_out,omitempty"`
	Tasks   []Task `json:"tasks"` // sorted by dataset and name

	// unselected counts the tasks that flags of the job did not select, and that another run of the
	// history has. See marked.
	unselected int
}

// Mean is the mean of N trials.
type Mean struct {
	Mean float64 `json:"mean"`
	N    int     `json:"n"`
	// Interval is that of Mean; null if there is none, because the trials are of one task or do not
	// differ, because the mean is a lower bound, or because an earlier version wrote the line.
	Interval *gate.Interval `json:"interval,omitempty"`
}

// Task counts the attempts at a task.
type Task struct {
	Dataset  string `json:"dataset"`
	Name     string `json:"task"`
	Digest   string `json:"digest,omitempty"`
	Passed   int    `json:"passed"`
	Attempts int    `json:"attempts"`       // with a score: those that count when jobs are compared
	Lost     int    `json:"lost,omitempty"` // those of Attempts without a reward
}

// PointOf returns the point of a job. verdict and branch are "" if they are not known.
func PointOf(job result.Job, branch string, verdict gate.Outcome) Point {
	p := Point{
		Format: Format, JobName: job.JobName, StartedAt: job.StartedAt.UTC(), Commit: job.Commit, Branch: branch,
		PlanDigest: job.PlanDigest, Verdict: verdict, Agents: []Agent{},
	}
	if n := job.NotSelected; n != nil && n.ByFlags {
		p.NotSelected = n
	}
	tasks := map[string][]result.TaskAttempts{}
	for _, t := range result.AttemptsOf(job) {
		tasks[t.Key.Agent] = append(tasks[t.Key.Agent], t)
	}
	for _, name := range slices.Sorted(maps.Keys(tasks)) {
		a := Agent{Name: name, Tasks: []Task{}}
		if n := job.NotAffected; n != nil {
			for _, t := range n.Tasks {
				if t.Agent == name {
					a.LeftOut++
				}
			}
		}
		a.count(tasks[name])
		a.measure(job.Results)
		p.Agents = append(p.Agents, a)
	}
	return p
}

// check returns an error if numbers of a point contradict each other.
func (p Point) check() error {
	const most = 1 + 1e-9 // of a rate, which is rounded
	for _, a := range p.Agents {
		if err := checkCounts(a.Passed, a.Attempts); err != nil {
			return fmt.Errorf("agent %q: %w", a.Name, err)
		}
		if a.Lost < 0 {
			return fmt.Errorf("agent %q: %d attempts were lost", a.Name, a.Lost)
		}
		if a.LeftOut < 0 {
			return fmt.Errorf("agent %q: %d tasks were left out", a.Name, a.LeftOut)
		}
		if a.PassRate < 0 || a.PassRate > most {
			return fmt.Errorf("agent %q: the pass rate is %v", a.Name, a.PassRate)
		}
		if i := a.Interval; i != nil && (i.Low < 0 || i.Low > i.High || i.High > most) {
			return fmt.Errorf("agent %q: the interval of the pass rate is from %v to %v", a.Name, i.Low, i.High)
		}
		if i := a.RewardInterval; i != nil && i.Low > i.High {
			return fmt.Errorf("agent %q: the interval of the mean reward is from %v to %v", a.Name, i.Low, i.High)
		}
		for _, m := range []Mean{a.Cost, a.DurationSec, a.InputTokens, a.OutputTokens, a.Tokens} {
			if m.N < 0 || m.Mean < 0 {
				return fmt.Errorf("agent %q: a mean of %d trials is %v", a.Name, m.N, m.Mean)
			}
			if i := m.Interval; i != nil && (i.Low < 0 || i.Low > i.High) {
				return fmt.Errorf("agent %q: the interval of a mean is from %v to %v", a.Name, i.Low, i.High)
			}
		}
		for _, t := range a.Tasks {
			if err := checkCounts(t.Passed, t.Attempts-t.Lost); err != nil || t.Lost < 0 {
				return fmt.Errorf("agent %q, task %q: %d of %d attempts passed, and %d were lost", a.Name, t.Name, t.Passed, t.Attempts, t.Lost)
			}
		}
	}
	return nil
}

// checkCounts returns an error if passed is not possible with this many attempts.
func checkCounts(passed, attempts int) error {
	if passed < 0 || attempts < 0 || passed > attempts {
		return fmt.Errorf("%d of %d attempts passed", passed, attempts)
	}
	return nil
}

// count fills in the numbers that follow from the attempts at tasks.
func (a *Agent) count(tasks []result.TaskAttempts) {
	var all []*result.Attempts
	var rewards []float64
	for i := range tasks {
		t := &tasks[i]
		a.Tasks = append(a.Tasks, Task{Dataset: t.Key.Dataset, Name: t.Key.Task, Digest: t.Digest(), Passed: t.Passed, Attempts: len(t.Scores()), Lost: int(t.Lost)})
		a.Passed, a.Attempts, a.Lost = a.Passed+t.Passed, a.Attempts+len(t.Rewards), a.Lost+int(t.Lost)
		rewards = append(rewards, t.Rewards...)
		all = append(all, &t.Attempts)
	}
	if rate, interval, ok := gate.PassRate(all, Confidence); ok {
		a.PassRate, a.Interval = rate, &interval
	}
	a.MeanReward = result.Mean(rewards)
	a.RewardInterval = a.rewardInterval(tasks)
}

// rewardInterval returns the interval of the mean reward. If all rewards are passes or failures, it
// is that of the pass rate, which is right for rare ones, too.
func (a *Agent) rewardInterval(tasks []result.TaskAttempts) *gate.Interval {
	rewards := make([][]float64, len(tasks))
	binary, low, high := true, math.Inf(1), math.Inf(-1)
	for i, t := range tasks {
		rewards[i] = t.Rewards
		for _, reward := range t.Rewards {
			binary = binary && (reward == 0 || reward == 1)
			low, high = min(low, reward), max(high, reward)
		}
	}
	if binary && math.Abs(a.PassRate-a.MeanReward) < 1e-9 {
		return a.Interval
	}
	interval, ok := gate.MeanInterval(rewards, Confidence)
	if !ok {
		return nil
	}
	if low >= 0 && high <= 1 { // the usual range of rewards
		interval.Low, interval.High = max(interval.Low, 0), min(interval.High, 1)
	}
	return &interval
}

// measure fills in the means of the agent's trials.
func (a *Agent) measure(outcomes result.Outcomes) {
	var costs, durations, input, output, tokens values
	judges, models := map[string]bool{}, map[string]bool{}
	for _, o := range outcomes.All() {
		if o.Agent != a.Name {
			continue
		}
		a.CostAtLeast = a.CostAtLeast || o.CostAtLeast
		if !o.Again { // its duration is not that of a whole trial
			durations.add(o, o.TrialSec())
		}
		if amount, ok := o.Cost.Reported(); ok {
			costs.add(o, amount)
		}
		if u := o.Usage; u != nil {
			answered := u.Answered // a provider changes the name without a word
			if len(answered) == 0 && u.Model != "" {
				answered = []string{u.Model}
			}
			for _, name := range answered {
				models[name] = true
			}
			if u.InputTokens != nil {
				input.add(o, float64(*u.InputTokens))
			}
			if u.OutputTokens != nil {
				output.add(o, float64(*u.OutputTokens))
			}
			if u.InputTokens != nil && u.OutputTokens != nil {
				tokens.add(o, float64(*u.InputTokens)+float64(*u.OutputTokens))
			}
		}
		for name, score := range o.Scores {
			if score.Judge != "" {
				judges[name+"="+score.Judge] = true
			}
		}
	}
	a.Cost, a.DurationSec, a.InputTokens, a.OutputTokens, a.Tokens = costs.mean(), durations.mean(), input.mean(), output.mean(), tokens.mean()
	if a.CostAtLeast {
		a.Cost.Interval = nil
	}
	a.Judges, a.Models = slices.Sorted(maps.Keys(judges)), slices.Sorted(maps.Keys(models))
}

// values holds a number of each trial.
type values struct {
	all   []float64
	tasks map[[2]string][]float64
}

func (v *values) add(o result.Outcome, value float64) {
	if v.tasks == nil {
		v.tasks = map[[2]string][]float64{}
	}
	v.all = append(v.all, value)
	task := [2]string{o.Dataset, o.Task}
	v.tasks[task] = append(v.tasks[task], value)
}

// mean returns the mean of numbers that are not negative, as costs, with its interval.
func (v *values) mean() Mean {
	m := Mean{Mean: result.Mean(v.all), N: len(v.all)}
	var tasks [][]float64 // in a fixed order, for sums that do not vary
	for _, task := range slices.SortedFunc(maps.Keys(v.tasks), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		tasks = append(tasks, v.tasks[task])
	}
	if interval, ok := gate.MeanInterval(tasks, Confidence); ok {
		interval.Low = max(interval.Low, 0)
		m.Interval = &interval
	}
	return m
}

// same reports whether two points belong to one job.
func (p Point) same(q Point) bool {
	return p.JobName == q.JobName && p.PlanDigest == q.PlanDigest && p.StartedAt.Equal(q.StartedAt)
}

// oldestFirst compares points by age.
func oldestFirst(p, q Point) int {
	return cmp.Or(p.StartedAt.Compare(q.StartedAt), cmp.Compare(p.JobName, q.JobName), cmp.Compare(p.PlanDigest, q.PlanDigest))
}
