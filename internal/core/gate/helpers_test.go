package gate

import (
	"fmt"
	"math/rand/v2"

	"github.com/org/rollout-action/internal/core/result"
)

// jobs returns a baseline and a job with these rewards, of one agent on one dataset.
func jobs(pairs ...[2][]float64) (base, head result.Job) {
	for i, p := range pairs {
		addTask(&base, "a", "d", fmt.Sprintf("t%04d", i), p[0]...)
		addTask(&head, "a", "d", fmt.Sprintf("t%04d", i), p[1]...)
	}
	return base, head
}

// addTask adds a task's attempts to a job: with a cost of 0.5 dollars and 2 seconds each.
func addTask(j *result.Job, agent, dataset, task string, rewards ...float64) {
	for n, r := range rewards {
		j.Results.Append(result.Outcome{
			Key:    result.Key{Agent: agent, Dataset: dataset, Task: task, Attempt: n + 1},
			Reward: &r, Cost: result.Dollars(0.5), DurationSec: 2, TaskDigest: "sha256:1",
		})
	}
	j.TotalTrials += len(rewards)
}

// addErrors adds attempts that end with an error, after those the task has.
func addErrors(j *result.Job, agent, dataset, task string, n int) {
	for i := range n {
		j.Results.Append(result.Outcome{
			Key:   result.Key{Agent: agent, Dataset: dataset, Task: task, Attempt: 100 + i},
			Error: result.AgentExecutionFailed,
		})
		j.FailedTrials++
		j.TotalTrials++
	}
}

func diffTasks(pairs ...[2][]float64) []result.TaskDiff {
	return result.Compare(jobs(pairs...)).Tasks
}

func one(base, head float64) [2][]float64 { return [2][]float64{{base}, {head}} }
func many(n int) [][2][]float64 {
	rng := rand.New(rand.NewPCG(7, 8))
	var pairs [][2][]float64
	for range n {
		pairs = append(pairs, one(rng.Float64(), rng.Float64()))
	}
	return pairs
}

// firstOf returns a condition that is true the first n times.
func firstOf(n int) func(result.Outcome) bool {
	return func(result.Outcome) bool {
		n--
		return n >= 0
	}
}
