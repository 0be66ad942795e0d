package gateway_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/model/api/anthropic"
	"github.com/org/rollout-action/internal/model/api/chat"
	"github.com/org/rollout-action/internal/model/api/google"
	"github.com/org/rollout-action/internal/model/api/responses"
	"github.com/org/rollout-action/internal/model/gateway"
	"github.com/org/rollout-action/internal/model/prices"
	"github.com/org/rollout-action/internal/model/scripted"
)

// The tests in this file are about points at which clients and gateways were seen to fail each
// other. Each comment names the behaviour of the client that requires it.

func eachAPI(t *testing.T, test func(t *testing.T, api model.API)) {
	t.Helper()
	for _, api := range api.Names() {
		t.Run(string(api), func(t *testing.T) { test(t, api) })
	}
}

func saying(text string) scripted.Script {
	return scripted.Script{Answers: []scripted.Answer{{Text: text, Usage: scripted.Usage{Input: 10, Output: 5}}}, Repeat: true}
}

// fixed is a provider that gives one answer.
func fixed(status int, contentType, body string, header ...string) transport {
	return func(q *http.Request) (*http.Response, error) {
		h := http.Header{"Content-Type": {contentType}}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: q, ProtoMajor: 1, ProtoMinor: 1}, nil
	}
}

// whole returns a stream of each API without its last event, and the last event.
func streamOf(t *testing.T, api model.API) (first, last string) {
	t.Helper()
	r := newRig(t, api, saying("Some words."), nil)
	text := r.turn(api, "go").body
	events := strings.SplitAfter(strings.ReplaceAll(text, "\r\n", "\n"), "\n\n")
	for len(events) > 0 && strings.TrimSpace(events[len(events)-1]) == "" {
		events = events[:len(events)-1]
	}
	if len(events) < 2 {
		t.Fatalf("a stream of %d events: %s", len(events), text)
	}
	return strings.Join(events[:len(events)-1], ""), events[len(events)-1]
}

// A clean end of a stream that was cut off makes opencode repeat the request endlessly.
func TestCutStreamsAreAborted(t *testing.T) {
	eachAPI(t, func(t *testing.T, api model.API) {
		first, _ := streamOf(t, api)
		if api == chat.Name { // its last event is [DONE], without which an answer may be whole
			first = first[:strings.LastIndex(first, `data: {`)]
		}
		for name, body := range map[string]string{"without the last event": first, "one comment": ": hello\n\n", "nothing": ""} {
			r := newRigWith(t, api, fixed(200, "text/event-stream", body), nil)
			if got := r.turn(api, "go"); got.err == nil {
				t.Errorf("%s: the answer ends as if it were whole: %q", name, got.body)
			}
			report := r.session.Seal()
			if report.Failure == nil || report.Failure.Kind != model.FailedCut || report.Turns != 0 || report.Failed != 1 {
				t.Errorf("%s: %+v, failure %+v", name, report, report.Failure)
			}
		}
	})
}

// Partial turns cost money, too: their usage is counted and recorded.
func TestPartialTurnsAreRecorded(t *testing.T) {
	body := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"x\",\"usage\":{\"input_tokens\":70,\"output_tokens\":1}}}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"half a sen\"}}\n\n"
	r := newRigWith(t, anthropic.Name, fixed(200, "text/event-stream", body), func(c *gateway.Config, _ *gateway.Options) {
		c.Cost = func(_ string, _ time.Time, u model.Usage) *float64 { return new(float64(u.Total())) }
	})
	r.turn(anthropic.Name, "go")
	report := r.session.Seal()
	if len(r.kept()) != 1 || r.kept()[0].Whole || r.kept()[0].Answer.Message.Parts[0].Text != "half a sen" || *report.Usage.Input != 70 || report.Cost == nil || *report.Cost != 73 || report.Estimated != 1 {
		t.Errorf("turns %+v, report %+v", r.kept(), report)
	}
	eachAPI(t, func(t *testing.T, api model.API) {
		first, last := streamOf(t, api)
		if api == chat.Name { // its last event is [DONE], without which an answer may be whole
			first = first[:strings.LastIndex(first, "data: {")]
		}
		r := newRigWith(t, api, fixed(200, "text/event-stream", first), nil)
		r.turn(api, "go")
		if kept := r.kept(); len(kept) != 1 || kept[0].Whole || kept[0].Failure == nil || !strings.HasPrefix("Some words.", kept[0].Answer.Message.Text()) || kept[0].Answer.Message.Text() == "" {
			t.Errorf("without %q: %+v", last, kept)
		}
	})
}

// claude-code asks six more times after a 400, codex after a 402 or 403.
func TestRefusalsEndClients(t *testing.T) {
	eachAPI(t, func(t *testing.T, api model.API) {
		r := newRig(t, api, saying("ok"), func(_ *gateway.Config, o *gateway.Options) { o.Budget.MaxTurns = 2 })
		for range 2 {
			if got := r.turn(api, "go"); got.status != 200 {
				t.Fatalf("%+v", got)
			}
		}
		want := http.StatusBadRequest
		if api == anthropic.Name {
			want = http.StatusPaymentRequired
		}
		for range 3 {
			if got := r.turn(api, "go"); got.status != want || !strings.Contains(got.body, "rollout stopped: max_turns") {
				t.Errorf("%d %s, want %d", got.status, got.body, want)
			}
		}
		report := r.session.Seal()
		if report.Turns != 2 || report.Refused != 3 || report.Stop != model.StopTurns || report.Failed != 0 || len(r.kept()) != 2 || len(r.sent()) != 2 {
			t.Errorf("%+v", report)
		}
	})
}

