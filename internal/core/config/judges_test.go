package config_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/judge"
)

const judgedByTasks = `models:
  used: {api: anthropic, api_key: "${API_KEY}"}
  task: {api: anthropic, api_key: "${TASK_KEY}", headers: {X-Team: "${MODEL}"}}
  unset: {api: anthropic, api_key: "${NOT_SET}"}
  script: {api: scripted, script: answers.txt}
  lost: {api: scripted, script: nowhere.txt}
agents: [{name: a, execute: x, model: used}]
datasets: [{path: dataset}]
`

// The models of tasks' judges are known when the tasks are: then their secrets are expanded and
// their scripts read, and not before.
func TestModelsThatOnlyTasksUse(t *testing.T) {
	host["TASK_KEY"] = "sk-of-the-task"
	t.Cleanup(func() { delete(host, "TASK_KEY") })
	dir := directory(t, map[string]string{"job.yaml": judgedByTasks, "answers.txt": "answers: [{text: one}]\n"})
	loaded, err := config.Load("job.yaml", options(dir))
	if err != nil || len(loaded.Models) != 1 || slices.Contains(loaded.Secrets, "sk-of-the-task") {
		t.Fatalf("%v %v", err, loaded)
	}
	if err := loaded.UseModels([]string{"task", "used", "script", "task", "nobody"}); err != nil {
		t.Fatal(err)
	}
	if m := loaded.Models["task"]; m.Key != "sk-of-the-task" || m.Headers["X-Team"] != "model-1" || len(loaded.Models) != 3 {
		t.Errorf("%+v", loaded.Models)
	}
	if !slices.Equal(loaded.Secrets, []string{"model-1", "sk-123456", "sk-of-the-task"}) || len(loaded.Scripts["script"].Answers) != 1 {
		t.Errorf("%q %+v", loaded.Secrets, loaded.Scripts)
	}
	wantProblems(t, loaded.UseModels([]string{"unset", "lost"}), dir,
		`job.yaml:4:36: environment variable NOT_SET is not set; model "unset" needs it (export it, put it into a file for --env-file, or give a default: ${NOT_SET:-…})`,
		`job.yaml:6:33: models.lost.script: nowhere.txt cannot be read: no such file or directory (write the path relative to the job file)`)
	opts := options(dir)
	opts.AlsoModels = []string{"task"}
	if loaded, err := config.Load("job.yaml", opts); err != nil || loaded.Models["task"].Key == "" {
		t.Errorf("%v", err)
	}
}

// All files that a judge names are admitted, so that a copy of them can be read instead.
func TestFilesOfJudgesAreAdmitted(t *testing.T) {
	dir := directory(t, map[string]string{
		"job.yaml": "models: {m: {api: openai-chat, api_key: k}}\nagents: [{name: oracle}]\ndatasets: [{path: dataset}]\n" +
			"judges: [{name: q, agent: call, model: m, prompt_file: ask.md, verdict_file: form.json}]\n",
		"ask.md": "a stranger's", "copy/ask.md": "Is it good?", "form.json": `{"type": "string"}`,
		"copy/form.json": `{"type": "object", "required": ["score"], "properties": {"score": {"const": 1}}}`,
	})
	opts := options(dir)
	opts.Admit = func(path string) (string, error) {
		if name := filepath.Base(path); name == "ask.md" || name == "form.json" {
			return filepath.Join(dir, "copy", name), nil
		}
		return path, nil
	}
	loaded, err := config.Load("job.yaml", opts)
	if err != nil {
		t.Fatal(err)
	}
	if j := loaded.Job.Judges[0]; j.Prompt != "Is it good?" || j.Verdict["type"] != "object" || j.PromptFile+j.VerdictFile != "" {
		t.Errorf("%+v", j)
	}
	if len(loaded.JudgeFiles) != 2 || loaded.JudgeFiles[0] != (config.JudgeFile{Judge: "q", Key: "prompt_file", Given: "ask.md", Path: filepath.Join(dir, "copy", "ask.md")}) {
		t.Errorf("%+v", loaded.JudgeFiles)
	}
	refused := errors.New("refused")
	opts.Admit = func(path string) (string, error) {
		if filepath.Base(path) == "ask.md" {
			return "", refused
		}
		return path, nil
	}
	if _, err := config.Load("job.yaml", opts); !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
	opts = options(dir)
	opts.OnlyJobFile = true
	if loaded, err := config.Load("job.yaml", opts); err != nil || loaded.Job.Judges[0].Prompt != "" || len(loaded.JudgeFiles) != 2 {
		t.Errorf("%v", err)
	}
}

