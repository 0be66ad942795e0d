package shell_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/model/api/anthropic"
	"github.com/org/rollout-action/internal/model/api/chat"
	"github.com/org/rollout-action/internal/model/api/google"
	"github.com/org/rollout-action/internal/model/api/responses"
	"github.com/org/rollout-action/internal/run/shell"
)

var update = flag.Bool("update", false, "write the golden files")

// said is an answer of a provider: a stream, or an error with a status.
type said struct {
	stream string
	status int
	body   string
	header http.Header
	kind   string // of the content; default: text/event-stream
	cut    bool   // the connection breaks at the end
}

// provider answers in order and records requests.
type provider struct {
	t        *testing.T
	answers  []said
	requests []*http.Request
	bodies   [][]byte
}

func (p *provider) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	p.requests, p.bodies = append(p.requests, r), append(p.bodies, body)
	if len(p.answers) == 0 {
		p.t.Errorf("one request too many: %s", body)
		return nil, errors.New("no more answers")
	}
	a := p.answers[0]
	p.answers = p.answers[1:]
	out := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}, Request: r}
	text := a.stream
	if a.status != 0 {
		out.StatusCode, text = a.status, a.body
		out.Header = http.Header{"Content-Type": {"application/json"}}
	}
	if a.kind != "" {
		out.Header.Set("Content-Type", a.kind)
	}
	for name, values := range a.header {
		out.Header[name] = values
	}
	out.Body = io.NopCloser(strings.NewReader(text))
	if a.cut {
		out.Body = io.NopCloser(io.MultiReader(strings.NewReader(text), broken{}))
	}
	return out, nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// events returns a stream of JSON texts.
func events(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString("data: " + line + "\n\n")
	}
	return b.String()
}

// ran is a command that the agent ran.
type ran struct {
	command string
	timeout time.Duration
}

// try runs the agent with answers. Commands print themselves and exit with 3; "slow" takes too
// long.
func try(t *testing.T, api model.API, answers ...said) (p *provider, commands []ran, log string, err error) {
	t.Helper()
	p = &provider{t: t, answers: answers}
	var text bytes.Buffer
	err = shell.Run(t.Context(), shell.Options{
		API: api, Model: "the model", Transport: p, Instruction: "Solve <it> & say so.\n", Log: &text,
		Exec: func(_ context.Context, command string, timeout time.Duration, out io.Writer) (int, error) {
			commands = append(commands, ran{command, timeout})
			fmt.Fprintf(out, "output of %s", command)
			if command == "slow" {
				return 0, environment.ErrTimeout
			}
			return 3, nil
		},
		Sleep: func(ctx context.Context, d time.Duration) bool { return ctx.Err() == nil },
	})
	return p, commands, text.String(), err
}

// golden compares the last request with a file.
func golden(t *testing.T, name string, p *provider) {
	t.Helper()
	r := p.requests[len(p.requests)-1]
	var body any
	if err := json.Unmarshal(p.bodies[len(p.bodies)-1], &body); err != nil {
		t.Fatal(err)
	}
	headers := map[string]string{}
	for key, values := range r.Header {
		headers[key] = strings.Join(values, ", ")
	}
	var got bytes.Buffer
	e := json.NewEncoder(&got)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(map[string]any{"path": r.URL.RequestURI(), "headers": headers, "body": body}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", name+".golden.json")
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s differs: go test ./internal/run/shell -update writes it\n%s", file, got.Bytes())
	}
}

