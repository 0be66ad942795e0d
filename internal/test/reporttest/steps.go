package reporttest

import (
	"time"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
)

// Steps returns a job whose tasks have steps: one passes, one has too low a reward for its next
// step, and in one a step fails.
func Steps() report.Input {
	step := func(name string, reward *float64, from, to int) result.StepRun {
		at := func(sec int) time.Time { return start.Add(time.Duration(sec) * time.Second) }
		return result.StepRun{Name: name, Reward: reward, StartedAt: at(from), EndedAt: at(to), VerifierSec: new(1.0)}
	}
	low := step("knead", new(0.5), 10, 14)
	low.Unmet = "reward is 0.5, and must be at least 1"
	failed := step("bake", nil, 18, 22)
	failed.Error = &result.Error{Type: result.AgentExecutionFailed, Message: "the agent's execute script ended with exit code 3"}
	return Make("steps", []Spec{
		{Agent: "apprentice", Dataset: "cookbook", Task: "bread", Reward: new(1.0), Seconds: 10, Steps: []result.StepRun{step("knead", new(1.0), 1, 4), step("bake", new(1.0), 4, 9)}},
		{
			Agent: "apprentice", Dataset: "cookbook", Task: "cake", Reward: new(0.5), Seconds: 5, Steps: []result.StepRun{low},
			Logs: map[string]string{"steps/knead/logs/verifier/stdout.txt": "there are lumps\n", "steps/knead/logs/verifier/ctrf.json": pytest["logs/verifier/ctrf.json"]},
		},
		{
			Agent: "apprentice", Dataset: "cookbook", Task: "pie", Seconds: 7, Steps: []result.StepRun{step("knead", new(1.0), 15, 18), failed},
			Error: result.AgentExecutionFailed, Message: "step bake: the agent's execute script ended with exit code 3",
			Logs: map[string]string{"steps/knead/command/stderr.txt": "kneading\n", "steps/bake/command/stderr.txt": "the oven is cold\n"},
		},
	})
}
