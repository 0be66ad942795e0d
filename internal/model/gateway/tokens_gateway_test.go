package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api/chat"
	"github.com/org/rollout-action/internal/model/gateway"
)

func recordsTokens(c *gateway.Config, _ *gateway.Options) { c.Tokens = true }

// askedFor holds the options of a request that concern tokens.
type askedFor struct {
	Stream   bool `json:"stream"`
	IDs      bool `json:"return_token_ids"`
	Logprobs bool `json:"logprobs"`
}

// server is a model server that answers by a function.
func server(t *testing.T, answer func(askedFor, http.Header) (status int, body string)) transport {
	t.Helper()
	return func(q *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return nil, err
		}
		var asked askedFor
		if err := json.Unmarshal(body, &asked); err != nil {
			return nil, err
		}
		status, text := answer(asked, q.Header)
		kind := "application/json"
		if asked.Stream && status == http.StatusOK {
			kind = "text/event-stream"
		}
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(text)), Request: q}, nil
	}
}

// vllm answers as vLLM does, with ids and log probabilities in vLLM's fields.
func vllm(a askedFor, _ http.Header) (int, string) {
	ids := func(name, list string) string {
		if !a.IDs {
			return ""
		}
		return `,"` + name + `":` + list
	}
	logprobs := func(list string) string {
		if !a.Logprobs {
			return `null`
		}
		return `{"content":[` + list + `]}`
	}
	if !a.Stream {
		return http.StatusOK, `{"id":"c","model":"m", "choices":[{"index":0,"message":{"role":"assistant","content":"ab"},"logprobs":` +
			logprobs(`{"token":"a","logprob":-0.25,"bytes":null,"top_logprobs":[]},{"token":"b","logprob":-9999.0}`) + `,"finish_reason":"stop"` + ids("token_ids", "[7,8]") + `}],"usage":{"prompt_tokens":3,"completion_tokens":2}` + ids("prompt_token_ids", "[1,2,3]") + `}`
	}
	chunk := func(delta, finish, more string) string {
		return `data: {"id":"c","model":"m","choices":[{"index":0,"delta":` + delta + `,"logprobs":` + finish + `}]` + more + "}\n\n"
	}
	return http.StatusOK, chunk(`{"role":"assistant","content":""}`, `null,"finish_reason":null`, ids("prompt_token_ids", "[1,2,3]")) +
		chunk(`{"content":"a"}`, logprobs(`{"token":"a","logprob":-0.25}`)+`,"finish_reason":null`+ids("token_ids", "[7]"), "") +
		chunk(`{"content":"b"}`, logprobs(`{"token":"b","logprob":-9999.0}`)+`,"finish_reason":"stop"`+ids("token_ids", "[8]"), "") +
		"data: {\"id\":\"c\",\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n"
}

// sglang answers as SGLang does, which refuses ids in streams, and has a header for them.
func sglang(a askedFor, h http.Header) (int, string) {
	if a.Stream && a.IDs {
		return http.StatusBadRequest, `{"object":"error","message":"return_token_ids is not supported with streaming on /v1/chat/completions.","type":"BadRequest","code":400}`
	}
	if !a.Stream {
		ids, logprobs := "", "null"
		if a.IDs {
			ids = `,"prompt_token_ids":[1,2,3],"response_token_ids":[7,8]`
		}
		if a.Logprobs {
			logprobs = `{"content":[{"token":"a","logprob":-0.25},{"token":"b","logprob":-9999.0}]}`
		}
		return http.StatusOK, `{"id":"c","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ab"},"logprobs":` + logprobs + `,"finish_reason":"stop"` + ids + `}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`
	}
	_, text := vllm(askedFor{Stream: true, Logprobs: a.Logprobs}, nil)
	if h.Get("x-sglext-return-input-ids") == "1" && h.Get("x-sglext-return-output-ids") == "1" {
		usage := `data: {"id":"c","model":"m","choices":[],"usage":{`
		text = strings.Replace(text, usage, `data: {"id":"c","model":"m","choices":[],"usage":null,"sglext":{"input_ids":[1,2,3],"output_ids":[[7,8]]}}`+"\n\n"+usage, 1)
	}
	return http.StatusOK, text
}