// Two calls with reasoning, in the forms that the providers document. The ends of the streams
// differ on purpose.
var twoCalls = map[model.API]string{
	anthropic.Name: events(
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":5,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me <look>"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":" first."}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQBCg/+=="}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"Emw+KmoB"}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"ping"}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"I look "}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"first."}}`,
		`{"type":"content_block_stop","index":2}`,
		`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"bash","input":{}}}`,
		`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}`,
		`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"timeout_sec\": 1.5, \"comm"}}`,
		`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"and\": \"ls && pwd\"}"}}`,
		`{"type":"content_block_stop","index":3}`,
		`{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_2","name":"bash","input":{}}}`,
		`{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{\"command\":\"slow\"}"}}`,
		`{"type":"content_block_stop","index":4}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":50}}`,
		`{"type":"message_stop"}`,
	),
	chat.Name: events(
		`{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":null,"reasoning_content":"Let me "},"finish_reason":null}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{"reasoning_content":"<look>."}}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"Let ","format":"a-v1","signature":null}]}}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"me.","signature":"sig+="}]}}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{"content":"I look "}}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{"content":"first."}}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"bash","arguments":""},"extra_content":{"google":{"thought_signature":"abc"}}}]}}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"timeout_sec\": 1.5, \"comm"}}]}}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"and\": \"ls && pwd\"}"}}]}}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_2","type":"function","function":{"name":"bash","arguments":"{\"command\":\"slow\"}"}}]}}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
		`{"id":"c1","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":50}}`,
	) + "data: [DONE]\n\n",
	responses.Name: events(
		`{"type":"response.created","response":{"id":"resp_1","status":"in_progress","output":[]}}`,
		`{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}`,
		`{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAAA+=="}}`,
		`{"type":"response.output_item.done","output_index":1,"item":{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"I look first.","annotations":[]}]}}`,
		`{"type":"response.output_item.done","output_index":2,"item":{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_1","name":"bash","arguments":"{\"timeout_sec\": 1.5, \"command\": \"ls && pwd\"}"}}`,
		`{"type":"response.output_item.done","output_index":3,"item":{"id":"fc_2","type":"function_call","status":"completed","call_id":"call_2","name":"bash","arguments":"{\"command\":\"slow\"}"}}`,
		`{"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[],"error":null,"incomplete_details":null,"usage":{"input_tokens":5,"output_tokens":50}}}`,
	),
	google.Name: events(
		`{"candidates":[{"content":{"role":"model","parts":[{"text":"Let me <look>.","thought":true}]},"index":0}]}`,
		`{"candidates":[{"content":{"role":"model","parts":[{"text":"I look "}]},"index":0}]}`,
		`{"candidates":[{"content":{"role":"model","parts":[{"text":"first."}]},"index":0}]}`,
		`{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"id":"f1","name":"bash","args":{"timeout_sec":1.5,"command":"ls && pwd"}},"thoughtSignature":"CqYB+=="}]},"index":0}]}`,
		`{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"bash","args":{"command":"slow"}}}]},"index":0}]}`,
		`{"candidates":[{"content":{"role":"model","parts":[{"text":"","thoughtSignature":"CqcC"}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":5}}`,
	),
}

// finished is an answer that ends the work.
var finished = map[model.API]string{
	anthropic.Name: events(
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Done."}}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`,
	),
	chat.Name:      events(`{"choices":[{"delta":{"content":"Done."},"finish_reason":"stop"}]}`), // some servers send no [DONE]
	responses.Name: events(`{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done."}]}]}}`),
	google.Name:    events(`{"candidates":[{"content":{"parts":[{"text":"Done."}]},"finishReason":"STOP"}]}`),
}

// cutOff holds answers that end in the middle of a call, because they are too long, and in the
// middle of a text.
var cutOff = map[model.API][2]string{
	anthropic.Name: {
		events(
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"bash","input":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"command\": \"cat >f"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}`, `{"type":"message_stop"}`,
		),
		events(
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Half"}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"thinking","thinking":"cut","signature":""}}`,
			`{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}`, `{"type":"message_stop"}`,
		),
	},
	chat.Name: {
		events(`{"choices":[{"delta":{"tool_calls":[{"index":0,"type":"function","function":{"name":"bash","arguments":"{\"command\": \"cat >f"}}]},"finish_reason":"length"}]}`),
		events(`{"choices":[{"delta":{"content":"Half"},"finish_reason":"length"}]}`),
	},
	responses.Name: {
		events(`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"function_call","status":"incomplete","call_id":"call_1","name":"bash","arguments":"{\"command\": \"cat >f"}]}}`),
		events(`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message","role":"assistant","status":"incomplete","content":[{"type":"output_text","text":"Half"}]},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"cut"}]}}`),
	},
	google.Name: {
		events(`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"bash","args":{}}}]},"finishReason":"MAX_TOKENS"}]}`),
		events(`{"candidates":[{"content":{"parts":[{"text":"Half"}]},"finishReason":"MAX_TOKENS"}]}`),
	},
}

