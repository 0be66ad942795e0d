package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
)

// Format is the version of the lines that this program writes, and the newest that it reads.
const Format = 1

// Confidence is that of the intervals of pass rates.
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
}

// Agent has the numbers of an agent. The pass rate and the mean reward are over the attempts with a
// reward, as those of the job. Means are per trial; each has the number of trials that it is of.
type Agent struct {
	Name         string         `json:"name"`
	Passed       int            `json:"passed"`
	Attempts     int            `json:"attempts"`       // with a reward
	Lost         int            `json:"lost,omitempty"` // further ones that the agent, the verifier or a judge ended without a reward
	PassRate     float64        `json:"pass_rate"`
	Interval     *gate.Interval `json:"interval"` // of PassRate; null if there is none
	MeanReward   float64        `json:"mean_reward"`
	Cost         Mean           `json:"cost"`
	CostAtLeast  bool           `json:"cost_at_least,omitempty"` // the mean is a lower bound
	DurationSec  Mean           `json:"duration_sec"`
	InputTokens  Mean           `json:"input_tokens"`
	OutputTokens Mean           `json:"output_tokens"`
	Models       []string       `json:"models,omitempty"` // that answered, sorted
	Judges       []string       `json:"judges,omitempty"` // NAME=DIGEST, sorted
	Tasks        []Task         `json:"tasks"`            // sorted by dataset and name
}

// Mean is the mean of N trials.
type Mean struct {
	Mean float64 `json:"mean"`
	N    int     `json:"n"`
}

// Task has the attempts at a task.
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
	tasks := map[string][]result.TaskAttempts{}
	for _, t := range result.AttemptsOf(job) {
		tasks[t.Key.Agent] = append(tasks[t.Key.Agent], t)
	}
	for _, name := range slices.Sorted(maps.Keys(tasks)) {
		a := Agent{Name: name, Tasks: []Task{}}
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
		if a.PassRate < 0 || a.PassRate > most {
			return fmt.Errorf("agent %q: the pass rate is %v", a.Name, a.PassRate)
		}
		if i := a.Interval; i != nil && (i.Low < 0 || i.Low > i.High || i.High > most) {
			return fmt.Errorf("agent %q: the interval of the pass rate is from %v to %v", a.Name, i.Low, i.High)
		}
		for _, m := range []Mean{a.Cost, a.DurationSec, a.InputTokens, a.OutputTokens} {
			if m.N < 0 || m.Mean < 0 {
				return fmt.Errorf("agent %q: a mean of %d trials is %v", a.Name, m.N, m.Mean)
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

// checkCounts returns an error if this many attempts cannot have passed.
func checkCounts(passed, attempts int) error {
	if passed < 0 || attempts < 0 || passed > attempts {
		return fmt.Errorf("%d of %d attempts passed", passed, attempts)
	}
	return nil
}

// count fills in what the attempts at tasks say.
func (a *Agent) count(tasks []result.TaskAttempts) {
	var all []*result.Attempts
	var rewards []float64
	for i := range tasks {
		t := &tasks[i]
		a.Tasks = append(a.Tasks, Task{Dataset: t.Key.Dataset, Name: t.Key.Task, Digest: t.Digest, Passed: t.Passed, Attempts: len(t.Scores), Lost: t.Lost})
		a.Passed, a.Attempts, a.Lost = a.Passed+t.Passed, a.Attempts+len(t.Rewards), a.Lost+t.Lost
		rewards = append(rewards, t.Rewards...)
		all = append(all, &t.Attempts)
	}
	if rate, interval, ok := gate.PassRate(all, Confidence); ok {
		a.PassRate, a.Interval = rate, &interval
	}
	a.MeanReward = result.Mean(rewards)
}

// measure fills in the means of the agent's trials.
func (a *Agent) measure(outcomes []result.Outcome) {
	var means result.Means
	judges, models := map[string]bool{}, map[string]bool{}
	for _, o := range outcomes {
		if o.Agent != a.Name {
			continue
		}
		means.Add(o)
		a.CostAtLeast = a.CostAtLeast || o.CostAtLeast
		if u := o.Usage; u != nil {
			answered := u.Answered // a provider changes the name without a word
			if len(answered) == 0 && u.Model != "" {
				answered = []string{u.Model}
			}
			for _, name := range answered {
				models[name] = true
			}
		}
		for name, score := range o.Scores {
			if score.Judge != "" {
				judges[name+"="+score.Judge] = true
			}
		}
	}
	a.Cost, a.DurationSec, a.InputTokens, a.OutputTokens = mean(means.Costs), mean(means.Seconds), mean(means.InputTokens), mean(means.OutputTokens)
	a.Judges, a.Models = slices.Sorted(maps.Keys(judges)), slices.Sorted(maps.Keys(models))
}

func mean(values []float64) Mean { return Mean{Mean: result.Mean(values), N: len(values)} }

// same reports whether two points are of one job.
func (p Point) same(q Point) bool {
	return p.JobName == q.JobName && p.PlanDigest == q.PlanDigest && p.StartedAt.Equal(q.StartedAt)
}

// oldestFirst orders points.
func oldestFirst(p, q Point) int {
	return cmp.Or(p.StartedAt.Compare(q.StartedAt), cmp.Compare(p.JobName, q.JobName), cmp.Compare(p.PlanDigest, q.PlanDigest))
}