// Tokens and costs are known when a turn ends, so they may be exceeded by the last one.
func TestEachBudgetEndsTheSession(t *testing.T) {
	price := func(_ string, _ time.Time, u model.Usage) *float64 { return new(float64(u.Total()) / 100) } // each turn: 100 and 10 tokens, 1.1 dollars
	for stop, one := range map[model.Stop]struct {
		budget model.Budget
		turns  int64
	}{
		model.StopTurns:  {model.Budget{MaxTurns: 3}, 3},
		model.StopInput:  {model.Budget{MaxInputTokens: 201}, 3},
		model.StopOutput: {model.Budget{MaxOutputTokens: 20}, 2},
		model.StopTokens: {model.Budget{MaxTotalTokens: 221}, 3},
		model.StopCost:   {model.Budget{MaxCostUSD: new(1.2)}, 2},
	} {
		t.Run(string(stop), func(t *testing.T) {
			script := scripted.Script{Answers: []scripted.Answer{{Text: "ok", Usage: scripted.Usage{Input: 100, Output: 10}}}, Repeat: true}
			r := newRig(t, chat.Name, script, func(c *gateway.Config, o *gateway.Options) { c.Cost, o.Budget = price, one.budget })
			for n := range one.turns + 2 {
				got := r.turn(chat.Name, "go")
				if refused := n >= one.turns; (got.status != 200) != refused || refused && !strings.Contains(got.body, "rollout stopped: "+string(stop)) {
					t.Errorf("turn %d: %d %s", n+1, got.status, got.body)
				}
			}
			if report := r.session.Seal(); report.Stop != stop || report.Turns != one.turns || report.Refused != 2 || len(r.sent()) != int(one.turns) {
				t.Errorf("%+v", report)
			}
		})
	}
}

// Comments break gemini-cli, blank lines openai-python; codex counts only events with data as signs
// of life.
func TestKeepAlivesHaveTheFormOfEachProtocol(t *testing.T) {
	want := map[model.API]string{
		anthropic.Name: "event: ping\ndata: {\"type\": \"ping\"}\n\n", chat.Name: ": keepalive\ndata: ",
		responses.Name: "event: response.in_progress\ndata: {", google.Name: "}\n\n\r\n",
	}
	eachAPI(t, func(t *testing.T, api model.API) {
		first, last := streamOf(t, api)
		answered := make(chan struct{})
		slow := transport(func(q *http.Request) (*http.Response, error) {
			read, write := io.Pipe()
			go func() {
				at := strings.Index(first, "\n\n") + 2
				_, _ = io.WriteString(write, first[:at])
				<-answered
				_, _ = io.WriteString(write, first[at:]+last)
				write.Close()
			}()
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: read, Request: q}, nil
		})
		r := newRigWith(t, api, slow, func(_ *gateway.Config, o *gateway.Options) { o.KeepAlive = 30 * time.Millisecond })
		time.AfterFunc(200*time.Millisecond, func() { close(answered) })
		got := r.turn(api, "go")
		if got.err != nil || !strings.Contains(got.body, want[api]) {
			t.Errorf("%v, no %q in %q", got.err, want[api], got.body)
		}
		if api == google.Name && strings.Contains(got.body, ":\n") {
			t.Errorf("a comment in %q", got.body)
		}
		if r.session.Seal().Turns != 1 {
			t.Error("the turn does not count")
		}
	})
}

// codex asks for a WebSocket, and after any answer but 426 six times more.
func TestWebSocketsAreRefused(t *testing.T) {
	r := newRig(t, responses.Name, saying("ok"), nil)
	got := r.do(http.MethodGet, "/v1/responses", "", "Connection", "Upgrade", "Upgrade", "websocket")
	if got.status != http.StatusUpgradeRequired || len(r.sent()) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestCompressedRequestsAreDecoded(t *testing.T) {
	text := askBody(chat.Name, "compressed")
	var zipped, z bytes.Buffer
	g := gzip.NewWriter(&zipped)
	_, _ = g.Write([]byte(text))
	g.Close()
	s, err := zstd.NewWriter(&z)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = s.Write([]byte(text))
	s.Close()
	for encoding, body := range map[string]string{"gzip": zipped.String(), "zstd": z.String()} {
		r := newRig(t, chat.Name, saying("ok"), nil)
		got := r.do(http.MethodPost, paths[chat.Name], body, "Content-Encoding", encoding)
		if got.status != 200 || !strings.Contains(r.texts()[0], `"compressed"`) || r.sent()[0].Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %+v, %q", encoding, got, r.texts())
		}
	}
	var zeros bytes.Buffer
	g = gzip.NewWriter(&zeros)
	_, _ = g.Write(make([]byte, 1<<20))
	g.Close()
	bomb := bytes.Repeat(zeros.Bytes(), 300) // a gzip stream may have several members
	r := newRig(t, chat.Name, saying("ok"), nil)
	if got := r.do(http.MethodPost, paths[chat.Name], string(bomb), "Content-Encoding", "gzip"); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a bomb: %+v", got)
	}
	if got := r.do(http.MethodPost, paths[chat.Name], "no gzip", "Content-Encoding", "gzip"); got.status != http.StatusBadRequest {
		t.Errorf("no gzip: %+v", got)
	}
}

// Encoding the body again would break signed blocks.
func TestBodiesOfRequestsStayAsTheyAre(t *testing.T) {
	body := `{ "model" : "asked",` + "\n\t" + `"max_tokens":  1e2, "stream":true,"thinking": {"b":1.50,"a":"\u00e9\/"}, "messages":[{"role":"user","content":[{"type":"thinking","signature":"AbC+/=","thinking":"x  y"}]}] }`
	r := newRig(t, anthropic.Name, saying("ok"), nil)
	if got := r.do(http.MethodPost, "/v1/messages", body); got.status != 200 {
		t.Fatalf("%+v", got)
	}
	if want := strings.Replace(body, `"asked"`, `"upstream-model"`, 1); r.texts()[0] != want {
		t.Errorf("sent\n%s\nwant\n%s", r.texts()[0], want)
	}
	// Imposed sampling changes its own values only.
	r = newRig(t, google.Name, saying("ok"), func(c *gateway.Config, _ *gateway.Options) {
		c.Sampling = map[string]any{"temperature": 0, "top_p": 0.5}
	})
	r.do(http.MethodPost, paths[google.Name], `{"contents":[],  "generationConfig":{"temperature":1,"x":[1, 2]}}`)
	if want := `{"contents":[],  "generationConfig":{"temperature":0,"x":[1, 2],"topP":0.5}}`; len(r.texts()) != 1 || r.texts()[0] != want {
		t.Errorf("sent %q, want %q", r.texts(), want)
	}
}

