package experiment

import (
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/task"
)

func TestDigestsOfJudges(t *testing.T) {
	base := func() config.Job {
		job := config.Job{
			Models: map[string]config.Model{
				"grader": {API: config.APIScripted, Model: "grader"}, "small": {API: "anthropic", Model: "nobody-knows"}, "chat": {API: "openai-chat", Model: "c"},
			},
			Agents: []agent.Agent{{Name: "cpe", Execute: "x", Model: "small"}},
			Judges: []judge.Spec{
				{Name: "a", Agent: judge.Call, Model: "grader", Prompt: "x"}, {Name: "b", Agent: "reviewer", Model: "grader", Prompt: "x"}, {Name: "c", Agent: "claude-code", Model: "grader", Prompt: "x"},
			},
			Reward: "scores.a",
		}
		job.JudgeAgents = []agent.Agent{{Name: "reviewer", Execute: "./review", Env: map[string]string{"MODE": "${MODE}"}}}
		return job
	}
	in := Inputs{Visible: map[string]map[string]string{"reviewer": {"MODE": "strict"}}}
	before := DigestsOf(base(), in)
	withOwn := &task.Task{Config: task.Config{Judges: []judge.Spec{{Name: "own", Agent: "shell", Model: "small", Prompt: "x"}}}}
	for name, tc := range map[string]struct {
		change       func(*config.Job, *Inputs)
		config, task bool // of tasks without judges, and of one with a judge
	}{
		"nothing":                {func(*config.Job, *Inputs) {}, false, false},
		"a prompt":               {func(j *config.Job, _ *Inputs) { j.Judges[0].Prompt = "y" }, true, true},
		"a schema":               {func(j *config.Job, _ *Inputs) { j.Judges[0].Verdict = map[string]any{"type": "object"} }, true, true},
		"a budget":               {func(j *config.Job, _ *Inputs) { j.Judges[0].Budget.MaxTurns = 3 }, true, true},
		"another judge":          {func(j *config.Job, _ *Inputs) { j.Judges = j.Judges[1:] }, true, true},
		"the reward":             {func(j *config.Job, _ *Inputs) { j.Reward = "tests" }, true, true},
		"an agent":               {func(j *config.Job, _ *Inputs) { j.Judges[0].Agent = "shell" }, true, true},
		"the script of an agent": {func(j *config.Job, _ *Inputs) { j.JudgeAgents[0].Execute = "./other" }, true, true},
		"the place of an agent":  {func(j *config.Job, _ *Inputs) { j.Agents, j.JudgeAgents = append(j.Agents, j.JudgeAgents...), nil }, false, false},
		"an agent that does not judge": {func(j *config.Job, _ *Inputs) {
			j.JudgeAgents = append(j.JudgeAgents, agent.Agent{Name: "x", Execute: "y"})
		}, false, false},
		"a variable of an agent": {func(_ *config.Job, in *Inputs) {
			in.Visible = map[string]map[string]string{"reviewer": {"MODE": "mild"}}
		}, true, true},
		"the files of an agent": {func(_ *config.Job, in *Inputs) { in.Files = map[string]string{"reviewer": "sha256:1"} }, true, true},
		"a model":               {func(j *config.Job, _ *Inputs) { j.Models["grader"] = config.Model{API: "anthropic", Model: "other"} }, true, true},
		"the price of a model": {func(j *config.Job, _ *Inputs) {
			m := j.Models["grader"]
			m.Price = &config.Price{Input: 1, Output: 1}
			j.Models["grader"] = m
		}, false, false},
		"a model that is not used":    {func(j *config.Job, _ *Inputs) { j.Models["chat"] = config.Model{API: "anthropic", Model: "other"} }, false, false},
		"the model of a task's judge": {func(j *config.Job, _ *Inputs) { j.Models["small"] = config.Model{API: "anthropic", Model: "other"} }, false, true},
	} {
		job, inputs := base(), in
		tc.change(&job, &inputs)
		after := DigestsOf(job, inputs)
		if got := after.Config != before.Config; got != tc.config {
			t.Errorf("%s: the configuration's digest differs: %v", name, got)
		}
		if got := after.ConfigOf(withOwn) != before.ConfigOf(withOwn); got != tc.task {
			t.Errorf("%s: the digest for a task with a judge differs: %v", name, got)
		}
	}
	if plain := new(task.Task); before.ConfigOf(plain) != before.Config || before.ConfigOf(withOwn) == before.Config {
		t.Error("the digest does not depend on whether a task has judges")
	}
}

// Results of jobs without judges stay comparable with those of earlier versions.
func TestJobsWithoutJudgesKeepTheirDigests(t *testing.T) {
	job := config.Job{TimeoutMultiplier: 1, Agents: []agent.Agent{{Name: "cpe", Execute: "e", Model: "m"}}, Models: map[string]config.Model{"m": {API: "anthropic", Model: "m"}}}
	d := DigestsOf(job, Inputs{})
	config, cpe := "sha256:543dcf42cba8bb86b4be3818c318cc3e175218e125fc6ab76e298330e15d271c", "sha256:20bf4be261be29b3dee867bfa18b51caa29b086d9eaf908152742a7a048ac7e4"
	if d.Config != config || d.Agents["cpe"] != cpe {
		t.Errorf("the digests are %s and %s", d.Config, d.Agents["cpe"])
	}
}
