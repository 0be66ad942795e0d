package model_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/model"
)

// post sends a turn through a session's transport.
func post(t *testing.T, client *http.Client, api model.API) (status int, body string, err error) {
	t.Helper()
	path := map[model.API]string{
		model.Anthropic: "/v1/messages", model.OpenAIChat: "/v1/chat/completions", model.OpenAIResponses: "/v1/responses",
		model.Google: "/v1beta/models/any:streamGenerateContent?alt=sse",
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
		r := newRig(t, api, saying("good day"), func(_ *model.Config, o *model.Options) { o.Budget.MaxTurns = 1 })
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

func TestEventReader(t *testing.T) {
	r := model.NewEventReader(strings.NewReader(": hello\n\nevent: a\ndata: 1\ndata: 2\n\nid: 7\n\ndata:3\r\n\r\ndata: 4"))
	for _, want := range []string{"1\n2", "3", "4"} {
		if data, err := r.Next(); err != nil || string(data) != want {
			t.Errorf("%q, %v; want %q", data, err, want)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
	cut := model.NewEventReader(strings.NewReader("data: {\"a\":\n\ndata: {\"a\""))
	if data, err := cut.Next(); err != nil || string(data) != `{"a":` {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := cut.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
}