func TestHeadersArePassedOn(t *testing.T) {
	r := newRig(t, anthropic.Name, saying("ok"), func(c *gateway.Config, _ *gateway.Options) { c.Headers = map[string]string{"X-Team": "evals"} })
	r.turn(anthropic.Name, "go", "Anthropic-Beta", "a-2026,b-2026", "Anthropic-Version", "2023-06-01", "Cookie", "c=1", "X-Forwarded-For", "1.2.3.4", "Connection", "X-Hop", "X-Hop", "1")
	h := r.sent()[0].Header
	if h.Get("Anthropic-Beta") != "a-2026,b-2026" || h.Get("Anthropic-Version") != "2023-06-01" || h.Get("X-Team") != "evals" {
		t.Errorf("headers: %v", h)
	}
	for _, name := range []string{"Cookie", "X-Forwarded-For", "X-Hop", "Authorization"} {
		if h.Get(name) != "" {
			t.Errorf("%s is passed on: %v", name, h)
		}
	}
}

// A count is not a turn, and claude-code continues after a 404 for it.
func TestCountsAreNoTurns(t *testing.T) {
	r := newRig(t, anthropic.Name, saying("ok"), func(c *gateway.Config, o *gateway.Options) {
		o.Budget.MaxTurns, c.Sampling = 1, map[string]any{"temperature": 0}
	})
	body := `{"model":"asked","messages":[]}`
	for range 3 {
		if got := r.do(http.MethodPost, "/v1/messages/count_tokens?beta=true", body); got.status != 200 || !strings.Contains(got.body, "input_tokens") {
			t.Fatalf("%+v", got)
		}
	}
	if want := `{"model":"upstream-model","messages":[]}`; r.texts()[0] != want || r.sent()[0].URL.RawQuery != "beta=true" {
		t.Errorf("sent %s to %s", r.texts()[0], r.sent()[0].URL)
	}
	if got := r.turn(anthropic.Name, "go"); got.status != 200 {
		t.Errorf("%+v", got)
	}
	if report := r.session.Seal(); report.Turns != 1 || report.Calls != 1 {
		t.Errorf("%+v", report)
	}
	missing := newRigWith(t, anthropic.Name, transport(func(q *http.Request) (*http.Response, error) {
		if strings.HasSuffix(q.URL.Path, "count_tokens") {
			return fixed(404, "application/json", `{"type":"error"}`)(q)
		}
		return scripted.New(saying("ok")).RoundTrip(q)
	}), nil)
	if got := missing.do(http.MethodPost, "/v1/messages/count_tokens", body); got.status != 404 {
		t.Errorf("%+v", got)
	}
	missing.turn(anthropic.Name, "go")
	if report := missing.session.Seal(); report.Failure != nil || report.Turns != 1 {
		t.Errorf("%+v", report)
	}
}

// Base URLs come with and without the version, and some clients first check whether the server
// exists.
func TestBaseURLsMayEndInTheVersion(t *testing.T) {
	r := newRig(t, anthropic.Name, saying("ok"), nil)
	for _, path := range []string{"/v1/messages", "/messages", "/v1/v1/messages"} {
		if got := r.do(http.MethodPost, path, askBody(anthropic.Name, "go")); got.status != 200 {
			t.Errorf("%s: %+v", path, got)
		}
	}
	for _, q := range r.sent() {
		if q.URL.String() != "https://api.anthropic.com/v1/messages" {
			t.Errorf("sent to %s", q.URL)
		}
	}
	for api, shapes := range map[model.API]map[string]string{
		chat.Name:      {"/v1/chat/completions": "https://api.openai.com/v1/chat/completions", "/chat/completions": "https://api.openai.com/v1/chat/completions"},
		responses.Name: {"/v1/responses": "https://api.openai.com/v1/responses", "/responses": "https://api.openai.com/v1/responses"},
		google.Name: {
			"/v1beta/models/asked:generateContent": "https://generativelanguage.googleapis.com/v1beta/models/upstream-model:generateContent",
			"/models/asked:generateContent":        "https://generativelanguage.googleapis.com/v1beta/models/upstream-model:generateContent",
		},
	} {
		for path, want := range shapes {
			r := newRig(t, api, saying("ok"), nil)
			if got := r.do(http.MethodPost, path, askBody(api, "go")); got.status != 200 || len(r.sent()) != 1 || r.sent()[0].URL.String() != want {
				t.Errorf("%s: %+v, sent %v, want %s", path, got, r.sent(), want)
			}
		}
	}
	for _, path := range []string{"/", "/api/hello"} {
		if got := r.do(http.MethodHead, path, "", "Authorization", ""); got.status != 200 {
			t.Errorf("HEAD %s: %+v", path, got)
		}
	}
	for base, want := range map[string]string{
		"https://openrouter.ai/api/v1": "https://openrouter.ai/api/v1/chat/completions", "https://host/api/paas/v4/": "https://host/api/paas/v4/chat/completions",
		"http://10.0.0.1:8000": "http://10.0.0.1:8000/v1/chat/completions",
	} {
		r := newRig(t, chat.Name, saying("ok"), func(c *gateway.Config, _ *gateway.Options) { c.BaseURL = base })
		r.turn(chat.Name, "go")
		if len(r.sent()) != 1 || r.sent()[0].URL.String() != want {
			t.Errorf("%s: %v, want %s", base, r.sent(), want)
		}
	}
}

// Clients put their key into different places. Only the model's own key leaves.
func TestOnlyTheModelsOwnKeyLeaves(t *testing.T) {
	eachAPI(t, func(t *testing.T, api model.API) {
		r := newRig(t, api, saying("ok"), nil)
		token := r.session.Token()
		with := func(path string, header ...string) got {
			return r.do(http.MethodPost, path, askBody(api, "go"), append([]string{"Authorization", ""}, header...)...)
		}
		join := "?"
		if strings.Contains(paths[api], "?") {
			join = "&"
		}
		for i, got := range []got{
			with(paths[api], "X-Api-Key", token), with(paths[api], "X-Goog-Api-Key", token), with(paths[api] + join + "key=" + token), with(paths[api], "Authorization", "bearer "+token),
		} {
			if got.status != 200 {
				t.Errorf("%d: %+v", i, got)
			}
		}
		for _, q := range r.sent() {
			var sent strings.Builder
			_ = q.Header.Write(&sent)
			if all := sent.String() + q.URL.String(); strings.Contains(all, token) || strings.Count(all, secretKey) != 1 {
				t.Errorf("sent %s", all)
			}
		}
		sent := len(r.sent())
		for _, wrong := range []got{with(paths[api]), with(paths[api], "X-Api-Key", token+"x"), with(paths[api], "Authorization", "Bearer "+secretKey)} {
			if wrong.status != http.StatusUnauthorized || strings.Contains(wrong.body, secretKey) {
				t.Errorf("%+v", wrong)
			}
		}
		if len(r.sent()) != sent {
			t.Error("a request without the token was sent")
		}
	})
}