// The ids are recorded, and the client gets the same bytes as without recording.
func TestTokensAreRecordedAndHidden(t *testing.T) {
	for name, answer := range map[string]func(askedFor, http.Header) (int, string){"vLLM": vllm, "SGLang": sglang} {
		for _, asked := range []askedFor{{}, {Stream: true}, {Logprobs: true}, {Stream: true, Logprobs: true}, {IDs: true}, {IDs: true, Logprobs: true}} {
			t.Run(fmt.Sprintf("%s %+v", name, asked), func(t *testing.T) {
				var client bytes.Buffer
				fmt.Fprintf(&client, `{ "messages" : [{"role":"user","content":"é \u00e9"}], "model":"asked","stream":%t`, asked.Stream)
				if asked.Logprobs {
					client.WriteString(`,"logprobs":true`)
				}
				if asked.IDs {
					client.WriteString(`,"return_token_ids":true`)
				}
				client.WriteString(`, "stream_options": {"include_usage": true}}`)
				r := newRigWith(t, chat.Name, server(t, answer), recordsTokens)
				_, want := answer(asked, http.Header{})
				for turn := range 2 {
					got := r.do(http.MethodPost, "/v1/chat/completions", client.String())
					if got.err != nil || got.status != http.StatusOK || got.body != want {
						t.Errorf("turn %d: %d %s %v, want\n%s", turn, got.status, got.body, got.err, want)
					}
				}
				kept := r.kept()
				if len(kept) != 2 {
					t.Fatalf("%d turns", len(kept))
				}
				for _, turn := range kept {
					n := turn.Answer.Tokens
					if n == nil || fmt.Sprint(n.Prompt, n.Completion, n.Logprobs) != "[1 2 3] [7 8] [-0.25 -9999]" {
						t.Errorf("tokens %+v", n)
					}
				}
				// SGLang's refusal costs one more request in a session, and the request is
				// otherwise as it was.
				texts, calls := r.texts(), 2
				if name == "SGLang" && asked.Stream {
					calls = 3
				}
				if len(texts) != calls {
					t.Errorf("%d requests: %q", len(texts), texts)
				}
				for i, text := range texts {
					left := strings.Replace(strings.Replace(text, `,"return_token_ids":true`, "", 1), `,"logprobs":true`, "", 1)
					before := strings.Replace(strings.Replace(client.String(), `,"return_token_ids":true`, "", 1), `,"logprobs":true`, "", 1)
					if left != strings.Replace(before, `"asked"`, `"upstream-model"`, 1) {
						t.Errorf("request %d: %s", i, text)
					}
				}
				if report := r.session.Report(); report.Turns != 2 || report.Calls != 2 || report.Untold != 0 || report.Unlikely != 0 {
					t.Errorf("report %+v", report)
				}
			})
		}
	}
}

// An error reaches the client unchanged, and the request is not repeated.
func TestRefusalsOfTokensArePassedOn(t *testing.T) {
	const refusal = `{"error":{"message":"Unrecognized request argument supplied: return_token_ids","type":"invalid_request_error"}}`
	for _, stream := range []bool{false, true} {
		r := newRigWith(t, chat.Name, server(t, func(askedFor, http.Header) (int, string) { return http.StatusBadRequest, refusal }), recordsTokens)
		got := r.do(http.MethodPost, "/v1/chat/completions", fmt.Sprintf(`{"stream":%t,"messages":[]}`, stream))
		if got.status != http.StatusBadRequest || got.body != refusal || len(r.sent()) != 1 {
			t.Errorf("stream %t: %d %s after %d requests", stream, got.status, got.body, len(r.sent()))
		}
		if f := r.session.Report().Failure; f == nil || f.Kind != model.FailedProvider || f.Status != http.StatusBadRequest {
			t.Errorf("failure %+v", f)
		}
	}
}

// A client that itself asks SGLang for ids in a stream gets its refusal.
func TestOwnRequestsForTokensAreNotChanged(t *testing.T) {
	r := newRigWith(t, chat.Name, server(t, sglang), recordsTokens)
	got := r.do(http.MethodPost, "/v1/chat/completions", `{"stream":true,"return_token_ids":true,"messages":[]}`)
	if _, want := sglang(askedFor{Stream: true, IDs: true}, nil); got.status != http.StatusBadRequest || got.body != want || len(r.sent()) != 1 {
		t.Errorf("%d %s after %d requests", got.status, got.body, len(r.sent()))
	}
}

// Malformed ids are not recorded but counted. The client gets its answer all the same.
func TestTokensOfHostileServers(t *testing.T) {
	for name, one := range map[string]struct {
		from, to         string
		untold, unlikely int64
	}{
		"none":                  {`[7,8]`, `null`, 1, 0},
		"texts":                 {`[7,8]`, `["7","8"]`, 1, 0},
		"fractions":             {`[7,8]`, `[7.5,8]`, 1, 0},
		"negative":              {`[7,8]`, `[-7,8]`, 1, 0},
		"more than logprobs":    {`[7,8]`, `[7,8,9]`, 0, 1},
		"texts as logprobs":     {`-0.25`, `"-0.25"`, 0, 1},
		"no object":             {`"logprobs":{"content":[`, `"logprobs":[["content",`, 1, 0},
		"the key in the answer": {`"content":"ab"`, `"content":"` + secretKey + `"`, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRigWith(t, chat.Name, server(t, func(a askedFor, h http.Header) (int, string) {
				_, text := vllm(a, h)
				changed := strings.Replace(text, one.from, one.to, 1)
				if name == "no object" {
					changed = strings.Replace(strings.Replace(changed, `}]}`, `}]]`, 1), `[7,8]`, `{}`, 1)
				}
				if changed == text {
					t.Errorf("nothing of %s was changed", text)
				}
				return http.StatusOK, changed
			}), recordsTokens)
			got := r.do(http.MethodPost, "/v1/chat/completions", `{"messages":[]}`)
			if got.status != http.StatusOK || got.err != nil || strings.Contains(got.body, "token_ids") || strings.Contains(got.body, "-9999") {
				t.Errorf("%d %s %v", got.status, got.body, got.err)
			}
			report := r.session.Report()
			if report.Turns != 1 || report.Untold != one.untold || report.Unlikely != one.unlikely {
				t.Errorf("%d turns, %d without ids, %d without log probabilities", report.Turns, report.Untold, report.Unlikely)
			}
			if tokens := r.kept()[0].Answer.Tokens; (tokens == nil) != (one.untold == 1) || tokens != nil && (tokens.Logprobs == nil) != (one.unlikely == 1) {
				t.Errorf("tokens %+v", tokens)
			}
		})
	}
}
