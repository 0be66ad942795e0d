package gateway_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/model/api/anthropic"
	"github.com/org/rollout-action/internal/model/api/chat"
	"github.com/org/rollout-action/internal/model/api/google"
	"github.com/org/rollout-action/internal/model/api/responses"
	"github.com/org/rollout-action/internal/model/gateway"
	"github.com/org/rollout-action/internal/model/scripted"
)

// secretKey is the real key of the models in tests.
const secretKey = "sk-real-key-of-the-host"

// rig is a gateway before a scripted model.
type rig struct {
	t       *testing.T
	model   *gateway.Model
	session *gateway.Session
	url     string

	mu    sync.Mutex
	turns []model.Turn
	// requests are those that reached the provider.
	requests []*http.Request
	bodies   []string
}

// kept returns the turns that were kept.
func (r *rig) kept() []model.Turn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.turns)
}

// sent returns the requests that reached the provider.
func (r *rig) sent() []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// texts returns the bodies of the requests that reached the provider.
func (r *rig) texts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.bodies)
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// newRig starts a gateway before a script. change changes the options.
func newRig(t *testing.T, api model.API, script scripted.Script, change func(*gateway.Config, *gateway.Options)) *rig {
	t.Helper()
	if err := script.Check(); err != nil {
		t.Fatal(err)
	}
	return newRigWith(t, api, scripted.New(script), change)
}

func newRigWith(t *testing.T, api model.API, upstream http.RoundTripper, change func(*gateway.Config, *gateway.Options)) *rig {
	t.Helper()
	r := &rig{t: t}
	c := gateway.Config{Name: "m", API: api, Upstream: "upstream-model", Key: secretKey, Transport: transport(func(q *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return nil, err
		}
		r.mu.Lock()
		r.requests, r.bodies = append(r.requests, q), append(r.bodies, string(body))
		r.mu.Unlock()
		q.Body = io.NopCloser(bytes.NewReader(body))
		return upstream.RoundTrip(q)
	})}
	o := gateway.Options{Conversations: true, Keep: func(turn model.Turn) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.turns = append(r.turns, turn)
		return nil
	}}
	if change != nil {
		change(&c, &o)
	}
	m, err := gateway.New(c)
	if err != nil {
		t.Fatal(err)
	}
	o.Model, r.model = m, m
	r.session = gateway.NewSession(o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.session.Close() })
	go r.session.Serve(l)
	r.url = "http://" + l.Addr().String()
	return r
}

// paths are the paths of requests for turns.
var paths = map[model.API]string{
	anthropic.Name: "/v1/messages?beta=true", chat.Name: "/v1/chat/completions", responses.Name: "/v1/responses",
	google.Name: "/v1beta/models/asked:streamGenerateContent?alt=sse",
}

// ask returns the body of a request for a streamed answer to one message.
func askBody(api model.API, text string) string {
	switch api {
	case anthropic.Name:
		return fmt.Sprintf(`{"model":"asked","max_tokens":100,"stream":true,"messages":[{"role":"user","content":%q}]}`, text)
	case responses.Name:
		return fmt.Sprintf(`{"model":"asked","stream":true,"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":%q}]}]}`, text)
	case google.Name:
		return fmt.Sprintf(`{"contents":[{"role":"user","parts":[{"text":%q}]}]}`, text)
	}
	return fmt.Sprintf(`{"model":"asked","stream":true,"messages":[{"role":"user","content":%q}]}`, text)
}

// got is an answer received from the gateway.
type got struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body: the connection was aborted
}

// do sends a request with the session's token, unless header has another, or "" for none.
func (r *rig) do(method, path, body string, header ...string) got {
	r.t.Helper()
	q, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+r.session.Token())
	for pair := range slices.Chunk(header, 2) {
		if pair[1] == "" {
			q.Header.Del(pair[0])
		} else {
			q.Header.Set(pair[0], pair[1])
		}
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return got{err: err}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return got{answer.StatusCode, answer.Header, string(text), err}
}

// turn asks for a turn.
func (r *rig) turn(api model.API, text string, header ...string) got {
	r.t.Helper()
	return r.do(http.MethodPost, paths[api], askBody(api, text), header...)
}