// codex dies of the first 429, others ask again until they are killed, claude-code gives up when it
// is to wait for more than a minute.
func TestRateLimitsAreWaitedOut(t *testing.T) {
	eachAPI(t, func(t *testing.T, api model.API) {
		for _, status := range []int{429, 529} {
			refusals := 2
			upstream := scripted.New(saying("ok"))
			r := newRigWith(t, api, transport(func(q *http.Request) (*http.Response, error) {
				if refusals--; refusals >= 0 {
					return fixed(status, "application/json", `{}`, "Retry-After-Ms", "40")(q)
				}
				return upstream.RoundTrip(q)
			}), nil)
			if got := r.turn(api, "go"); got.status != 200 {
				t.Errorf("%+v", got)
			}
			report := r.session.Seal()
			if report.Turns != 1 || report.Failed != 0 || report.Waiting < 80*time.Millisecond || len(r.sent()) != 3 {
				t.Errorf("%+v after %d requests", report, len(r.sent()))
			}
		}
	})
}

func TestRefusalsThatLastArePassedOn(t *testing.T) {
	body := `{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}`
	for name, one := range map[string]struct {
		upstream transport
		wait     time.Duration
		kind     model.FailureKind
	}{
		"too long a time": {fixed(429, "application/json", `{"error":{"message":"slow"}}`, "Retry-After", "7200"), 0, model.FailedLimit},
		"no money left":   {fixed(429, "application/json", body, "Retry-After", "1"), 0, model.FailedProvider},
		"again and again": {fixed(429, "application/json", `{"error":{"message":"slow"}}`, "Retry-After-Ms", "20"), 200 * time.Millisecond, model.FailedLimit},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRigWith(t, chat.Name, one.upstream, func(_ *gateway.Config, o *gateway.Options) { o.MaxWait = one.wait })
			got := r.turn(chat.Name, "go")
			report := r.session.Seal()
			if got.status != 429 || got.header.Get("Retry-After")+got.header.Get("Retry-After-Ms") == "" || report.Failure == nil || report.Failure.Kind != one.kind || report.Failed != 1 {
				t.Errorf("%+v, %+v", got, report.Failure)
			}
		})
	}
}

// A request that ends while it waits for a limit has failed because of it, whatever ended the
// request, and whether or not it was refused itself.
func TestRequestsThatStillWaitHaveMetTheLimit(t *testing.T) {
	for name, end := range map[string]func(r *rig, giveUp func()){
		"the session ends":   func(r *rig, _ func()) { r.session.Seal() },
		"the agent gives up": func(_ *rig, giveUp func()) { giveUp() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRigWith(t, chat.Name, fixed(429, "application/json", `{"error":{"message":"slow down"}}`, "Retry-After", "60"), nil)
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			done := make(chan struct{}, 2)
			for n := range 2 { // the second waits for the limit that the first one met
				go func() {
					defer func() { done <- struct{}{} }()
					q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+paths[chat.Name], strings.NewReader(askBody(chat.Name, "go")))
					if err != nil {
						t.Error(err)
						return
					}
					q.Header.Set("Authorization", "Bearer "+r.session.Token())
					if answer, err := http.DefaultClient.Do(q); err == nil {
						answer.Body.Close()
					}
				}()
				for !r.session.Limited() || r.session.Turns() <= n {
					time.Sleep(time.Millisecond)
				}
			}
			end(r, giveUp)
			<-done
			<-done
			report := r.session.Seal()
			var said []string
			for _, turn := range r.kept() {
				if f := turn.Failure; f != nil && f.Kind == model.FailedLimit {
					said = append(said, fmt.Sprint(f.Status, " ", f.Message))
				}
			}
			slices.Sort(said)
			if report.Failure == nil || report.Failure.Kind != model.FailedLimit || len(said) != 2 ||
				!strings.HasPrefix(said[0], "0 other requests were refused (the request has waited for ") || !strings.HasPrefix(said[1], "429 slow down (the request has waited for ") {
				t.Errorf("%+v, kept %q", report.Failure, said)
			}
		})
	}
}

// A request that has waited for the maximum time is refused with the cause of the wait: a rate
// limit that others have met, or max_concurrent.
func TestWaitingForRateLimitsHasAnEnd(t *testing.T) {
	body := strings.NewReader
	for name, one := range map[string]struct {
		upstream func(free chan struct{}) transport
		bound    int
		ready    func(r *rig) bool
		status   int
		says     string
	}{
		"a limit": {
			func(chan struct{}) transport {
				return fixed(429, "application/json", `{"error":{"message":"slow down"}}`, "Retry-After", "60")
			}, 0,
			func(r *rig) bool { return r.session.Limited() }, 429, "other requests were refused (the request has waited for ",
		},
		"max_concurrent": {
			func(free chan struct{}) transport {
				return func(q *http.Request) (*http.Response, error) {
					<-free
					return fixed(500, "application/json", `{}`)(q)
				}
			}, 1,
			func(r *rig) bool { return len(r.sent()) == 1 }, 503, "there was no free place within 100ms (max_concurrent of the model m)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			free := make(chan struct{})
			r := newRigWith(t, chat.Name, one.upstream(free), func(c *gateway.Config, o *gateway.Options) { c.MaxConcurrent, o.MaxWait = one.bound, time.Hour })
			second := gateway.NewSession(gateway.Options{Model: r.model, MaxWait: 100 * time.Millisecond})
			go func() {
				q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+paths[chat.Name], body(askBody(chat.Name, "go")))
				if err != nil {
					t.Error(err)
					return
				}
				q.Header.Set("Authorization", "Bearer "+r.session.Token())
				if answer, err := http.DefaultClient.Do(q); err == nil { // it ends with the session
					answer.Body.Close()
				}
			}()
			for !one.ready(r) {
				time.Sleep(time.Millisecond)
			}
			client := &http.Client{Transport: second.Transport()}
			answer, err := client.Post("http://model.invalid"+paths[chat.Name], "application/json", body(askBody(chat.Name, "go")))
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != one.status || !strings.Contains(string(text), one.says) {
				t.Errorf("%d %s (%v), want %d with %q", answer.StatusCode, text, err, one.status, one.says)
			}
			if f := second.Close().Failure; f == nil || f.Kind != model.FailedLimit || !strings.HasPrefix(f.Message, one.says) {
				t.Errorf("%+v", f)
			}
			close(free)
			r.session.Close()
		})
	}
}

