package replay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/model/api/anthropic"
	"github.com/org/rollout-action/internal/model/api/chat"
	"github.com/org/rollout-action/internal/model/api/google"
	"github.com/org/rollout-action/internal/model/api/responses"
	"github.com/org/rollout-action/internal/model/gateway"
	"github.com/org/rollout-action/internal/model/replay"
	"github.com/org/rollout-action/internal/model/scripted"
)

const secret = "sk-that-nobody-may-see"

func hide(text []byte) []byte { return bytes.ReplaceAll(text, []byte(secret), []byte("***")) }

// client is a trial's connection to a model.
type client struct {
	t       *testing.T
	session *gateway.Session
	url     string
	turns   []model.Turn

	transport http.RoundTripper
}

// open starts a session of a trial.
func open(t *testing.T, api model.API, name string, upstream http.RoundTripper) *client {
	t.Helper()
	return openWith(t, gateway.Config{Name: "m", API: api, Upstream: "big", Key: secret, Transport: upstream}, name)
}

func openWith(t *testing.T, config gateway.Config, name string) *client {
	t.Helper()
	m, err := gateway.New(config)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, transport: config.Transport}
	c.session = gateway.NewSession(gateway.Options{Model: m, Name: name, Conversations: true, Keep: func(turn model.Turn) error {
		c.turns = append(c.turns, turn)
		return nil
	}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go c.session.Serve(l)
	t.Cleanup(func() { c.session.Close(); l.Close() })
	c.url = "http://" + l.Addr().String()
	return c
}

// post asks for a turn and returns the status and the body.
func (c *client) post(path, body string) (int, string) {
	c.t.Helper()
	q, err := http.NewRequest(http.MethodPost, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+c.session.Token())
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

var paths = map[model.API]string{
	anthropic.Name: "/v1/messages", chat.Name: "/v1/chat/completions", responses.Name: "/v1/responses",
	google.Name: "/v1beta/models/any:streamGenerateContent?alt=sse",
}

// second is a request with a call of a tool in it, in each protocol. id is the call's identifier,
// result its result.
func second(api model.API, id, result string) string {
	switch api {
	case anthropic.Name:
		return fmt.Sprintf(`{"model":"x","stream":true,"max_tokens":9,"tools":[{"name":"bash","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":%q,"name":"bash","input":{"command":"ls"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":%q}]}]}`, id, id, result)
	case responses.Name:
		return fmt.Sprintf(`{"model":"x","stream":true,"tools":[{"type":"function","name":"bash"}],"input":[{"role":"user","content":"go"},{"type":"function_call","call_id":%q,"name":"bash","arguments":"{\"command\":\"ls\"}"},{"type":"function_call_output","call_id":%q,"output":%q}]}`, id, id, result)
	case google.Name:
		return fmt.Sprintf(`{"tools":[{"functionDeclarations":[{"name":"bash"}]}],"contents":[{"role":"user","parts":[{"text":"go"}]},{"role":"model","parts":[{"functionCall":{"name":"bash","args":{"command":"ls"}}}]},{"role":"user","parts":[{"functionResponse":{"name":"bash","response":{"output":%q}}}]}]}`, result)
	}
	return fmt.Sprintf(`{"model":"x","stream":true,"tools":[{"type":"function","function":{"name":"bash"}}],"messages":[{"role":"user","content":"go"},{"role":"assistant","tool_calls":[{"id":%q,"type":"function","function":{"name":"bash","arguments":"{\"command\": \"ls\"}"}}]},{"role":"tool","tool_call_id":%q,"content":%q}]}`, id, id, result)
}

func upstream(t *testing.T, answers ...scripted.Answer) http.RoundTripper {
	t.Helper()
	s := scripted.Script{Answers: answers, Repeat: true}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	return scripted.New(s)
}

func recorder(t *testing.T, dir string, to http.RoundTripper) *replay.Recorder {
	t.Helper()
	r, err := replay.NewRecorder(dir, to, hide)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func opened(t *testing.T, dir string) *replay.Replay {
	t.Helper()
	r, err := replay.Open(dir, hide)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAllProtocolsReplayTheirStreams(t *testing.T) {
	for _, api := range api.Names() {
		t.Run(string(api), func(t *testing.T) {
			dir := t.TempDir()
			one := open(t, api, "a/d/t__1", recorder(t, dir, upstream(t, scripted.Answer{}, scripted.Answer{
				Text: "There is a file.", Calls: []scripted.Call{{Name: "bash", Arguments: map[string]any{"command": "cat it"}}}, Usage: scripted.Usage{Input: 120, Cached: 20, Output: 30},
			})))
			status, was := one.post(paths[api], second(api, "call_Abcd1234efgh", "2026-11-23 08:32:29 file of 12.5ms, "+secret))
			if status != http.StatusOK || !strings.Contains(was, "There is") {
				t.Fatalf("%d %s", status, was)
			}
			one.session.Close()
			again := opened(t, dir)
			two := open(t, api, "other/d/t__3", again)
			status, is := two.post(paths[api], second(api, "call_Zyxw9876vuts", "2027-01-02 23:01:00 file of 0.1ms, "+secret))
			if status != http.StatusOK || is != was {
				t.Errorf("%d %q, want %q", status, is, was)
			}
			u := two.turns[0].Answer.Usage
			if *u.Input != 120 || *u.Cached != 20 || *u.Output != 30 || !two.turns[0].Whole || two.turns[0].Recorded.IsZero() {
				t.Errorf("usage %+v of %+v", u, two.turns[0])
			}
			three := open(t, api, "other/d/t__4", again)
			if status, body := three.post(paths[api], second(api, "call_Zyxw9876vuts", "another file")); status/100 != 4 || !strings.Contains(body, "replay_missed") {
				t.Errorf("%d %s", status, body)
			}
			if status, _ := three.post(paths[api], second(api, "call_Zyxw9876vuts", "2027-01-02 23:01:00 file of 0.1ms, "+secret)); status/100 != 4 {
				t.Errorf("after a miss: %d", status)
			}
			report := three.session.Seal()
			if report.Stop != model.StopMissed || !strings.Contains(report.Missed, "nearest is a/d/t__1/") || !strings.Contains(report.Missed, "\n- <time> file of <duration>, ***\n+ another file") {
				t.Errorf("%+v: %s", report, report.Missed)
			}
		})
	}
}

// streams are answers in which a secret comes in pieces, in each protocol. %s are the pieces.
var streams = map[model.API]string{
	anthropic.Name: `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","model":"big","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"é it is %s"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,
data: "delta":{"type":"text_delta","text":"%s, really"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"bash","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"command\":\"%s"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"%s"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"%s\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":7}}

event: message_stop
data: {"type":"message_stop"}

`,
	chat.Name: `data: {"id":"c","model":"big","choices":[{"index":0,"delta":{"role":"assistant","content":"é it is %s"}}]}

data: {"id":"c","model":"big","choices":[{"index":0,"delta":{"content":"%s"}}]}

data: {"id":"c","model":"big","choices":[{"index":0,"delta":{"content":"%s, really"}}]}

data: {"id":"c","model":"big","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"%s"}},{"index":1,"id":"call_2","function":{"name":"bash","arguments":"{}"}}]}}]}

data: {"id":"c","model":"big","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"%s"}}]}}]}

data: {"id":"c","model":"big","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"%s\"}"}}]}}]}

data: {"id":"c","model":"big","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: [DONE]

`,
	responses.Name: `data: {"type":"response.created","response":{"id":"r","model":"big"}}

data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"item_id":"m","delta":"é it is %s"}

data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"item_id":"m","delta":"%s"}

data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"item_id":"m","delta":"%s, really"}

data: {"type":"response.function_call_arguments.delta","output_index":1,"item_id":"f","delta":"{\"command\":\"%s"}

data: {"type":"response.function_call_arguments.delta","output_index":1,"item_id":"f","delta":"%s"}

data: {"type":"response.function_call_arguments.delta","output_index":1,"item_id":"f","delta":"%s\"}"}

data: {"type":"response.completed","response":{"id":"r","model":"big","status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"done"}]}]}}

`,
	google.Name: `data: {"modelVersion":"big","candidates":[{"content":{"role":"model","parts":[{"thought":true,"text":"hm"},{"text":"é it is %s"}]}}]}

data: {"modelVersion":"big","candidates":[{"content":{"role":"model","parts":[{"text":"%s"}]}}]}

data: {"modelVersion":"big","candidates":[{"content":{"role":"model","parts":[{"text":"%s, really"}]}}]}

data: {"modelVersion":"big","candidates":[{"content":{"role":"model","parts":[{"text":" and %s"},{"text":"%s"},{"text":"%s!"}]},"finishReason":"STOP"}]}

`,
}

// A secret that a provider spreads over several events, or an agent over several parts, is not in
// the files; the stream is a whole answer.
func TestSecretsInPieces(t *testing.T) {
	pieces := []any{secret[:4], secret[4:9], secret[9:], secret[:4], secret[4:9], secret[9:]}
	for _, api := range api.Names() {
		for name, lines := range map[string]string{"": "\n", " with CR LF": "\r\n"} {
			t.Run(string(api)+name, func(t *testing.T) {
				dir := t.TempDir()
				body := strings.ReplaceAll(fmt.Sprintf(streams[api], pieces...), "\n", lines)
				to := transport(func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
				})
				// The agent's own text has the secret in two parts, which are joined for comparing.
				asked := second(api, "call_Abcd1234efgh", "file")
				for from, by := range map[string]string{
					`"content":"go"`: `"content":[{"type":"text","text":"` + secret[:7] + `"},{"type":"text","text":"` + secret[7:] + `"}]`,
					`{"text":"go"}`:  `{"text":"` + secret[:7] + `"},{"text":"` + secret[7:] + `"}`,
				} {
					asked = strings.Replace(asked, from, by, 1)
				}
				one := openWith(t, gateway.Config{Name: "m", API: api, Upstream: "big", Key: "another", Transport: recorder(t, dir, to)}, "a/d/t__1")
				if status, text := one.post(paths[api], asked); status != http.StatusOK || !one.turns[0].Whole {
					t.Fatalf("%d %s", status, text)
				}
				one.session.Close()
				two := openWith(t, gateway.Config{Name: "m", API: api, Upstream: "big", Key: "another", Transport: opened(t, dir)}, "a/d/t__1")
				status, text := two.post(paths[api], asked)
				if status != http.StatusOK || !two.turns[0].Whole {
					t.Fatalf("%d %s", status, text)
				}
				was, is := shownAnswer(one.turns[0]), shownAnswer(two.turns[0])
				if want := string(hide([]byte(was))); is != want || api != responses.Name && !strings.Contains(was, secret) {
					t.Errorf("got %s, want %s", is, want)
				}
				if n := strings.Count(text, "***"); n != 2 {
					t.Errorf("%d secrets are hidden in %s", n, text)
				}
				files, err := filepath.Glob(filepath.Join(dir, "a/d/t__1/*.json"))
				if err != nil || len(files) != 1 {
					t.Fatalf("%q, %v", files, err)
				}
				kept, err := os.ReadFile(files[0])
				if err != nil || strings.Contains(string(kept), secret) {
					t.Errorf("%v: %s", err, kept)
				}
				for _, piece := range pieces[1:3] {
					if strings.Contains(string(kept), piece.(string)) {
						t.Errorf("%q is in %s", piece, kept)
					}
				}
			})
		}
	}
}

// shownAnswer returns the texts and arguments of an answer.
func shownAnswer(turn model.Turn) string {
	var b strings.Builder
	for _, p := range turn.Answer.Message.Parts {
		fmt.Fprintf(&b, "%s %s %s %s\n", p.Type, p.Name, p.Text, p.Arguments)
	}
	return b.String()
}

// Ids of tokens are recorded and replayed, but not those of an exchange with a secret, which they
// would reveal.
func TestTokensOfSecretsAreNotRecorded(t *testing.T) {
	for name, one := range map[string]struct {
		asked, answer string
		stream        bool
		recorded      bool
	}{
		"no secret":                      {"go", "done", false, true},
		"no secret, streamed":            {"go", "done", true, true},
		"a secret in the request":        {"go " + secret, "done", false, false},
		"a secret in a streamed request": {"go " + secret, "done", true, false},
		"a secret in the answer":         {"go", "done " + secret, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			body := fmt.Sprintf(`{"model":"x","stream":%t,"messages":[{"role":"user","content":%q}]}`, one.stream, one.asked)
			for _, upstream := range []func() http.RoundTripper{
				func() http.RoundTripper { return recorder(t, dir, upstream(t, scripted.Answer{Text: one.answer})) },
				func() http.RoundTripper { return opened(t, dir) },
			} {
				c := openWith(t, gateway.Config{Name: "m", API: chat.Name, Upstream: "big", Key: "another", Transport: upstream(), Tokens: true}, "a/d/t__1")
				if status, text := c.post(paths[chat.Name], body); status != http.StatusOK || strings.Contains(text, "token_ids") || !strings.Contains(text, "done") {
					t.Errorf("%d %s", status, text)
				}
				c.session.Close()
				_, recording := c.transport.(*replay.Recorder)
				if has := c.turns[0].Answer.Tokens != nil; has != (recording || one.recorded) {
					t.Errorf("recording: %t, has tokens: %t", recording, has)
				}
			}
			files, err := filepath.Glob(filepath.Join(dir, "a/d/t__1/*.json"))
			if err != nil || len(files) != 1 {
				t.Fatalf("%q, %v", files, err)
			}
			text, err := os.ReadFile(files[0])
			if has := strings.Contains(string(text), "token_ids"); err != nil || has != one.recorded {
				t.Errorf("has ids: %t, %v: %s", has, err, text)
			}
		})
	}
}

func chatBody(messages ...string) string {
	var b strings.Builder
	b.WriteString(`{"model":"x","messages":[`)
	for i, m := range messages {
		role := []string{"user", "assistant"}[i%2]
		fmt.Fprintf(&b, `%s{"role":%q,"content":%q}`, strings.Repeat(",", min(i, 1)), role, m)
	}
	return b.String() + "]}"
}

// The same request several times gets the answers in their order, and then the last one again. Each
// attempt has separate answers.
func TestRepeatedRequests(t *testing.T) {
	dir := t.TempDir()
	for attempt, answers := range [][]string{{"1a", "1b"}, {"2a", "2b", "2c"}} {
		n := 0
		c := open(t, chat.Name, fmt.Sprintf("a/d/t__%d", attempt+1), recorder(t, dir, transport(func(q *http.Request) (*http.Response, error) {
			n++
			return upstream(t, scripted.Answer{Text: answers[n-1]}).RoundTrip(q)
		})))
		for range answers {
			c.post(paths[chat.Name], chatBody("go"))
		}
		c.session.Close()
	}
	r := opened(t, dir)
	if r.Len() != 5 {
		t.Errorf("%d exchanges", r.Len())
	}
	for name, want := range map[string]string{
		"a/d/t__1": "1a 1b 1b 1b", "a/d/t__2": "2a 2b 2c 2c", "a/d/t__3": "1a 1b 1b 1b", "a/d/t__4": "2a 2b 2c 2c", "b/d/t__2": "2a 2b 2c 2c", "b/other/t__1": "1a 1b 1b 1b", "": "1a 1b 1b 1b",
	} {
		c := open(t, chat.Name, name, r)
		var got []string
		for range 4 {
			_, body := c.post(paths[chat.Name], chatBody("go"))
			for _, one := range []string{"1a", "1b", "2a", "2b", "2c"} {
				if strings.Contains(body, `"`+one+`"`) {
					got = append(got, one)
				}
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s got %q, want %q", name, got, want)
		}
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Incomplete answers and temporary errors are not recorded; errors that would recur are.
func TestWhatIsKept(t *testing.T) {
	for name, one := range map[string]struct {
		answer scripted.Answer
		kept   int
	}{
		"an answer":           {scripted.Answer{Text: "yes"}, 1},
		"a cut stream":        {scripted.Answer{Text: "no", Cut: true}, 0},
		"a rate limit":        {scripted.Answer{Error: &scripted.Error{Status: 529, RetryAfter: 3600}}, 0},
		"a failed server":     {scripted.Answer{Error: &scripted.Error{Status: 500}}, 0},
		"a wrong key":         {scripted.Answer{Error: &scripted.Error{Status: 401}}, 0},
		"a long conversation": {scripted.Answer{Error: &scripted.Error{Status: 400, Message: "prompt is too long"}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c := open(t, chat.Name, "a/d/t__1", recorder(t, dir, upstream(t, one.answer)))
			q, err := http.NewRequest(http.MethodPost, c.url+paths[chat.Name], strings.NewReader(strings.Replace(chatBody("go"), "{", `{"stream":true,`, 1)))
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Authorization", "Bearer "+c.session.Token())
			if answer, err := http.DefaultClient.Do(q); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
			c.session.Close()
			files, err := filepath.Glob(filepath.Join(dir, "a", "d", "t__1", "*"))
			if err != nil || len(files) != one.kept {
				t.Errorf("%q are kept, want %d: %v", files, one.kept, err)
			}
			if one.kept > 0 {
				opened(t, dir)
			} else if _, err := replay.Open(dir, hide); !errors.Is(err, replay.ErrEmpty) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A record with gaps is useless, so no request is sent after one that could not be written.
func TestARecordThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c := open(t, chat.Name, "a/d/t__1", recorder(t, dir, upstream(t, scripted.Answer{Text: "yes"})))
	c.post(paths[chat.Name], chatBody("go"))
	status, body := c.post(paths[chat.Name], chatBody("go"))
	if r := c.session.Seal(); status != http.StatusInternalServerError || !strings.Contains(body, "gateway_failed") || r.Failure == nil || r.Failure.Kind != model.FailedGateway {
		t.Errorf("%d %s, %+v", status, body, r.Failure)
	}
}

func TestWhatChangesByNature(t *testing.T) {
	same := [][2]string{
		{"It is Mon Nov 23 08:32:29 UTC 2026.", "It is Tue Dec 1 11:02:03 UTC 2026."},
		{"Today's date: 2026-11-23", "Today's date: 2027-01-05"},
		{"Today is November 23, 2026", "Today is May 3, 2027"},
		{"at 2026-11-23T08:32:29.123Z", "at 2027-01-05T00:00:00+01:00"},
		{"-rw-r--r-- 1 root root 12 Nov 23 08:32 a", "-rw-r--r-- 1 root root 12 Jan  2 10:01 a"},
		{"in /tmp/tmp.Xa8dKq1zP0/out", "in /tmp/tmp.bB22ccDD33/out"},
		{"in /tmp/pytest-a1b2c3d4/x", "in /tmp/pytest-99zz88yy/x"},
		{"session 0195d3c2-8f3a-7e21-9a54-0242ac120002", "session 11111111-8f3a-7e21-9a54-0242ac120002"},
		{"host 3f2a9c1b7d4e", "host a1b2c3d4e5f6"},
		{"took 0.53s", "took 12.01s"}, {"real\t0m0.012s", "real\t1m2.5s"}, {"in 12 ms", "in 9 ms"},
		{"Token usage: 1234/200000; 198766 remaining", "Token usage: 99/200000; 199901 remaining"},
		{"you have 12,345 tokens left", "you have 9 tokens left"},
		{"at http://127.0.0.1:40123/v1", "at http://127.0.0.1:39999/v1"},
		{"epoch 1795422749", "epoch 1811111111"},
		{"x-anthropic-billing-header: cc_version=1.2.3;\nYou are", "x-anthropic-billing-header: cc_version=9.9.9;\nYou are"},
		{" ends with space ", "ends with space"},
	}
	differ := [][2]string{
		{"Solve it.", "Solve it well."}, {"the answer is 42", "the answer is 43"}, {"line 12 of a.go", "line 13 of a.go"}, {"/tmp/answer.txt", "/tmp/question.txt"},
		{"exit code 0", "exit code 1"}, {"3 passed", "2 passed"}, {"version 1.2.3", "version 1.2.4"}, {"deadbeef", "beefdead"},
	}
	for i, list := range [][][2]string{same, differ} {
		for _, pair := range list {
			dir := t.TempDir()
			c := open(t, chat.Name, "a/d/t__1", recorder(t, dir, upstream(t, scripted.Answer{Text: "yes"})))
			c.post(paths[chat.Name], chatBody(pair[0]))
			c.session.Close()
			status, _ := open(t, chat.Name, "a/d/t__1", opened(t, dir)).post(paths[chat.Name], chatBody(pair[1]))
			if hit := status == http.StatusOK; hit != (i == 0) {
				t.Errorf("%q and %q are the same: %t", pair[0], pair[1], hit)
			}
		}
	}
}

// Each miss describes the difference.
func TestMisses(t *testing.T) {
	dir := t.TempDir()
	c := open(t, chat.Name, "a/d/t__1", recorder(t, dir, upstream(t, scripted.Answer{Text: "yes"})))
	base := `{"model":"x","temperature":0.5,"tools":[{"type":"function","function":{"name":"bash","description":"runs"}}],"messages":[{"role":"system","content":"Be good."},{"role":"user","content":"go"}]}`
	c.post(paths[chat.Name], base)
	c.session.Close()
	for name, one := range map[string]struct{ from, to, want string }{
		"sampling":    {`"temperature":0.5`, `"temperature":1`, "the sampling was map[temperature:0.5], is map[temperature:1]"},
		"a tool":      {`"description":"runs"`, `"description":"runs anything"`, "the tools differ: bash changed:\n- runs\n+ runs anything"},
		"no tool":     {`"name":"bash"`, `"name":"sh"`, "the tools differ: sh is new, bash is gone"},
		"the prompt":  {"Be good.", "Be better.", "message 1 (system) differs:\n- Be good.\n+ Be better."},
		"one more":    {`"go"}`, `"go"},{"role":"user","content":"now"}`, "message 3 (user) was not there:\n+ user\n+ now"},
		"a stream":    {`"model":"x"`, `"model":"x","stream":true`, "with a stream, or without one"},
		"far away":    {"Be good.", "Be good" + strings.Repeat("!", 500) + "x", "…"},
		"one is gone": {`,{"role":"user","content":"go"}`, "", "message 2 (user) is not there any more"},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, chat.Name, "a/d/t__1", opened(t, dir))
			status, _ := c.post(paths[chat.Name], strings.Replace(base, one.from, one.to, 1))
			if missed := c.session.Seal().Missed; status != http.StatusBadRequest || !strings.Contains(missed, one.want) || len(missed) > 1500 {
				t.Errorf("%d, %q is not in %q", status, one.want, missed)
			}
		})
	}
}

func TestFilesThatAreNoRecords(t *testing.T) {
	for name, text := range map[string]string{"no JSON": "{", "another version": `{"version":99}`, "something else": `{"a":1}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "x.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := replay.Open(dir, hide); err == nil || !strings.Contains(err.Error(), "x.json") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := replay.Open(filepath.Join(t.TempDir(), "none"), hide); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if model.CallerOf(context.Background()) != nil {
		t.Error("somebody calls")
	}
}