// Reasoning is sent back as it was received, with signatures, in its original place.
func TestAnswersAreSentBackAsReceived(t *testing.T) {
	for _, api := range api.Names() {
		t.Run(string(api), func(t *testing.T) {
			p, commands, log, err := try(t, api, said{stream: twoCalls[api]}, said{stream: finished[api]})
			if err != nil {
				t.Fatal(err)
			}
			want := []ran{{"ls && pwd", 1500 * time.Millisecond}, {"slow", 2 * time.Minute}}
			if fmt.Sprint(commands) != fmt.Sprint(want) {
				t.Errorf("commands %v, want %v", commands, want)
			}
			wantLog := `# turn 1
I look first.
$ ls && pwd
output of ls && pwd
[exit code 3]
$ slow
output of slow
[the command was ended after 120 seconds, with all that it had started]
# turn 2
Done.
`
			if log != wantLog {
				t.Errorf("log: %s", log)
			}
			golden(t, string(api), p)
		})
	}
}

func TestAnswersThatAreCutOff(t *testing.T) {
	for _, api := range api.Names() {
		t.Run(string(api), func(t *testing.T) {
			p, commands, _, err := try(t, api, said{stream: cutOff[api][0]}, said{stream: cutOff[api][1]}, said{stream: finished[api]})
			if err != nil || len(commands) > 0 {
				t.Fatalf("%v; ran %v", err, commands)
			}
			golden(t, string(api)+"-cut", p)
		})
	}
}

// The agent ends if answers are cut off again and again, and the result says that the last one was.
func TestAnswersThatAreAlwaysCutOff(t *testing.T) {
	half := said{stream: cutOff[chat.Name][1]}
	if p, _, _, err := try(t, chat.Name, half, half, half, half, half); err != nil || len(p.bodies) != 5 {
		t.Errorf("%v after %d requests", err, len(p.bodies))
	}
}

func TestEmptyAnswers(t *testing.T) {
	empty := map[model.API]string{
		anthropic.Name: events(`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`),
		chat.Name:      events(`{"choices":[{"delta":{"reasoning_content":"hm"},"finish_reason":"stop"}]}`),
		responses.Name: events(`{"type":"response.completed","response":{"status":"completed","output":[]}}`),
		google.Name:    events(`{"candidates":[{"content":{},"finishReason":"MALFORMED_FUNCTION_CALL"}]}`),
	}
	for _, api := range api.Names() {
		t.Run(string(api), func(t *testing.T) {
			e := said{stream: empty[api]}
			p, _, _, err := try(t, api, said{stream: twoCalls[api]}, e, e, e, e, said{stream: finished[api]})
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(p.bodies[5], []byte("Your answer was empty")) {
				t.Errorf("the model is not told: %s", p.bodies[5])
			}
			if _, _, _, err = try(t, api, e, e, e, e, e); !errors.Is(err, shell.ErrEmpty) {
				t.Errorf("after five: %v", err)
			}
		})
	}
}

// chatCalls returns a stream with calls of tools.
func chatCalls(calls ...[2]string) string {
	var list []any
	for i, c := range calls {
		list = append(list, map[string]any{"index": i, "id": fmt.Sprint("c", i), "type": "function", "function": map[string]any{"name": c[0], "arguments": c[1]}})
	}
	text, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{"delta": map[string]any{"tool_calls": list}, "finish_reason": "tool_calls"}}})
	return events(string(text))
}

func TestBadCallsAreAnswered(t *testing.T) {
	var many [][2]string
	for range 40 {
		many = append(many, [2]string{"bash", `{"command":"x"}`})
	}
	for name, c := range map[string]struct {
		calls [][2]string
		runs  int
		says  []string
	}{
		"another tool":          {[][2]string{{"str_replace", `{}`}, {"bash", `{"command":"x"}`}}, 1, []string{`There is no tool \"str_replace\". The only tool is bash.`, "output of x"}},
		"a tool without a name": {[][2]string{{"", `{}`}}, 0, []string{`There is no tool`}},
		"no JSON":               {[][2]string{{"bash", `ls -l`}}, 0, []string{"must be a JSON object", "ls -l", `"arguments":"{}"`}},
		"no object":             {[][2]string{{"bash", `["ls"]`}}, 0, []string{"must be a JSON object", `"arguments":"{}"`}},
		"another type":          {[][2]string{{"bash", `{"command":["ls"]}`}}, 0, []string{"must be a JSON object with the text command"}},
		"no command":            {[][2]string{{"bash", `{"cmd":"ls"}`}}, 0, []string{"missing or empty"}},
		"a NUL":                 {[][2]string{{"bash", `{"command":"printf 'a\u0000'"}`}}, 0, []string{"NUL"}},
		"a long command":        {[][2]string{{"bash", `{"command":"` + strings.Repeat("x", 200_001) + `"}`}}, 0, []string{"200001 bytes"}},
		"no time":               {[][2]string{{"bash", `{"command":"x","timeout_sec":0}`}}, 0, []string{"above 0"}},
		"much time":             {[][2]string{{"bash", `{"command":"x","timeout_sec":1e300}`}}, 1, []string{"output of x"}},
		"many calls":            {many, 32, []string{"one answer may have 32 calls", `"tool_call_id":"c39"`}},
	} {
		t.Run(name, func(t *testing.T) {
			p, commands, _, err := try(t, chat.Name, said{stream: chatCalls(c.calls...)}, said{stream: finished[chat.Name]})
			if err != nil || len(commands) != c.runs {
				t.Fatalf("%v; ran %d commands", err, len(commands))
			}
			for _, text := range c.says {
				if !bytes.Contains(p.bodies[1], []byte(text)) {
					t.Errorf("%q is not in %.3000s", text, p.bodies[1])
				}
			}
			for _, one := range commands {
				if one.timeout > time.Hour {
					t.Errorf("the timeout is %v", one.timeout)
				}
			}
		})
	}
}