// One request tries again after a limit, not all at once.
func TestAllTrialsShareOneQueueForRateLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most, calls atomic.Int32
		var limited atomic.Bool
		limited.Store(true)
		m, err := gateway.New(gateway.Config{API: chat.Name, Upstream: "m", Transport: transport(func(q *http.Request) (*http.Response, error) {
			calls.Add(1)
			if n := now.Add(1); limited.Load() && n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second)
			now.Add(-1)
			if limited.Load() {
				return fixed(429, "application/json", `{}`)(q)
			}
			return scripted.New(saying("ok")).RoundTrip(q)
		})})
		if err != nil {
			t.Fatal(err)
		}
		ask := gateway.Asker(m)
		done := make(chan error, 50)
		go func() { done <- ask() }()
		time.Sleep(1500 * time.Millisecond) // the limit is known now
		most.Store(0)
		before := calls.Load()
		for range 49 {
			go func() { done <- ask() }()
		}
		time.Sleep(2 * time.Minute)
		if n := most.Load(); n > 1 {
			t.Errorf("%d requests tried at the same time", n)
		}
		if n := calls.Load() - before; n > 20 {
			t.Errorf("%d requests in two minutes of a limit", n)
		}
		limited.Store(false)
		for range 50 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// Answers to requests from before a limit do not show whether it has ended, so no other request is
// sent after them while one request tests the limit.
func TestOnlyOneTriesBesideOlderRequests(t *testing.T) {
	for name, older := range map[string]func(q *http.Request) (*http.Response, error){
		"fails":       func(*http.Request) (*http.Response, error) { return nil, errors.New("connection reset") },
		"is answered": scripted.New(saying("ok")).RoundTrip,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls, trying, most atomic.Int32
				limited := fixed(429, "application/json", `{}`, "Retry-After", "2")
				m, err := gateway.New(gateway.Config{API: chat.Name, Upstream: "m", Transport: transport(func(q *http.Request) (*http.Response, error) {
					switch n := calls.Add(1); n {
					case 1: // ends while the third one is with the provider
						time.Sleep(10 * time.Second)
						return older(q)
					case 2:
						return limited(q)
					default:
						if now := trying.Add(1); now > most.Load() {
							most.Store(now)
						}
						time.Sleep(20 * time.Second)
						trying.Add(-1)
						if n == 3 {
							return limited(q)
						}
						return scripted.New(saying("ok")).RoundTrip(q)
					}
				})})
				if err != nil {
					t.Fatal(err)
				}
				ask := gateway.Asker(m)
				first, others := make(chan error, 1), make(chan error, 2)
				go func() { first <- ask() }()
				time.Sleep(time.Second)
				for range 2 {
					go func() { others <- ask() }()
					synctest.Wait() // until the limit is known
				}
				<-first // whatever became of it
				time.Sleep(5 * time.Second)
				if n := calls.Load(); n != 3 {
					t.Errorf("%d requests beside the one that tries", n-3)
				}
				for range 2 {
					if err := <-others; err != nil {
						t.Error(err)
					}
				}
				if n := most.Load(); n > 1 {
					t.Errorf("%d requests tried at the same time", n)
				}
			})
		})
	}
}

// Requests that are refused together are one limit: the delay does not double for each.
func TestRequestsRefusedTogetherAreOneLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trials = 40
		var calls atomic.Int32
		m, err := gateway.New(gateway.Config{API: chat.Name, Upstream: "m", Transport: transport(func(q *http.Request) (*http.Response, error) {
			n := calls.Add(1)
			time.Sleep(time.Second)
			if n <= trials {
				return fixed(429, "application/json", `{}`)(q)
			}
			return scripted.New(saying("ok")).RoundTrip(q)
		})})
		if err != nil {
			t.Fatal(err)
		}
		ask, began, done := gateway.Asker(m), time.Now(), make(chan error, trials)
		for range trials {
			go func() { done <- ask() }()
		}
		for range trials {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("all have their answers after %s", took)
		}
	})
}

// claude-code asks without a stream after a broken one, and does not say that it is a retry.
func TestAnswersWithoutAStreamArePassedOn(t *testing.T) {
	eachAPI(t, func(t *testing.T, api model.API) {
		r := newRig(t, api, saying("All of it at once."), nil)
		path, body := strings.NewReplacer(":streamGenerateContent?alt=sse", ":generateContent").Replace(paths[api]), strings.Replace(askBody(api, "go"), `"stream":true,`, "", 1)
		got := r.do(http.MethodPost, path, body, "X-Stainless-Retry-Count", "0")
		if got.status != 200 || !strings.HasPrefix(got.header.Get("Content-Type"), "application/json") || !strings.Contains(got.body, "All of it at once.") {
			t.Errorf("%+v", got)
		}
		if len(r.kept()) != 1 || !r.kept()[0].Whole || r.kept()[0].Answer.Message.Parts[0].Text != "All of it at once." || *r.kept()[0].Answer.Usage.Output != 5 || r.kept()[0].Retry {
			t.Errorf("%+v", r.kept())
		}
	})
}

