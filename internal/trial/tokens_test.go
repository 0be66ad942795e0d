package trial_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/agent"
	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/scripted"
	"github.com/org/rollout-action/internal/trajectory"
)

// recordingTokens is a story whose model's tokens are recorded.
func recordingTokens(t *testing.T, api model.API, script scripted.Script) story {
	t.Helper()
	s, a := shellStory(t, api, agent.Budget{}, script)
	m, err := model.New(model.Config{Name: "small", API: api, Upstream: "the-small-one", Key: realKey, Transport: a, Tokens: true, Cost: (&config.Model{Price: &config.Price{}}).Cost})
	if err != nil {
		t.Fatal(err)
	}
	s.models["small"] = m
	return s
}

var threeTurns = scripted.Script{Answers: []scripted.Answer{{Text: "I look.", Run: "echo plum"}, {Text: "Once more.", Run: "echo pear"}, {Text: "It is plum."}}}

// The numbers of tokens are in the record and in the trajectory, and each prompt begins with the turn before it.
func TestTokensAreRecorded(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		o := p.run(t, recordingTokens(t, model.OpenAIChat, threeTurns))
		o.check(t, want{reward: "1"})
		if len(o.Trial.Warnings) > 0 {
			t.Errorf("warnings %q", o.Trial.Warnings)
		}
		var read trajectory.Trajectory
		if err := json.Unmarshal([]byte(o.file(t, "trajectory.json")), &read); err != nil {
			t.Fatal(err)
		}
		var before []int32
		turns := 0
		for _, step := range read.Steps {
			if step.Source != "agent" {
				continue
			}
			turns++
			m := step.Metrics
			if m == nil || len(m.CompletionIDs) == 0 || len(m.Logprobs) != len(m.CompletionIDs) || len(m.PromptIDs) <= len(before) {
				t.Fatalf("turn %d: %+v", turns, m)
			}
			for i, id := range before {
				if m.PromptIDs[i] != id {
					t.Fatalf("turn %d does not begin with the turn before it: %v, %v", turns, m.PromptIDs, before)
				}
			}
			before = append(m.PromptIDs[:len(m.PromptIDs):len(m.PromptIDs)], m.CompletionIDs...)
		}
		if turns != 3 {
			t.Errorf("%d turns", turns)
		}
		contains(t, "the record", o.file(t, "trajectory.jsonl"), `"shared":`)
	})
}

// From the first secret on, there are no numbers that could tell it.
func TestTokensWithSecretsAreNotRecorded(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		script := threeTurns
		script.Answers = append([]scripted.Answer{}, threeTurns.Answers...)
		script.Answers[1] = scripted.Answer{Text: "The key is " + realKey, Run: "echo pear"}
		o := p.run(t, recordingTokens(t, model.OpenAIChat, script))
		o.check(t, want{reward: "1"})
		lines := strings.Split(strings.TrimSpace(o.file(t, "trajectory.jsonl")), "\n")
		for i, line := range lines {
			if has := strings.Contains(line, `"completion_ids"`); has != (i == 0) {
				t.Errorf("turn %d has tokens: %t: %.300s", i+1, has, line)
			}
		}
		contains(t, "warnings", strings.Join(o.Trial.Warnings, "\n"), "numbers of tokens are not recorded")
	})
}

// An API without numbers of tokens is no failure, but it is said.
func TestTokensThatDoNotCome(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		o := p.run(t, recordingTokens(t, model.Anthropic, threeTurns))
		o.check(t, want{reward: "1"})
		contains(t, "warnings", strings.Join(o.Trial.Warnings, "\n"), "3 of 3 answers of the model small came without the numbers of their tokens")
	})
}