// Names that no tool can have are changed before they are sent back: APIs refuse the whole
// conversation otherwise.
func TestInventedNamesAreMadeSafe(t *testing.T) {
	for api, body := range map[model.API]string{
		anthropic.Name: `{"content":[{"type":"tool_use","id":"t","name":"functions.bash","input":{}}],"stop_reason":"tool_use"}`,
		chat.Name:      `{"choices":[{"message":{"tool_calls":[{"id":"c","type":"function","function":{"name":"functions.bash","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`,
		responses.Name: `{"status":"completed","output":[{"type":"function_call","call_id":"c","name":"functions.bash","arguments":"{}"}]}`,
		google.Name:    `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"functions.bash","args":{}}}]},"finishReason":"STOP"}]}`,
	} {
		t.Run(string(api), func(t *testing.T) {
			p, commands, _, err := try(t, api, said{stream: body, kind: "application/json"}, said{stream: finished[api]})
			if err != nil || len(commands) > 0 || !bytes.Contains(p.bodies[1], []byte(`"functions_bash"`)) || bytes.Contains(p.bodies[1], []byte(`"functions.bash"`)) {
				t.Errorf("%v; ran %v; %s", err, commands, p.bodies[1])
			}
		})
	}
}

func TestTransientErrorsOfTheModelAreRetried(t *testing.T) {
	done := said{stream: finished[anthropic.Name]}
	busy := said{status: 500, body: `{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`}
	for name, first := range map[string]said{
		"an error of the server": busy,
		"an error in the stream": {stream: events(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)},
		"a stream that breaks":   {stream: strings.Split(twoCalls[anthropic.Name], `data: {"type":"message_stop`)[0], cut: true},
		"a stream without end":   {stream: strings.Split(twoCalls[anthropic.Name], `data: {"type":"message_stop`)[0]},
		"no JSON":                {stream: "<html>", kind: "text/html"},
		"a gateway's page":       {status: 502, body: "<html>Bad gateway</html>"},
	} {
		t.Run(name, func(t *testing.T) {
			p, commands, log, err := try(t, anthropic.Name, first, first, done)
			if err != nil || len(commands) > 0 || len(p.bodies) != 3 || !bytes.Equal(p.bodies[0], p.bodies[2]) {
				t.Errorf("%v; ran %v; %d requests; log %s", err, commands, len(p.bodies), log)
			}
		})
	}
	t.Run("not for ever", func(t *testing.T) {
		var failed *shell.ModelError
		_, _, _, err := try(t, anthropic.Name, busy, busy, busy, busy, busy, busy, busy)
		if !errors.As(err, &failed) || failed.Status != 500 || failed.Message != "Internal server error" {
			t.Errorf("%v", err)
		}
	})
}

func TestLastingErrorsOfTheModelEndTheAgent(t *testing.T) {
	for _, status := range []int{400, 401, 402, 403, 404, 409, 413, 429, 501, 529} {
		var failed *shell.ModelError
		_, _, _, err := try(t, chat.Name, said{status: status, body: `{"error":{"message":"no\u0000 more\n"}}`})
		if !errors.As(err, &failed) || failed.Status != status || failed.Message != "no\uFFFD more" {
			t.Errorf("%d: %v", status, err)
		}
	}
	var failed *shell.ModelError
	if _, _, _, err := try(t, chat.Name, said{status: 503, header: http.Header{"X-Should-Retry": {"false"}}}); !errors.As(err, &failed) || failed.Message != "Service Unavailable" {
		t.Errorf("%v", err)
	}
}