// An agent that judges is kept, whether it is evaluated or not, and a job that is loaded again is
// the same.
func TestAgentsThatJudgeStay(t *testing.T) {
	dir := directory(t, map[string]string{"job.yaml": `models: {m: {api: openai-chat, api_key: k}}
agents:
  - {name: a, execute: x, model: m}
  - {name: reviewer, execute: ./review, model: m, budget: {max_turns: 3}, env: {KEY: "${API_KEY}"}, files: [dataset]}
  - {name: other, execute: x}
judges: [{name: q, agent: reviewer, model: policy, prompt: x, budget: {max_turns: 9}}]
datasets: [{path: dataset}]
`})
	opts := options(dir)
	opts.OnlyAgents = []string{"a"}
	loaded, err := config.Load("job.yaml", opts)
	if err != nil {
		t.Fatal(err)
	}
	job := loaded.Job
	if len(job.Agents) != 1 || len(job.JudgeAgents) != 1 || job.JudgeAgents[0].Name != "reviewer" || job.JudgeAgents[0].Model != "" {
		t.Fatalf("%+v %+v", job.Agents, job.JudgeAgents)
	}
	if loaded.Env["reviewer"]["KEY"] != "sk-123456" || len(loaded.AgentFiles["reviewer"]) != 1 || loaded.Env["other"] != nil {
		t.Errorf("%v %v", loaded.Env, loaded.AgentFiles)
	}
	got, ok := job.JudgeAgent(job.Judges[0], job.Agents[0])
	if !ok || got.Name != "reviewer" || got.Execute != "./review" || got.Model != "m" || got.Budget != (agent.Budget{MaxTurns: 9}) {
		t.Errorf("%+v", got)
	}
	text, err := config.YAML(job, dir, dir)
	if err != nil {
		t.Fatal(err)
	}
	opts = options(dir)
	opts.Stdin = strings.NewReader(string(text))
	again, err := config.Load("-", opts)
	if err != nil || len(again.Job.JudgeAgents) != 1 || again.Job.JudgeAgents[0].Name != "reviewer" {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestAgentsThatMayJudge(t *testing.T) {
	job := config.Job{Agents: []agent.Agent{{Name: "claude-code", Execute: "own"}}, JudgeAgents: []agent.Agent{{Name: "reviewer", Execute: "r"}}}
	policy := agent.Agent{Name: "a", Model: "m", Budget: agent.Budget{MaxTurns: 1}}
	for _, tc := range []struct {
		agent, model     string
		preset, execute  string
		wantModel, named string
	}{
		{judge.Call, "grader", "shell", "", "grader", "call"},
		{"shell", judge.PolicyModel, "shell", "", "m", "shell"},
		{"reviewer", "grader", "", "r", "grader", "reviewer"},
		{"claude-code", "grader", "", "own", "grader", "claude-code"}, // the job's own comes before a preset
		{"nobody", "grader", "", "", "", ""},
	} {
		got, ok := job.JudgeAgent(judge.Spec{Agent: tc.agent, Model: tc.model}, policy)
		if ok != (tc.named != "") || ok && (got.Name != tc.named || got.Preset != tc.preset || got.Execute != tc.execute || got.Model != tc.wantModel || got.Budget != (agent.Budget{})) {
			t.Errorf("%s: %+v, %v", tc.agent, got, ok)
		}
	}
	if got, ok := job.JudgeAgent(judge.Spec{Agent: "codex", Model: "grader"}, policy); !ok || got.Preset != "codex" || got.Install == "" || got.Execute == "" {
		t.Errorf("%+v, %v", got, ok)
	}
}

// TestProblemsOfScripts checks that problems of a script have positions in the script's file.
func TestProblemsOfScripts(t *testing.T) {
	dir := directory(t, map[string]string{
		"job.yaml": "models: {m: {api: scripted, script: answers.yaml}}\nagents: [{name: a, execute: x, model: m}]\ndatasets: [{path: dataset}]\n",
		"answers.yaml": `rules:
  - last: "("
    answers: [{text: one}]
  - last: two
    answers: []
answers:
  - {empty: true, cut: true}
  - empty: true
    error: {status: 500, in_stream: true}
  - error: {status: 429, in_stream: true, retry_after_sec: 5}
`,
	})
	_, err := config.Load("job.yaml", options(dir))
	wantProblems(t, err, dir,
		"answers.yaml:2:11: rules[0].last: error parsing regexp: missing closing ): `(` (correct the regular expression)",
		`answers.yaml:4:5: rules[1] has no answers (add answers)`,
		`answers.yaml:7:13: answers[0] has both empty and cut: a stream without events has none to leave out (remove one of them)`,
		`answers.yaml:9:37: answers[1].error.in_stream ends every stream, so neither empty nor cut can apply (remove them, or add times)`,
		`answers.yaml:10:60: answers[2].error.retry_after_sec is a header, and an error in a stream has none (remove it, or in_stream)`)

	dir = directory(t, map[string]string{
		"job.yaml":     "models: {m: {api: scripted, script: answers.yaml}}\nagents: [{name: a, execute: x, model: m}]\ndatasets: [{path: dataset}]\n",
		"answers.yaml": "answers:\n  - error: {status: 400, code: context}\n",
	})
	_, err = config.Load("job.yaml", options(dir))
	wantProblems(t, err, dir, `answers.yaml:2:32: answers[0].error.code must be one of context_length, not "context" (did you mean "context_length"?)`)
}