// Anthropic's input does not include cached tokens, that of the others does.
func TestUsageIsReadInEachProtocol(t *testing.T) {
	for api, one := range map[model.API]struct{ body, want string }{
		anthropic.Name: {
			`{"content":[{"type":"text","text":"x"}],"usage":{"input_tokens":10,"cache_read_input_tokens":100,"cache_creation_input_tokens":1000,"cache_creation":{"ephemeral_5m_input_tokens":400,"ephemeral_1h_input_tokens":600},"output_tokens":7}}`,
			"in 1110 cached 100 written 1000 hour 600 out 7 thought ?",
		},
		chat.Name: {
			`{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":110,"prompt_tokens_details":{"cached_tokens":100},"completion_tokens":7,"completion_tokens_details":{"reasoning_tokens":3}}}`,
			"in 110 cached 100 written ? hour ? out 7 thought 3",
		},
		responses.Name: {
			`{"output":[],"usage":{"input_tokens":110,"input_tokens_details":{"cached_tokens":100},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":3}}}`,
			"in 110 cached 100 written ? hour ? out 7 thought 3",
		},
		google.Name: {
			`{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":110,"cachedContentTokenCount":100,"candidatesTokenCount":4,"thoughtsTokenCount":3}}`,
			"in 110 cached 100 written ? hour ? out 7 thought 3",
		},
	} {
		r := newRigWith(t, api, fixed(200, "application/json", one.body), nil)
		r.turn(api, "go")
		u := r.kept()[0].Answer.Usage
		text := func(n *int64) string {
			if n == nil {
				return "?"
			}
			return fmt.Sprint(*n)
		}
		got := fmt.Sprintf("in %s cached %s written %s hour %s out %s thought %s", text(u.Input), text(u.Cached), text(u.CacheWrite), text(u.CacheWriteHour), text(u.Output), text(u.Reasoning))
		if got != one.want {
			t.Errorf("%s: %s, want %s", api, got, one.want)
		}
	}
}

// Counts in the events of these streams are of the whole answer so far, and must not be added up.
func TestCountsOfStreamsAreOfTheWhole(t *testing.T) {
	event := func(data string) string {
		return "data: " + data + "\n\n"
	}
	for api, body := range map[model.API]string{
		anthropic.Name: event(`{"type":"message_start","message":{"usage":{"input_tokens":10,"cache_read_input_tokens":100,"output_tokens":1}}}`) +
			event(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"x"}}`) +
			event(`{"type":"message_delta","delta":{},"usage":{"output_tokens":5}}`) +
			event(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":10,"cache_read_input_tokens":100,"output_tokens":9}}`) + event(`{"type":"message_stop"}`),
		google.Name: event(`{"candidates":[{"content":{"parts":[{"text":"x"}]}}],"usageMetadata":{"promptTokenCount":110,"cachedContentTokenCount":100,"candidatesTokenCount":2}}`) +
			event(`{"candidates":[{"content":{"parts":[{"text":"y"}]}}],"usageMetadata":{"promptTokenCount":110,"cachedContentTokenCount":100,"candidatesTokenCount":5,"thoughtsTokenCount":1}}`) +
			event(`{"candidates":[{"content":{"parts":[{"text":"z"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":110,"cachedContentTokenCount":100,"candidatesTokenCount":7,"thoughtsTokenCount":2}}`),
	} {
		r := newRigWith(t, api, fixed(200, "text/event-stream", body), nil)
		if got := r.turn(api, "go"); got.err != nil {
			t.Fatalf("%s: %+v", api, got)
		}
		if u := r.session.Seal().Usage; *u.Input != 110 || *u.Cached != 100 || *u.Output != 9 {
			t.Errorf("%s: input %d, cached %d, output %d; want 110, 100, 9", api, *u.Input, *u.Cached, *u.Output)
		}
	}
}

// Tokens cached for an hour cost more than tokens cached for five minutes.
func TestCacheWritesHaveTwoPrices(t *testing.T) {
	cost := func(fiveMinutes, hour int) float64 {
		body := fmt.Sprintf(`{"model":"claude-sonnet-4-5","content":[{"type":"text","text":"x"}],"usage":{"input_tokens":0,"cache_creation_input_tokens":%d,`+
			`"cache_creation":{"ephemeral_5m_input_tokens":%d,"ephemeral_1h_input_tokens":%d},"output_tokens":0}}`, fiveMinutes+hour, fiveMinutes, hour)
		r := newRigWith(t, anthropic.Name, fixed(200, "application/json", body), func(c *gateway.Config, _ *gateway.Options) {
			c.Cost = func(answered string, at time.Time, u model.Usage) *float64 {
				return prices.Cost("https://api.anthropic.com", answered, at, u)
			}
		})
		r.turn(anthropic.Name, "go")
		report := r.session.Seal()
		if report.Cost == nil {
			t.Fatalf("no cost: %+v", report)
		}
		return *report.Cost
	}
	if short, long := cost(100_000, 0), cost(0, 100_000); math.Abs(short-0.375) > 1e-9 || math.Abs(long-0.6) > 1e-9 {
		t.Errorf("100,000 tokens cost $%g and $%g, want 0.375 and 0.6", short, long)
	}
}

