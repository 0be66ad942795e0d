package shell_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/model/api/anthropic"
	"github.com/org/rollout-action/internal/run/shell"
)

// Ask sends neither tools nor a system prompt; transient failures are retried.
func TestAsk(t *testing.T) {
	for _, api := range api.Names() {
		t.Run(string(api), func(t *testing.T) {
			p := &provider{t: t, answers: []said{{status: 503, body: "busy"}, {stream: finished[api]}}}
			got, err := ask(t, api, p)
			if err != nil || got != "Done." {
				t.Errorf("%q, %v", got, err)
			}
			if len(p.requests) != 2 {
				t.Fatalf("%d requests", len(p.requests))
			}
			golden(t, string(api)+"-ask", p)
		})
	}
}

func TestAskReportsWhyThereIsNoAnswer(t *testing.T) {
	var unanswered *shell.ModelError
	_, err := ask(t, anthropic.Name, &provider{t: t, answers: []said{{status: 400, body: `{"error":{"message":"no"}}`}}})
	if !errors.As(err, &unanswered) || unanswered.Message != "no" {
		t.Errorf("%v", err)
	}
}

func ask(t *testing.T, api model.API, p *provider) (string, error) {
	t.Helper()
	return shell.Ask(t.Context(), shell.Options{
		API: api, Model: "the model", Transport: p, Instruction: "Is <it> good?",
		Sleep: func(ctx context.Context, _ time.Duration) bool { return ctx.Err() == nil },
	})
}
