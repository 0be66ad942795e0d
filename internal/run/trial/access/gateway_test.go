package access

import (
	"errors"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api/anthropic"
	"github.com/org/rollout-action/internal/model/api/chat"
	"github.com/org/rollout-action/internal/model/gateway"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

func TestScriptedModelsSpeakTheProtocolOfThePreset(t *testing.T) {
	for _, c := range []struct {
		preset string
		model  gateway.Config
		want   model.API
	}{
		{"", gateway.Config{API: chat.Name}, chat.Name},
		{"claude-code", gateway.Config{API: anthropic.Name}, anthropic.Name},
		{"", gateway.Config{API: model.Scripted}, model.Scripted},
		{"claude-code", gateway.Config{API: model.Scripted}, anthropic.Name},
		{"shell", gateway.Config{API: model.Scripted, Tokens: true}, chat.Name},
	} {
		g := &Gateway{model: &gateway.Model{Config: c.model}, agent: agent.Agent{Preset: c.preset}}
		if got := g.API(); got != c.want {
			t.Errorf("preset %q with a model of %s: %s, want %s", c.preset, c.model.API, got, c.want)
		}
	}
}

func TestFailuresOfModelsAreToldByTheirKind(t *testing.T) {
	g := &Gateway{agent: agent.Agent{Model: "m"}}
	failed := &model.Failure{Kind: model.FailedProvider, Status: 500, Message: "overloaded"}
	ended := failure.Newf(result.AgentExecutionFailed, "it ended with exit code 1")
	for kind, want := range map[model.FailureKind]result.ErrorType{
		model.FailedProvider: result.ModelFailed, model.FailedUnreachable: result.ModelUnreachable, model.FailedGateway: result.GatewayFailed,
	} {
		failed.Kind = kind
		var got *failure.Error
		if err := g.modelFailure(ended, failed); !errors.As(err, &got) || got.Type != want {
			t.Errorf("%v is the failure %v, want the type %s", kind, err, want)
		}
	}
}
