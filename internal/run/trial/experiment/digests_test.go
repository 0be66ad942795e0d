package experiment

import (
	"maps"
	"reflect"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/gate"
)

func TestDigestsTellExperimentsApart(t *testing.T) {
	base := func() config.Job {
		return config.Job{
			Name: "a", JobsDir: "jobs", NAttempts: 1, NConcurrentTrials: 4, TimeoutMultiplier: 1, LogLevel: "warn", InstructionPath: "/i",
			Agents: []agent.Agent{{Name: "cpe", Install: "i", Execute: "e", Env: map[string]string{"KEY": "${KEY}", "MODEL": "${MODEL}"}}},
		}
	}
	visible := map[string]map[string]string{"cpe": {"MODEL": "large"}}
	before := DigestsOf(base(), Inputs{Visible: visible})
	for name, c := range map[string]struct {
		change        func(*config.Job)
		agent, config bool // differ
	}{
		"nothing": {func(*config.Job) {}, false, false},
		"scheduling": {func(j *config.Job) {
			j.NConcurrentTrials, j.NAttempts, j.LogLevel, j.Name, j.JobsDir = 1, 9, "error", "b", "x"
		}, false, false},
		"judging": {func(j *config.Job) { j.Metrics, j.Gate = []config.Metric{{Type: "sum"}}, gate.Policy{Confidence: 0.5} }, false, false},
		"tasks": {func(j *config.Job) {
			j.Tasks, j.IncludeTasks, j.Datasets = []string{"x"}, []string{"y"}, []config.Dataset{{Path: "z"}}
		}, false, false},
		"where files come from": {func(j *config.Job) { j.Agents[0].Files = []agent.File{{Source: "elsewhere"}} }, false, false},
		"description":           {func(j *config.Job) { j.Agents[0].Description = "x" }, false, false},
		"install":               {func(j *config.Job) { j.Agents[0].Install = "x" }, true, false},
		"execute":               {func(j *config.Job) { j.Agents[0].Execute = "x" }, true, false},
		"a variable":            {func(j *config.Job) { j.Agents[0].Env["X"] = "1" }, true, false},
		"placeholder":           {func(j *config.Job) { j.Agents[0].Env["KEY"] = "${OTHER}" }, true, false},
		"multiplier":            {func(j *config.Job) { j.TimeoutMultiplier = 2 }, false, true},
		"instruction":           {func(j *config.Job) { j.InstructionPath = "/j" }, false, true},
		"provider":              {func(j *config.Job) { j.Environment.Type = "sandbox" }, false, true},
		"memory":                {func(j *config.Job) { j.Environment.OverrideMemory = new(config.Bytes(1 << 30)) }, false, true},
		"verifier":              {func(j *config.Job) { j.Verifier.OnAgentFailure = config.RunVerifier }, false, true},
	} {
		job := base()
		job.Agents[0].Env = maps.Clone(job.Agents[0].Env)
		c.change(&job)
		after := DigestsOf(job, Inputs{Visible: visible})
		if (after.Agents["cpe"] != before.Agents["cpe"]) != c.agent || (after.Config != before.Config) != c.config {
			t.Errorf("%s: the agent's digest differs: %v, the configuration's: %v", name, after.Agents["cpe"] != before.Agents["cpe"], after.Config != before.Config)
		}
	}
	if after := DigestsOf(base(), Inputs{Visible: map[string]map[string]string{"cpe": {"MODEL": "small"}}}); after.Agents["cpe"] == before.Agents["cpe"] {
		t.Error("a visible value makes no difference")
	}
	if after := DigestsOf(base(), Inputs{Visible: visible, Files: map[string]string{"cpe": "sha256:1"}}); after.Agents["cpe"] == before.Agents["cpe"] || after.Config != before.Config {
		t.Error("files make no difference, or one for the configuration")
	}
	if after := DigestsOf(base(), Inputs{Visible: visible, Passed: map[string]string{"DATA": "x"}}); after.Config == before.Config || after.Agents["cpe"] != before.Agents["cpe"] {
		t.Error("a visible value that tasks are passed makes no difference, or one for the agent")
	}
	if reflect.DeepEqual(before.Agents, map[string]string{}) || before.Config == "" {
		t.Errorf("there are no digests: %+v", before)
	}
}
