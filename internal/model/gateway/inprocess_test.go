package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api/anthropic"
	"github.com/org/rollout-action/internal/model/api/chat"
	"github.com/org/rollout-action/internal/model/api/google"
	"github.com/org/rollout-action/internal/model/api/responses"
	"github.com/org/rollout-action/internal/model/gateway"
)

// post sends a turn through a session's transport.
func post(t *testing.T, client *http.Client, api model.API) (status int, body string, err error) {
	t.Helper()
	path := map[model.API]string{
		anthropic.Name: "/v1/messages", chat.Name: "/v1/chat/completions", responses.Name: "/v1/responses",
		google.Name: "/v1beta/models/any:streamGenerateContent?alt=sse",
	}[api]
	answer, err := client.Post("http://anywhere.invalid"+path, "application/json", strings.NewReader(askBody(api, "hello")))
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

// Agents in this process use sessions like those in environments: with a token, with budgets, and
// until the session ends.
func TestTransportLeadsIntoTheSession(t *testing.T) {
	eachAPI(t, func(t *testing.T, api model.API) {
		r := newRig(t, api, saying("good day"), func(_ *gateway.Config, o *gateway.Options) { o.Budget.MaxTurns = 1 })
		client := &http.Client{Transport: r.session.Transport()}
		status, body, err := post(t, client, api)
		if err != nil || status != http.StatusOK || !strings.Contains(body, "good day") || len(r.kept()) != 1 {
			t.Errorf("%v: %d %s; %d turns", err, status, body, len(r.kept()))
		}
		if status, _, err = post(t, client, api); err != nil || status/100 != 4 {
			t.Errorf("after the budget: %v, %d", err, status)
		}
		r.session.Seal()
		if status, _, err = post(t, client, api); err != nil || status != http.StatusConflict {
			t.Errorf("after the end: %v, %d", err, status)
		}
		r.session.Close()
		if _, _, err = post(t, client, api); err == nil {
			t.Error("a closed session answers")
		}
	})
}