func TestShellEndsWhenTheContextIsFull(t *testing.T) {
	full := events(`{"type":"message_delta","delta":{"stop_reason":"model_context_window_exceeded"}}`, `{"type":"message_stop"}`)
	if _, _, _, err := try(t, anthropic.Name, said{stream: full}); !errors.Is(err, shell.ErrOverflow) {
		t.Errorf("%v", err)
	}
}

// Models that do not reason refuse to return encrypted reasoning. It is then left out, once.
func TestModelsWithoutEncryptedReasoning(t *testing.T) {
	refused := said{status: 400, body: `{"error":{"message":"Encrypted content is not supported with this model.","type":"invalid_request_error","param":"include","code":null}}`}
	p, _, _, err := try(t, responses.Name, refused, said{stream: twoCalls[responses.Name]}, said{stream: finished[responses.Name]})
	if err != nil || !bytes.Contains(p.bodies[0], []byte(`"include"`)) || bytes.Contains(p.bodies[1], []byte(`"include"`)) || bytes.Contains(p.bodies[2], []byte(`"include"`)) {
		t.Errorf("%v: %s", err, p.bodies)
	}
	if _, _, _, err := try(t, responses.Name, refused, refused); err == nil {
		t.Error("a second refusal is no error")
	}
}

// Some proxies answer without a stream.
func TestAnswersWithoutAStream(t *testing.T) {
	for api, body := range map[model.API]string{
		anthropic.Name: `{"content":[{"type":"tool_use","id":"t","name":"bash","input":{"command":"x"}}],"stop_reason":"tool_use"}`,
		chat.Name:      `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"bash","arguments":"{\"command\":\"x\"}"}},{"type":"function","function":{"name":"bash","arguments":{"command":"y"}}}]},"finish_reason":"tool_calls"}]}`,
		responses.Name: `{"status":"completed","output":[{"type":"function_call","call_id":"c","name":"bash","arguments":"{\"command\":\"x\"}"}]}`,
		google.Name:    `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"bash","args":{"command":"x"}}}]},"finishReason":"STOP"}]}`,
	} {
		t.Run(string(api), func(t *testing.T) {
			_, commands, _, err := try(t, api, said{stream: body, kind: "application/json"}, said{stream: finished[api]})
			if err != nil || len(commands) == 0 || commands[0].command != "x" {
				t.Errorf("%v; ran %v", err, commands)
			}
		})
	}
}

// endless is a stream that never ends.
type endless struct{ line []byte }

func (e endless) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(&repeating{e.line, 0}), Request: r}, nil
}

type repeating struct {
	line []byte
	at   int
}

func (r *repeating) Read(p []byte) (int, error) {
	n := copy(p, r.line[r.at:])
	r.at = (r.at + n) % len(r.line)
	return n, nil
}

func TestAnEndlessAnswerIsBounded(t *testing.T) {
	line := []byte("data: " + `{"choices":[{"delta":{"content":"` + strings.Repeat("x", 1<<20) + `"}}]}` + "\n\n")
	var failed *shell.ModelError
	err := shell.Run(t.Context(), shell.Options{API: chat.Name, Transport: endless{line}})
	if !errors.As(err, &failed) || !strings.Contains(failed.Message, "more than") {
		t.Errorf("%v", err)
	}
}

// waiting answers when the request's context ends.
type waiting struct{}

func (waiting) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestTheEndOfTheContextEndsTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, transport := range map[string]http.RoundTripper{
			"in a request": waiting{},
			"between two requests": roundTrip(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusInternalServerError, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
			}),
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			begin := time.Now()
			err := shell.Run(ctx, shell.Options{API: google.Name, Transport: transport})
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 3*time.Second {
				t.Errorf("%s: %v after %v", name, err, time.Since(begin))
			}
			cancel()
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A failure of the environment ends the agent, with that error.
func TestAnEnvironmentThatIsLostEndsTheAgent(t *testing.T) {
	lost := &environment.Error{Kind: environment.KindLost, Err: errors.New("gone")}
	p := &provider{t: t, answers: []said{{stream: twoCalls[google.Name]}}}
	err := shell.Run(t.Context(), shell.Options{
		API: google.Name, Transport: p, Exec: func(context.Context, string, time.Duration, io.Writer) (int, error) { return 0, lost },
	})
	if !errors.Is(err, lost) {
		t.Errorf("%v", err)
	}
}