func TestTurnsOfAllProtocols(t *testing.T) {
	for _, api := range api.Names() {
		t.Run(string(api), func(t *testing.T) {
			script := scripted.Script{Answers: []scripted.Answer{{
				Text: "I look at the files first.", Reasoning: "hm, files", Calls: []scripted.Call{{Name: "bash", Arguments: map[string]any{"command": "ls"}}},
				Usage: scripted.Usage{Input: 100, Cached: 40, Output: 30, Reasoning: 5},
			}}}
			r := newRig(t, api, script, nil)
			answer := r.turn(api, "What is there?")
			if answer.err != nil || answer.status != http.StatusOK {
				t.Fatalf("%+v", answer)
			}
			for _, want := range []string{"files", "bash"} {
				if !strings.Contains(answer.body, want) {
					t.Errorf("%q is missing: %s", want, answer.body)
				}
			}
			if len(r.kept()) != 1 {
				t.Fatalf("%d turns", len(r.kept()))
			}
			turn := r.kept()[0]
			if !turn.Whole || turn.Failure != nil {
				t.Errorf("the turn is not whole: %+v", turn.Failure)
			}
			u := turn.Answer.Usage
			if *u.Input != 100 || *u.Cached != 40 || *u.Output != 30 || *u.Reasoning != 5 {
				t.Errorf("usage: %d %d %d %d", *u.Input, *u.Cached, *u.Output, *u.Reasoning)
			}
			var kinds []string
			var said string
			for _, p := range turn.Answer.Message.Parts {
				kinds = append(kinds, string(p.Type))
				said += p.Text + string(p.Arguments)
			}
			if got := strings.Join(kinds, " "); got != "reasoning text tool_call" || said != `hm, filesI look at the files first.{"command":"ls"}` {
				t.Errorf("the answer was recorded as %s: %q", got, said)
			}
			if c := turn.Conversation; len(c.Messages) != 1 || c.Messages[0].Role != "user" || c.Messages[0].Parts[0].Text != "What is there?" {
				t.Errorf("conversation: %+v", c)
			}
			if turn.Answer.Model != "upstream-model" {
				t.Errorf("the model calls itself %q", turn.Answer.Model)
			}
			report := r.session.Seal()
			if report.Turns != 1 || report.Calls != 1 || *report.Usage.Input != 100 {
				t.Errorf("report: %+v", report)
			}
			if late := r.turn(api, "late"); late.status != http.StatusConflict {
				t.Errorf("after the end: %+v", late)
			}
		})
	}
}

// TestEventsComeAsTheyAre checks that events are passed on one by one, and that the last one waits
// until the turn is kept.
func TestEventsComeAsTheyAre(t *testing.T) {
	for _, api := range api.Names() {
		t.Run(string(api), func(t *testing.T) {
			keeping, kept := make(chan struct{}), make(chan struct{})
			script := scripted.Script{Answers: []scripted.Answer{{Text: "One, two, three, four, five, six, seven.", Pace: 0.01}}}
			r := newRig(t, api, script, func(_ *gateway.Config, o *gateway.Options) {
				o.Keep = func(model.Turn) error {
					close(keeping)
					<-kept
					return nil
				}
			})
			q, err := http.NewRequest(http.MethodPost, r.url+paths[api], strings.NewReader(askBody(api, "go")))
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Authorization", "Bearer "+r.session.Token())
			answer, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			in := bufio.NewReader(answer.Body)
			var before strings.Builder
			for !strings.Contains(before.String(), "seven") {
				line, err := in.ReadString('\n')
				if err != nil {
					t.Fatalf("%v after %s", err, &before)
				}
				before.WriteString(line)
			}
			<-keeping
			rest := make(chan string, 1)
			go func() {
				text, _ := io.ReadAll(in)
				rest <- string(text)
			}()
			select {
			case text := <-rest:
				t.Fatalf("the end came before the turn was kept: %s", text)
			case <-time.After(50 * time.Millisecond):
			}
			close(kept)
			ends := map[model.API]string{anthropic.Name: "message_stop", chat.Name: "[DONE]", responses.Name: "response.completed", google.Name: "STOP"}
			if text := <-rest; !strings.Contains(text, ends[api]) || strings.Contains(before.String(), ends[api]) {
				t.Errorf("the end is %q", text)
			}
		})
	}
}

// The input of a response may be one text, which is one message of the user.
func TestInputThatIsAText(t *testing.T) {
	c := responses.API{}.Conversation("/v1/responses", []byte(`{"input":"Hi"}`))
	if len(c.Messages) != 1 || c.Messages[0].Role != "user" || c.Messages[0].Parts[0].Text != "Hi" {
		t.Errorf("%+v", c.Messages)
	}
}