// Streams of the chat protocol state usage only if they are asked to. Clients that did not ask
// would not expect it.
func TestChatStreamsAreAskedForTheirUsage(t *testing.T) {
	for _, asked := range []bool{false, true} {
		r := newRig(t, chat.Name, saying("ok"), nil)
		body := askBody(chat.Name, "go")
		if asked {
			body = strings.Replace(body, `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1)
		}
		got := r.do(http.MethodPost, paths[chat.Name], body)
		if strings.Contains(got.body, `"usage"`) != asked || !strings.HasSuffix(got.body, "data: [DONE]\n\n") {
			t.Errorf("asked %t: %s", asked, got.body)
		}
		if !strings.Contains(r.texts()[0], `"include_usage":true`) || *r.kept()[0].Answer.Usage.Input != 10 {
			t.Errorf("asked %t: sent %s, counted %+v", asked, r.texts()[0], r.kept()[0].Answer.Usage)
		}
	}
}

// The headers are those of claude-code, codex and opencode.
func TestSubAgentsAreNamed(t *testing.T) {
	for name, one := range map[string]struct {
		api          model.API
		main, helper []string
	}{
		"claude-code": {anthropic.Name, []string{"X-Claude-Code-Session-Id", "main"}, []string{"X-Claude-Code-Session-Id", "main", "X-Claude-Code-Agent-Id", "helper", "X-Claude-Code-Parent-Agent-Id", "main"}},
		"codex":       {responses.Name, []string{"Session-Id", "s", "Thread-Id", "main"}, []string{"Session-Id", "s", "Thread-Id", "helper"}},
		"opencode":    {chat.Name, []string{"X-Session-Id", "main"}, []string{"X-Session-Id", "helper"}},
		"others":      {google.Name, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, one.api, saying("ok"), nil)
			r.turn(one.api, "a", one.main...)
			r.turn(one.api, "b", one.helper...)
			wantMain, wantHelper := "main", "helper"
			if one.main == nil {
				wantMain, wantHelper = "", ""
			}
			if kept := r.kept(); kept[0].Agent != wantMain || kept[1].Agent != wantHelper {
				t.Errorf("agents %q, %q", kept[0].Agent, kept[1].Agent)
			}
		})
	}
}

// Tools that the provider runs reach the web although the network is none.
func TestProviderToolsAreRemoved(t *testing.T) {
	for api, one := range map[model.API]struct{ tools, kept, stripped string }{
		anthropic.Name: {
			`"tools":[{"name":"bash","input_schema":{}},{"type":"web_search_20250305","name":"web_search"},{"type":"bash_20250124","name":"bash2"},{"type":"code_execution_20250522","name":"ce"}],"mcp_servers":[{"type":"url","url":"https://x"}]`,
			`"tools":[{"name":"bash","input_schema":{}},{"type":"bash_20250124","name":"bash2"}]`, "web_search_20250305 code_execution_20250522 url",
		},
		responses.Name: {
			`"tools":[{"type":"web_search"},{"type":"function","name":"f"},{"type":"mcp","server_url":"https://x"},{"type":"local_shell"}]`,
			`"tools":[{"type":"function","name":"f"},{"type":"local_shell"}]`, "web_search mcp",
		},
		chat.Name: {`"tools":[{"type":"function","function":{"name":"f"}}],"web_search_options":{}`, `"tools":[{"type":"function","function":{"name":"f"}}]`, "web_search_options"},
		google.Name: {
			`"tools":[{"googleSearch":{}},{"functionDeclarations":[{"name":"f"}],"urlContext":{}}]`,
			`"tools":[{"functionDeclarations":[{"name":"f"}]}]`, "googleSearch urlContext",
		},
	} {
		t.Run(string(api), func(t *testing.T) {
			for _, restricted := range []bool{true, false} {
				r := newRig(t, api, saying("ok"), func(_ *gateway.Config, o *gateway.Options) { o.Restricted = restricted })
				body := strings.Replace(askBody(api, "go"), "{", "{"+one.tools+",", 1)
				if got := r.do(http.MethodPost, paths[api], body); got.status != 200 {
					t.Fatalf("%+v", got)
				}
				want, stripped := one.kept, one.stripped
				if !restricted {
					want, stripped = one.tools, ""
				}
				if got := strings.Join(r.kept()[0].Stripped, " "); got != stripped || !strings.Contains(r.texts()[0], want) {
					t.Errorf("restricted %t: stripped %q, sent %s", restricted, got, r.texts()[0])
				}
				if restricted && (strings.Contains(r.texts()[0], "mcp_servers") || strings.Contains(r.texts()[0], "web_search_options")) {
					t.Errorf("sent %s", r.texts()[0])
				}
			}
		})
	}
}

// claude-code's first system block names its version. It is not changed.
func TestBillingHeadersStay(t *testing.T) {
	r := newRig(t, anthropic.Name, saying("ok"), nil)
	block := `{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.330; cc_entrypoint=sdk-cli;"}`
	r.do(http.MethodPost, paths[anthropic.Name], strings.Replace(askBody(anthropic.Name, "go"), "{", `{"system":[`+block+`],`, 1))
	if !strings.Contains(r.texts()[0], block) || r.kept()[0].Conversation.Messages[0].Role != "system" {
		t.Errorf("sent %s", r.texts()[0])
	}
}

// Clients search the texts of errors, so these are passed on unchanged. A key in them is hidden.
func TestErrorsArePassedOn(t *testing.T) {
	eachAPI(t, func(t *testing.T, api model.API) {
		body := `{ "error" : {"message":"no such thing, key ` + secretKey + `","type":"odd"}, "x":1 }`
		r := newRigWith(t, api, fixed(418, "application/problem+json", body, "X-Request-Id", "abc"), nil)
		got := r.turn(api, "go")
		if got.status != 418 || got.body != strings.Replace(body, secretKey, "***", 1) || got.header.Get("X-Request-Id") != "abc" || got.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%+v", got)
		}
		report := r.session.Seal()
		if report.Failure == nil || report.Failure.Status != 418 || report.Failure.Kind != model.FailedProvider || strings.Contains(report.Failure.Message, secretKey) {
			t.Errorf("%+v", report.Failure)
		}
	})
}

// The key is hidden from the agent if a provider repeats it in an answer, a header or a count.
func TestProvidersThatRepeatTheKey(t *testing.T) {
	eachAPI(t, func(t *testing.T, api model.API) {
		first, last := streamOf(t, api)
		stream := strings.Replace(first, "Some", secretKey, 1) + last
		for name, one := range map[string]got{
			"a stream":  newRigWith(t, api, fixed(200, "text/event-stream", stream, "X-Echo", secretKey), nil).turn(api, "go"),
			"an answer": newRigWith(t, api, fixed(200, "application/json", `{"model":"`+secretKey+`"}`, "X-Echo", "is "+secretKey), nil).turn(api, "go"),
		} {
			if one.err != nil || one.status != 200 || strings.Contains(one.body, secretKey) || !strings.Contains(one.body, "***") || !strings.Contains(one.header.Get("X-Echo"), "***") {
				t.Errorf("%s: %+v", name, one)
			}
		}
	})
	r := newRigWith(t, anthropic.Name, fixed(200, "application/json", `{"input_tokens":1,"key":"`+secretKey+`"}`), nil)
	if one := r.do(http.MethodPost, "/v1/messages/count_tokens", `{"messages":[]}`); strings.Contains(one.body, secretKey) || !strings.Contains(one.body, "***") {
		t.Errorf("%+v", one)
	}
}

func TestLongConversationsAreNamed(t *testing.T) {
	r := newRigWith(t, chat.Name, fixed(400, "application/json", `{"error":{"message":"This model's maximum context length is 128000 tokens.","code":"context_length_exceeded"}}`), nil)
	r.turn(chat.Name, "go")
	if f := r.session.Seal().Failure; f == nil || f.Kind != model.FailedOverflow {
		t.Errorf("%+v", f)
	}
}

func TestAnUnreachableProvider(t *testing.T) {
	r := newRigWith(t, chat.Name, transport(func(*http.Request) (*http.Response, error) { return nil, errors.New("dial tcp: no route") }), nil)
	got := r.turn(chat.Name, "go")
	if f := r.session.Seal().Failure; got.status != http.StatusBadGateway || f == nil || f.Kind != model.FailedUnreachable {
		t.Errorf("%+v, %+v", got, f)
	}
}

// An agent that continues despite empty answers would never end.
func TestEmptyAnswersEndTheSession(t *testing.T) {
	script := scripted.Script{Answers: []scripted.Answer{{}}, Repeat: true}
	r := newRig(t, chat.Name, script, nil)
	for range 10 {
		if got := r.turn(chat.Name, "go"); got.status != 200 {
			t.Fatalf("%+v", got)
		}
	}
	if got := r.turn(chat.Name, "go"); got.status != http.StatusBadRequest {
		t.Errorf("%+v", got)
	}
	if report := r.session.Seal(); report.Stop != model.StopEmpty || report.Turns != 10 {
		t.Errorf("%+v", report)
	}
}

// The same holds for an agent that repeats a request whose answers break off. Refused requests and
// conversations that are too long do not count, and a complete answer resets the count.
func TestAnswersThatBreakOffEndTheSession(t *testing.T) {
	eachAPI(t, func(t *testing.T, api model.API) {
		inStream := func(e scripted.Error) scripted.Answer {
			e.InStream = true
			return scripted.Answer{Text: "I begin.", Error: &e}
		}
		fine := scripted.Answer{Text: "ok"}
		broken := []scripted.Answer{
			{Empty: true}, {Text: "I begin.", Cut: true}, inStream(scripted.Error{Status: 529, Message: "plum"}), {}, {Empty: true},
		}
		neither := []scripted.Answer{
			{Error: &scripted.Error{Status: 503}}, {Error: &scripted.Error{Status: 400}}, inStream(scripted.Error{Status: 400, Code: "context_length"}),
		}
		var next scripted.Answer
		r := newRigWith(t, api, transport(func(q *http.Request) (*http.Response, error) {
			script := scripted.Script{Answers: []scripted.Answer{next}}
			if err := script.Check(); err != nil {
				t.Error(err)
			}
			return scripted.New(script).RoundTrip(q)
		}), nil)
		turns := func(answers ...scripted.Answer) {
			t.Helper()
			for i, answer := range answers {
				next = answer
				if got := r.turn(api, "go"); strings.Contains(got.body, "empty_responses") {
					t.Fatalf("answer %d: %+v", i, got)
				}
			}
		}
		turns(broken...)
		turns(broken[:4]...)
		turns(fine)
		turns(broken...)
		turns(neither...)
		turns(broken...)
		calls := len(r.sent())
		if got := r.turn(api, "go"); got.status != map[bool]int{true: 402, false: 400}[api == anthropic.Name] || !strings.Contains(got.body, "empty_responses") || len(r.sent()) != calls {
			t.Errorf("%+v, %d calls", got, len(r.sent()))
		}
		if report := r.session.Seal(); report.Stop != model.StopEmpty || report.Failure == nil || report.Failure.Kind != model.FailedCut || report.Refused != 1 {
			t.Errorf("%+v of %+v", report.Failure, report)
		}
	})
}

// Answers that break off because the agent has left are not counted.
func TestAnswersThatAgentsDoNotWaitForAreNotCounted(t *testing.T) {
	r := newRig(t, chat.Name, scripted.Script{Answers: []scripted.Answer{{Text: "I begin and go on.", Pace: 60}}}, nil)
	for range 11 {
		ctx, cancel := context.WithCancel(t.Context())
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+paths[chat.Name], strings.NewReader(askBody(chat.Name, "go")))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+r.session.Token())
		answer, err := http.DefaultClient.Do(q)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%+v, %v", answer, err)
		}
		cancel()
		answer.Body.Close()
		for r.session.Running() {
			time.Sleep(time.Millisecond)
		}
	}
	if report := r.session.Seal(); report.Stop != "" || report.Failed != 11 {
		t.Errorf("%+v", report)
	}
}

