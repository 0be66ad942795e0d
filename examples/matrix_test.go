package examples

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// matrixRows lists the failures of a provider.
var matrixRows = []struct {
	name string
	// always replaces each answer of the model; "": once is a key of the first answers of the
	// script that solves the task.
	always, once string
}{
	{name: "status-400", always: "error: {status: 400, message: plum}"},
	{name: "status-402", always: "error: {status: 402, message: plum}"},
	{name: "status-403", always: "error: {status: 403, message: plum}"},
	{name: "status-503-once", once: "error: {status: 503, times: 1}"},
	{name: "limit-that-passes", once: "error: {status: 429, retry_after_sec: 1, times: 2}"},
	{name: "limit-that-lasts", always: "error: {status: 429, retry_after_sec: 300}"},
	{name: "overflow", always: "error: {status: 400, code: context_length}"},
	{name: "no-event", always: "empty: true"},
	{name: "cut", always: "{text: I begin with the first column., cut: true, usage: {input: 1000, output: 10}}"},
	{name: "error-in-stream", always: "{text: I begin with the first column., error: {status: 500, message: plum, in_stream: true}}"},
	{name: "error-in-stream-once", once: "error: {status: 500, in_stream: true, times: 1}"},
	{name: "no-output", always: "usage: {input: 1000}"},
}

// matrix lists the behaviour of agents and Rollout's classification, for each of matrixRows in
// order (of some, one of several patterns of path.Match), as observed with the versions of the
// presets on 2026-11-23 and, for claude-code and opencode, on 2026-11-24.
var matrix = map[string][]string{
	"claude-code": {
		"6 calls, 0 turns, model_failed",
		"1 calls, 0 turns, model_failed",
		"1 calls, 0 turns, model_failed",
		"3 calls, 2 turns, reward 1",
		"2 calls, 2 turns, reward 1",
		"1 calls, 0 turns, model_failed",
		"1 calls, 0 turns, context_length",
		"many calls, agent_execution_timeout",
		"* calls, 0 turns, reward 0 | many calls, agent_execution_timeout", // depends on how much of the answer it has read
		"many calls, agent_execution_timeout",
		"3 calls, 2 turns, reward 1",
		"2 calls, 2 turns, reward 0",
	},
	"codex": {
		"1 calls, 0 turns, model_failed",
		"6 calls, 0 turns, model_failed",
		"6 calls, 0 turns, model_failed",
		"3 calls, 2 turns, reward 1",
		"2 calls, 2 turns, reward 1",
		"1 calls, 0 turns, model_failed",
		"1 calls, 0 turns, context_length",
		"6 calls, 0 turns, model_failed",
		"6 calls, 0 turns, model_failed",
		"6 calls, 0 turns, model_failed",
		"2 calls, 1 turns, reward 0",
		"1 calls, 1 turns, reward 0",
	},
	"gemini-cli": {
		"1 calls, 0 turns, model_failed",
		"1 calls, 0 turns, model_failed",
		"1 calls, 0 turns, model_failed",
		"3 calls, 2 turns, reward 1",
		"2 calls, 2 turns, reward 1",
		"1 calls, 0 turns, model_failed",
		"1 calls, 0 turns, context_length",
		"1 calls, 0 turns, model_failed",
		"1 calls, 0 turns, model_failed",
		"4 calls, 0 turns, reward 0",
		"3 calls, 2 turns, reward 1",
		"4 calls, 4 turns, reward 0",
	},
	"qwen-code": {
		"1 calls, 0 turns, model_failed",
		"1 calls, 0 turns, model_failed",
		"1 calls, 0 turns, model_failed",
		"3 calls, 2 turns, reward 1",
		"2 calls, 2 turns, reward 1",
		"1 calls, 0 turns, model_failed",
		"1 calls, 0 turns, context_length",
		"3 calls, 0 turns, model_failed",
		"1 calls, 0 turns, reward 0 | 3 calls, 0 turns, model_failed", // depends on how much of the answer it has read
		"1 calls, 0 turns, model_failed",
		"1 calls, 0 turns, model_failed",
		"5 calls, 5 turns, agent_execution_failed",
	},
	"opencode": {
		"1 calls, 0 turns, model_failed",
		"1 calls, 0 turns, model_failed",
		"1 calls, 0 turns, model_failed",
		"3 calls, 2 turns, reward 1",
		"2 calls, 2 turns, reward 1",
		"1 calls, 0 turns, model_failed",
		"2 calls, 0 turns, context_length",
		"6 calls, 0 turns, model_failed | many calls, agent_execution_timeout", // depends on the speed of the machine
		"6 calls, 0 turns, model_failed",
		"1 calls, 0 turns, model_failed",
		"3 calls, 2 turns, reward 1",
		"1 calls, 1 turns, reward 0",
	},
	"mini-swe-agent": { // it does not request streams, so the broken ones do not affect it
		"1 calls, 0 turns, model_failed",
		"1 calls, 0 turns, model_failed",
		"1 calls, 0 turns, model_failed",
		"3 calls, 2 turns, reward 1",
		"2 calls, 2 turns, reward 1",
		"1 calls, 0 turns, model_failed",
		"1 calls, 0 turns, context_length",
		"3 calls, 3 turns, reward 0",
		"3 calls, 3 turns, reward 0",
		"3 calls, 0 turns, model_failed",
		"3 calls, 2 turns, reward 1",
		"3 calls, 3 turns, reward 0",
	},
	"aider": { // it always exits with 0
		"1 calls, 0 turns, reward 0",
		"1 calls, 0 turns, reward 0",
		"1 calls, 0 turns, reward 0",
		"2 calls, 1 turns, reward 1",
		"1 calls, 1 turns, reward 1",
		"1 calls, 0 turns, model_failed",
		"1 calls, 0 turns, context_length",
		"9 calls, 0 turns, reward 0",
		"9 calls, 0 turns, reward 0",
		"9 calls, 0 turns, reward 0",
		"2 calls, 1 turns, reward 1",
		"1 calls, 1 turns, reward 0",
	},
	"pi": {
		"1 calls, 0 turns, reward 0",
		"1 calls, 0 turns, reward 0",
		"1 calls, 0 turns, reward 0",
		"3 calls, 2 turns, reward 1",
		"2 calls, 2 turns, reward 1",
		"1 calls, 0 turns, model_failed",
		"1 calls, 0 turns, context_length",
		"4 calls, 0 turns, reward 0",
		"4 calls, 0 turns, reward 0",
		"1 calls, 0 turns, reward 0",
		"3 calls, 2 turns, reward 1",
		"1 calls, 1 turns, reward 0",
	},
}

