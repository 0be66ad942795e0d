package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/model/api/anthropic"
	"github.com/org/rollout-action/internal/model/scripted"
)

// TestScriptedStreamsThatFail checks, in all protocols, how a scripted stream ends, and how the
// gateway reports it.
func TestScriptedStreamsThatFail(t *testing.T) {
	cases := []struct {
		name   string
		answer scripted.Answer
		status int
		kind   model.FailureKind
		says   string // the text that the client gets
		whole  bool   // the connection is not aborted
	}{
		{"without an event", scripted.Answer{Text: "unsaid", Empty: true}, http.StatusOK, model.FailedCut, "", false},
		{"an event with an error", scripted.Answer{Text: "I begin.", Error: &scripted.Error{Status: 529, Message: "plum", InStream: true}}, http.StatusOK, model.FailedProvider, "plum", true},
		{"an event with an overflow", scripted.Answer{Error: &scripted.Error{Status: 400, Code: "context_length", InStream: true}}, http.StatusOK, model.FailedOverflow, "", true},
		{"an overflow", scripted.Answer{Error: &scripted.Error{Status: 400, Code: "context_length"}}, http.StatusBadRequest, model.FailedOverflow, "", true},
		{"an error", scripted.Answer{Error: &scripted.Error{Status: 403}}, http.StatusForbidden, model.FailedProvider, "forbidden", true},
	}
	for _, c := range cases {
		for _, api := range api.Names() {
			t.Run(c.name+"/"+string(api), func(t *testing.T) {
				r := newRig(t, api, scripted.Script{Answers: []scripted.Answer{c.answer}}, nil)
				got := r.turn(api, "hello")
				if got.status != c.status || (got.err == nil) != c.whole || !strings.Contains(got.body, c.says) || strings.Contains(got.body, "unsaid") {
					t.Errorf("the client got the status %d, the error %v and %s", got.status, got.err, got.body)
				}
				report := r.session.Seal()
				if f := report.Failure; f == nil || f.Kind != c.kind || report.Turns != 0 || report.Failed != 1 {
					t.Errorf("the failure is %+v, of %d failed calls and %d turns, want %s", f, report.Failed, report.Turns, c.kind)
				}
			})
		}
	}
}

// TestScriptedErrorsAreCountedPerTrial runs two trials with an error that occurs once.
func TestScriptedErrorsAreCountedPerTrial(t *testing.T) {
	script := scripted.Script{Answers: []scripted.Answer{{Text: "plum", Error: &scripted.Error{Status: 500, InStream: true, Times: 1}}}}
	if err := script.Check(); err != nil {
		t.Fatal(err)
	}
	upstream := scripted.New(script)
	for range 2 {
		r := newRigWith(t, anthropic.Name, upstream, nil)
		if got := r.turn(anthropic.Name, "hello"); !strings.Contains(got.body, "event: error") {
			t.Errorf("the first answer of a trial has no error: %s", got.body)
		}
		if got := r.turn(anthropic.Name, "hello"); strings.Contains(got.body, "event: error") || !strings.Contains(got.body, "message_stop") {
			t.Errorf("the second answer of a trial is not whole: %s", got.body)
		}
	}
}

// TestScriptedErrorsOfRequestsWithoutStream checks that the options for streams have no effect on
// other requests, except that an error remains an error.
func TestScriptedErrorsOfRequestsWithoutStream(t *testing.T) {
	bare := `{"model":"asked","max_tokens":100,"messages":[{"role":"user","content":"hello"}]}`
	for _, c := range []struct {
		name   string
		answer scripted.Answer
		status int
	}{
		{"empty", scripted.Answer{Text: "plum", Empty: true}, http.StatusOK},
		{"in_stream", scripted.Answer{Text: "plum", Error: &scripted.Error{Status: 500, Message: "plum", InStream: true}}, http.StatusInternalServerError},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, anthropic.Name, scripted.Script{Answers: []scripted.Answer{c.answer}}, nil)
			if got := r.do(http.MethodPost, paths[anthropic.Name], bare); got.status != c.status || !strings.Contains(got.body, "plum") {
				t.Errorf("got %+v", got)
			}
		})
	}
}