// A turn that cannot be stored must not look complete.
func TestATurnThatIsNotKeptIsAborted(t *testing.T) {
	eachAPI(t, func(t *testing.T, api model.API) {
		r := newRig(t, api, saying("ok"), func(_ *gateway.Config, o *gateway.Options) {
			o.Keep = func(model.Turn) error { return errors.New("no space left on device") }
		})
		if got := r.turn(api, "go"); got.err == nil {
			t.Errorf("%+v", got)
		}
		if f := r.session.Seal().Failure; f == nil || f.Kind != model.FailedGateway {
			t.Errorf("%+v", f)
		}
	})
}

// Requests that run when the trial ends are aborted and counted.
func TestSealAbortsWhatRuns(t *testing.T) {
	eachAPI(t, func(t *testing.T, api model.API) {
		script := saying(strings.Repeat("word ", 100))
		script.Answers[0].Pace = 0.1
		r := newRig(t, api, script, nil)
		answered := make(chan got)
		go func() { answered <- r.turn(api, "go") }()
		for len(r.session.Report().Asked) == 0 || !r.session.Running() {
			time.Sleep(time.Millisecond)
		}
		report := r.session.Seal()
		if got := <-answered; got.err == nil && got.status == 200 {
			t.Errorf("%+v", got)
		}
		if report.Turns != 0 || len(r.kept()) != 1 {
			t.Errorf("%+v, %d turns", report, len(r.kept()))
		}
	})
}
