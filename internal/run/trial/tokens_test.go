package trial_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api/anthropic"
	"github.com/org/rollout-action/internal/model/api/chat"
	"github.com/org/rollout-action/internal/model/gateway"
	"github.com/org/rollout-action/internal/model/scripted"
	"github.com/org/rollout-action/internal/model/trajectory"
)

// recordingTokens returns a story whose model's tokens are recorded.
func recordingTokens(t *testing.T, api model.API, script scripted.Script) story {
	t.Helper()
	s, a := shellStory(t, api, agent.Budget{}, script)
	m, err := gateway.New(gateway.Config{Name: "small", API: api, Upstream: "the-small-one", Key: realKey, Transport: a, Tokens: true, Cost: (&config.Model{Price: &config.Price{}}).Cost})
	if err != nil {
		t.Fatal(err)
	}
	s.models["small"] = m
	return s
}

var threeTurns = scripted.Script{Answers: []scripted.Answer{{Text: "I look.", Run: "echo plum"}, {Text: "Once more.", Run: "echo pear"}, {Text: "It is plum."}}}

// The ids of tokens are in the record and in the trajectory, and each prompt begins with the turn
// before it.
func TestTokensAreRecorded(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		o := p.run(t, recordingTokens(t, chat.Name, threeTurns))
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

// A scripted model speaks all protocols. The agent gets the one with ids of tokens.
func TestTokensOfScriptedModels(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		o := p.run(t, recordingTokens(t, model.Scripted, threeTurns))
		o.check(t, want{reward: "1"})
		if len(o.Trial.Warnings) > 0 {
			t.Errorf("warnings %q", o.Trial.Warnings)
		}
		contains(t, "the record", o.file(t, "trajectory.jsonl"), `"completion_ids":[`)
	})
}

// From the first secret on, there are no ids that could reveal it.
func TestTokensWithSecretsAreNotRecorded(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		script := threeTurns
		script.Answers = append([]scripted.Answer{}, threeTurns.Answers...)
		script.Answers[1] = scripted.Answer{Text: "The key is " + realKey, Run: "echo pear"}
		o := p.run(t, recordingTokens(t, chat.Name, script))
		o.check(t, want{reward: "1"})
		lines := strings.Split(strings.TrimSpace(o.file(t, "trajectory.jsonl")), "\n")
		for i, line := range lines {
			if has := strings.Contains(line, `"completion_ids"`); has != (i == 0) {
				t.Errorf("turn %d has tokens: %t: %.300s", i+1, has, line)
			}
		}
		contains(t, "warnings", strings.Join(o.Trial.Warnings, "\n"), "ids of tokens are not recorded")
	})
}

// An API without ids of tokens is not a failure, but causes a warning.
func TestTokensThatDoNotCome(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		o := p.run(t, recordingTokens(t, anthropic.Name, threeTurns))
		o.check(t, want{reward: "1"})
		contains(t, "warnings", strings.Join(o.Trial.Warnings, "\n"), "3 of 3 answers of the model small came without the ids of their tokens")
	})
}

// A server that refuses the added fields is distinguished from one that refuses the conversation.
func TestTokensThatAreRefused(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		for name, one := range map[string]struct {
			failed scripted.Error
			want   want
			warns  bool
		}{
			"the request":            {scripted.Error{Status: 400, Message: "unknown argument: return_token_ids"}, want{err: result.ModelFailed, says: []string{"400", "unknown argument: return_token_ids"}}, true},
			"a request of that form": {scripted.Error{Status: 422, Message: "extra fields not permitted"}, want{err: result.ModelFailed, says: []string{"422", "extra fields not permitted"}}, true},
			"a long conversation":    {scripted.Error{Status: 400, Message: "maximum context length is 10 tokens"}, want{reward: "1"}, false},
			"the key":                {scripted.Error{Status: 401, Message: "who are you?"}, want{err: result.ModelFailed}, false},
		} {
			t.Run(name, func(t *testing.T) {
				o := p.run(t, recordingTokens(t, chat.Name, scripted.Script{Answers: []scripted.Answer{{Error: &one.failed}}, Repeat: true}))
				o.check(t, one.want)
				warnings := strings.Join(o.Trial.Warnings, "\n")
				if strings.Contains(warnings, "record_tokens had added return_token_ids and logprobs") != one.warns {
					t.Errorf("warnings: %s", warnings)
				}
			})
		}
	})
}