// isOneOf reports whether one of the patterns, which " | " separates, matches the text.
func isOneOf(patterns, text string) bool {
	return slices.ContainsFunc(strings.Split(patterns, " | "), func(pattern string) bool {
		ok, err := path.Match(pattern, text)
		return ok && err == nil
	})
}

// describe summarizes the result of a trial. The number of calls of an agent that retries until its
// timeout depends on the machine.
func describe(got agentTrial) string {
	calls, end := "no usage", "reward none"
	if u := got.Usage; u != nil {
		calls = fmt.Sprintf("%d calls, %d turns", u.Calls, u.Turns)
	}
	switch {
	case got.Error != nil:
		end = got.Error.Type
		if end == "agent_execution_timeout" && got.Usage != nil && got.Usage.Calls > 2 {
			calls = "many calls"
		}
	case got.StopCondition != "":
		end = got.StopCondition
	case got.Reward != nil:
		end = fmt.Sprintf("reward %v", *got.Reward)
	}
	return calls + ", " + end
}

var firstUsage = regexp.MustCompile(`(?m)^( +)usage: \{input: 1000,.*$`)

// TestAgentsMatrix lets providers fail in many ways, and checks how each agent reacts.
func TestAgentsMatrix(t *testing.T) {
	r := agentsRunner(t)
	preset := regexp.MustCompile(`(?m)^  - \{name: (\S+), preset.*\n`)
	text, err := os.ReadFile(r.job)
	if err != nil {
		t.Fatal(err)
	}
	solves, err := os.ReadFile(filepath.Join(r.dir, "answers.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var models, agents strings.Builder
	for _, row := range matrixRows {
		script := "answers:\n  - " + row.always + "\nrepeat: true\n"
		if row.always == "" {
			script = firstUsage.ReplaceAllString(string(solves), "$0\n${1}"+row.once)
		} else if strings.HasPrefix(row.always, "{") {
			script = "answers: [" + row.always + "]\nrepeat: true\n"
		}
		if err := os.WriteFile(filepath.Join(r.dir, row.name+".yaml"), []byte(script), 0o644); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&models, "  %s: {api: scripted, script: %[1]s.yaml, price: {input: 3, output: 15}}\n", row.name)
		fmt.Fprintf(&agents, "  - {name: %s, preset: PRESET, model: %[1]s, budget: {max_turns: 20}}\n", row.name)
	}
	replaceIn(t, filepath.Join(r.dir, "tasks/sum-the-sales/task.toml"), agentTimeout, "timeout_sec = 100") // some retry until their timeout
	// One agent at a time: each needs a lot of memory.
	for _, name := range preset.FindAllStringSubmatch(string(text), -1) {
		t.Run(name[1], func(t *testing.T) {
			if matrix[name[1]] == nil {
				t.Fatal("nobody has collected what it does")
			}
			_, environment, _ := strings.Cut(string(text), "\ndatasets:")
			job := "models:\n" + models.String() + "agents:\n" + strings.ReplaceAll(agents.String(), "PRESET", name[1]) + "\ndatasets:" + environment + "n_concurrent_trials: 3\n"
			if name[1] == "aider" { // its retries wait for a minute together, and then it exits: a slow machine must let it
				job += "timeout_multiplier: 3\n"
			}
			if err := os.WriteFile(r.job, []byte(job), 0o644); err != nil {
				t.Fatal(err)
			}
			trials := r.trials(t, "matrix-"+name[1], r.agents(t, "budget: {max_turns: 20}"))
			want := matrix[name[1]]
			for i, row := range matrixRows {
				t.Run(row.name, func(t *testing.T) {
					got, _ := trials(t, row.name)
					if i >= len(want) || !isOneOf(want[i], describe(got)) {
						t.Errorf("got %q of %+v with the error %+v", describe(got), got.Usage, got.Error)
						if i < len(want) {
							t.Errorf("want %q", want[i])
						}
					}
				})
			}
		})
	}
}
