package gateway_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api/anthropic"
	"github.com/org/rollout-action/internal/model/api/chat"
	"github.com/org/rollout-action/internal/model/api/google"
	"github.com/org/rollout-action/internal/model/api/responses"
	"github.com/org/rollout-action/internal/model/gateway"
	"github.com/org/rollout-action/internal/model/meter"
)

// perToken is a price of one dollar for a token.
func perToken(_ string, _ time.Time, u model.Usage) *float64 { return new(float64(u.Total())) }

// An agent that drops its streams and asks again pays each time.
func TestDroppedStreamsAreTurnsAndCost(t *testing.T) {
	eachAPI(t, func(t *testing.T, api model.API) {
		first, _ := streamOf(t, api)
		hangs := transport(func(q *http.Request) (*http.Response, error) {
			read, write := io.Pipe()
			go func() {
				_, _ = io.WriteString(write, first[:strings.Index(first, "\n\n")+2])
				<-q.Context().Done()
				_ = write.CloseWithError(q.Context().Err())
			}()
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: read, Request: q}, nil
		})
		r := newRigWith(t, api, hangs, func(c *gateway.Config, o *gateway.Options) { c.Cost, o.Budget.MaxTurns = perToken, 3 })
		for range 5 {
			q, err := http.NewRequest(http.MethodPost, r.url+paths[api], strings.NewReader(askBody(api, "go")))
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Authorization", "Bearer "+r.session.Token())
			before := len(r.kept())
			answer, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = answer.Body.Read(make([]byte, 1))
			answer.Body.Close()
			for len(r.kept()) == before && answer.StatusCode == http.StatusOK {
				time.Sleep(time.Millisecond)
			}
		}
		report := r.session.Seal()
		if report.Calls != 3 || report.Stop != model.StopTurns || report.Refused != 2 || len(r.sent()) != 3 {
			t.Errorf("%d calls, stop %q, %d refused: %+v", report.Calls, report.Stop, report.Refused, report)
		}
		if report.Estimated != 3 || report.Cost == nil || *report.Cost < 30 || *report.Usage.Input < 30 {
			t.Errorf("%d calls are estimated, cost %v, usage %+v", report.Estimated, report.Cost, report.Usage)
		}
		for _, turn := range r.kept() {
			if !turn.AtLeast || turn.Cost == nil || !turn.Answer.Usage.Estimated {
				t.Errorf("the cost of a turn that broke off is exact: %+v", turn)
			}
		}
	})
}

// Servers that state no usage do not escape budgets.
func TestAnswersWithoutUsageCountForBudgets(t *testing.T) {
	long := strings.Repeat("x ", 400)
	answers := map[model.API]string{
		anthropic.Name: `{"content":[{"type":"text","text":"` + long + `"}],"stop_reason":"end_turn"}`,
		chat.Name:      `{"choices":[{"index":0,"message":{"role":"assistant","content":"` + long + `"},"finish_reason":"stop"}]}`,
		responses.Name: `{"status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"` + long + `"}]}]}`,
		google.Name:    `{"candidates":[{"content":{"parts":[{"text":"` + long + `"}]},"finishReason":"STOP"}]}`,
	}
	eachAPI(t, func(t *testing.T, api model.API) {
		for stop, budget := range map[model.Stop]model.Budget{
			model.StopTokens: {MaxTotalTokens: 600}, model.StopCost: {MaxCostUSD: new(600.0)}, model.StopOutput: {MaxOutputTokens: 500},
		} {
			r := newRigWith(t, api, fixed(200, "application/json", answers[api]), func(c *gateway.Config, o *gateway.Options) { c.Cost, o.Budget = perToken, budget })
			for range 6 {
				r.turn(api, "go")
			}
			report := r.session.Seal()
			if report.Stop != stop || report.Calls > 3 || report.Estimated != report.Calls || *report.Usage.Output != 200*report.Calls {
				t.Errorf("%d calls, stop %q, want %q: %+v", report.Calls, report.Stop, stop, report)
			}
		}
	})
}

// A refused request costs nothing, but is a turn. A request that did not reach the provider is not.
func TestRefusedCallsAreTurnsWithoutUsage(t *testing.T) {
	r := newRigWith(t, chat.Name, fixed(500, "application/json", `{"error":{"message":"down"}}`), func(c *gateway.Config, o *gateway.Options) { c.Cost, o.Budget.MaxTurns = perToken, 2 })
	for range 4 {
		r.turn(chat.Name, "go")
	}
	if report := r.session.Seal(); report.Calls != 2 || report.Stop != model.StopTurns || report.Cost != nil || report.Estimated != 0 || report.Unpriced != 0 {
		t.Errorf("%+v", report)
	}
	away := transport(func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF })
	r = newRigWith(t, chat.Name, away, func(_ *gateway.Config, o *gateway.Options) { o.Budget.MaxTurns = 2 })
	for range 4 {
		r.turn(chat.Name, "go")
	}
	if report := r.session.Seal(); report.Calls != 4 || report.Stop != "" || report.Estimated != 0 {
		t.Errorf("a provider that cannot be reached: %+v", report)
	}
}

// The gateway does not see the cost of answers that are made in the background.
func TestNoAnswersInTheBackground(t *testing.T) {
	asked := 0
	r := newRigWith(t, responses.Name, transport(func(q *http.Request) (*http.Response, error) {
		asked++
		return fixed(200, "application/json", `{"id":"r","status":"completed","output":[],"usage":{"input_tokens":1,"output_tokens":1}}`)(q)
	}), nil)
	for _, c := range []struct {
		method, path, body string
		code               int
		says               string
	}{
		{http.MethodPost, "/v1/responses", `{"model":"m","background":true,"input":"go"}`, http.StatusBadRequest, "background: true is not possible at this gateway"},
		{http.MethodPost, "/v1/responses", `{"model":"m","background":true,"stream":true,"input":"go"}`, http.StatusBadRequest, "background: true"},
		{http.MethodPost, "/v1/responses", `{"model":"m","background":false,"input":"go"}`, http.StatusOK, "completed"},
		{http.MethodGet, "/v1/responses/resp_1", "", http.StatusNotFound, "answers are not stored at this gateway"},
		{http.MethodGet, "/v1/responses/resp_1/input_items?limit=2", "", http.StatusNotFound, "answers are not stored"},
		{http.MethodDelete, "/responses/resp_1", "", http.StatusNotFound, "answers are not stored"},
		{http.MethodPost, "/v1/responses/resp_1/cancel", "{}", http.StatusNotFound, "answers are not stored"},
		{http.MethodPost, "/v1/responses/compact", "{}", http.StatusNotFound, "is not a part of the API"},
	} {
		if got := r.do(c.method, c.path, c.body); got.status != c.code || !strings.Contains(got.body, c.says) {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, got.status, got.body)
		}
	}
	if report := r.session.Seal(); asked != 1 || report.Turns != 1 || len(report.Denied) != 1 || !strings.Contains(report.Denied[0], "background") {
		t.Errorf("the provider was asked %d times: %+v", asked, report)
	}
}

func TestGeminiArraysHaveUsage(t *testing.T) {
	const body = `[{"candidates":[{"content":{"parts":[{"text":"Hel"}]}}],"usageMetadata":{"promptTokenCount":7,"totalTokenCount":7}},
		{"candidates":[{"content":{"parts":[{"text":"lo"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":2,"thoughtsTokenCount":30,"totalTokenCount":39}}]`
	r := newRigWith(t, google.Name, fixed(200, "application/json", body), nil)
	r.do(http.MethodPost, "/v1beta/models/m:streamGenerateContent", askBody(google.Name, "go"))
	report := r.session.Seal()
	if kept := r.kept(); len(kept) != 1 || kept[0].Answer.Message.Text() != "Hello" || report.Usage.Total() != 39 || report.Estimated != 0 || report.Contradictory != 0 {
		t.Errorf("%+v, turns %+v", report, kept)
	}
}

// TestUsageOfProviders checks the usage that is read from the objects of several providers.
func TestUsageOfProviders(t *testing.T) {
	sse := func(events ...string) string {
		var b strings.Builder
		for _, e := range events {
			b.WriteString("data: " + e + "\n\n")
		}
		return b.String()
	}
	const chatAnswer = `{"model":"grok","choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}],"usage":%s}`
	const responsesAnswer = `{"status":"completed","output":[{"type":"web_search_call","action":{"type":"search"}},{"type":"web_search_call","action":{"type":"open_page"}},{"type":"message","content":[{"type":"output_text","text":"hi"}]}],"usage":%s}`
	for name, one := range map[string]struct {
		api                       model.API
		body                      string
		input, output, searches   int64
		cached, written, hour     int64
		cost                      float64
		contradicts, apart, least bool
	}{
		"xAI counts reasoning outside of the completion": {
			api: chat.Name, body: fmt.Sprintf(chatAnswer, `{"prompt_tokens":32,"completion_tokens":45,"total_tokens":2007,"completion_tokens_details":{"reasoning_tokens":1930},"cost_in_usd_ticks":300000000}`),
			input: 32, output: 1975, cost: 0.03,
		},
		"OpenAI counts reasoning inside": {
			api: chat.Name, body: fmt.Sprintf(chatAnswer, `{"prompt_tokens":32,"completion_tokens":1975,"total_tokens":2007,"completion_tokens_details":{"reasoning_tokens":1930}}`),
			input: 32, output: 1975, cost: 2007,
		},
		"xAI's Responses": {
			api: responses.Name, body: fmt.Sprintf(responsesAnswer, `{"input_tokens":10,"output_tokens":5,"total_tokens":35,"output_tokens_details":{"reasoning_tokens":20},"cost_in_usd_ticks":50000000}`),
			input: 10, output: 25, searches: 1, cost: 0.005,
		},
		"a total that does not fit": {
			api: chat.Name, body: fmt.Sprintf(chatAnswer, `{"prompt_tokens":32,"completion_tokens":45,"total_tokens":900}`),
			input: 32, output: 45, cost: 77, contradicts: true,
		},
		"more reasoning than output": {
			api: chat.Name, body: fmt.Sprintf(chatAnswer, `{"prompt_tokens":32,"completion_tokens":45,"completion_tokens_details":{"reasoning_tokens":1930}}`),
			input: 32, output: 45, cost: 77, contradicts: true,
		},
		"OpenAI's searches have no price here": {
			api: responses.Name, body: fmt.Sprintf(responsesAnswer, `{"input_tokens":10,"output_tokens":5,"total_tokens":15}`),
			input: 10, output: 5, searches: 1, cost: 15, least: true,
		},
		"a message_delta without the cache": {
			api: anthropic.Name, input: 5895, output: 20, cached: 1000, written: 149, hour: 49, cost: 5915, body: sse(
				`{"type":"message_start","message":{"usage":{"input_tokens":4000,"cache_read_input_tokens":1000,"cache_creation_input_tokens":149,"cache_creation":{"ephemeral_1h_input_tokens":49},"output_tokens":1}}}`,
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":4746,"output_tokens":20}}`, `{"type":"message_stop"}`),
		},
		"a message_delta with the cache alone": {
			api: anthropic.Name, input: 120, output: 20, cached: 100, cost: 140, body: sse(
				`{"type":"message_start","message":{"usage":{"input_tokens":20,"cache_read_input_tokens":0,"output_tokens":1}}}`,
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"cache_read_input_tokens":100,"output_tokens":20}}`, `{"type":"message_stop"}`),
		},
		"compaction is billed apart from the message": {
			api: anthropic.Name, input: 203_000, output: 4500, cost: 207_500, body: sse(
				`{"type":"message_start","message":{"usage":{"input_tokens":23000,"output_tokens":1}}}`,
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":23000,"output_tokens":1000,"iterations":[{"type":"compaction","input_tokens":180000,"output_tokens":3500},{"type":"message","input_tokens":23000,"output_tokens":1000}]}}`,
				`{"type":"message_stop"}`),
		},
		"an adviser has another price": {
			api: anthropic.Name, body: `{"content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":5,"iterations":[{"type":"message","input_tokens":10,"output_tokens":5},{"type":"advisor_message","model":"dearer","input_tokens":7,"output_tokens":3}]}}`,
			input: 17, output: 8, cost: 25, apart: true, least: true,
		},
		"Anthropic's searches have no price here": {
			api: anthropic.Name, body: `{"content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":5,"server_tool_use":{"web_search_requests":2,"web_fetch_requests":1}}}`,
			input: 10, output: 5, searches: 2, cost: 15, least: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			kind := "application/json"
			if strings.HasPrefix(one.body, "data:") {
				kind = "text/event-stream"
			}
			r := newRigWith(t, one.api, fixed(200, kind, one.body), func(c *gateway.Config, _ *gateway.Options) {
				c.Cost = func(_ string, _ time.Time, u model.Usage) *float64 {
					if u.CostUSD != nil {
						return u.CostUSD
					}
					return new(float64(u.Total()))
				}
			})
			r.turn(one.api, "go")
			report := r.session.Seal()
			u := report.Usage
			n := func(p *int64) int64 {
				if p == nil {
					return 0
				}
				return *p
			}
			if n(u.Input) != one.input || n(u.Output) != one.output || n(u.Searches) != one.searches || u.Estimated || u.Apart != one.apart {
				text, _ := json.Marshal(u)
				t.Errorf("the usage is %s", text)
			}
			if n(u.Cached) != one.cached || n(u.CacheWrite) != one.written || n(u.CacheWriteHour) != one.hour {
				t.Errorf("caches: %d read, %d written, %d for an hour", n(u.Cached), n(u.CacheWrite), n(u.CacheWriteHour))
			}
			if report.Cost == nil || *report.Cost < one.cost-1e-9 || *report.Cost > one.cost+1e-9 || (report.Unpriced == 1) != one.least || r.kept()[0].AtLeast != one.least {
				t.Errorf("cost %v, want %v; unpriced %d", *report.Cost, one.cost, report.Unpriced)
			}
			if (report.Contradictory == 1) != one.contradicts || (report.Contradiction != "") != one.contradicts {
				t.Errorf("contradictory %d: %q", report.Contradictory, report.Contradiction)
			}
		})
	}
}

func TestSeveralChoicesAreRecordedByIndex(t *testing.T) {
	stream := `data: {"choices":[{"index":1,"delta":{"content":"two "}}]}` + "\n\n" + `data: {"choices":[{"index":0,"delta":{"content":"one "}},{"index":2,"delta":{"content":"three"}}]}` + "\n\n" +
		`data: {"choices":[{"index":1,"delta":{"content":"zwei"},"finish_reason":"length"}]}` + "\n\n" + `data: {"choices":[{"index":0,"delta":{"content":"eins"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	plain := `{"choices":[{"index":2,"message":{"content":"three"}},{"index":1,"message":{"content":"two zwei"},"finish_reason":"length"},{"index":0,"message":{"content":"one eins"},"finish_reason":"stop"}]}`
	for kind, body := range map[string]string{"text/event-stream": stream, "application/json": plain} {
		r := newRigWith(t, chat.Name, fixed(200, kind, body), nil)
		r.turn(chat.Name, "go")
		a := r.kept()[0].Answer
		if a.Message.Text() != "one eins" || len(a.Choices) != 2 || a.Choices[0].Text() != "two zwei" || a.Choices[1].Text() != "three" || a.Finish != "stop" {
			t.Errorf("%s: %+v", kind, a)
		}
		var line strings.Builder
		if err := model.NewRecorder(&line, 1<<20).Record(r.kept()[0]); err != nil || !strings.Contains(line.String(), `"choices":[`) || !strings.Contains(line.String(), "two zwei") {
			t.Errorf("%v, %s", err, line.String())
		}
	}
}

// At most one turn exceeds a budget, however many run at the same time.
func TestParallelTurnsPassABudgetByOneTurn(t *testing.T) {
	for stop, budget := range map[model.Stop]model.Budget{
		model.StopTokens: {MaxTotalTokens: 10_000}, model.StopInput: {MaxInputTokens: 10_000}, model.StopCost: {MaxCostUSD: new(10_000.0)}, model.StopTurns: {MaxTurns: 10},
	} {
		for _, limit := range []string{`"max_tokens":100,`, ""} {
			t.Run(fmt.Sprint(stop, limit), func(t *testing.T) {
				var running, most atomic.Int64
				slow := transport(func(q *http.Request) (*http.Response, error) {
					for n := running.Add(1); ; {
						if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
							break
						}
					}
					defer running.Add(-1)
					time.Sleep(5 * time.Millisecond)
					return fixed(200, "application/json", `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":100}}`).RoundTrip(q)
				})
				r := newRigWith(t, chat.Name, slow, func(c *gateway.Config, o *gateway.Options) { c.Cost, o.Budget = perToken, budget })
				var wg sync.WaitGroup
				for range 40 {
					wg.Go(func() { r.do(http.MethodPost, "/v1/chat/completions", `{`+limit+`"model":"m","messages":[]}`) })
				}
				wg.Wait()
				report := r.session.Seal()
				if report.Stop != stop || report.Calls != 10 || report.Refused != 30 {
					t.Errorf("stop %q after %d calls with %d tokens, %d refused", report.Stop, report.Calls, report.Usage.Total(), report.Refused)
				}
				if limit != "" && most.Load() < 2 {
					t.Error("turns with a limit run one after the other")
				}
			})
		}
	}
}

// Sealing ends turns that wait for others.
func TestSealEndsTurnsThatWaitForABudget(t *testing.T) {
	began := make(chan struct{})
	hangs := transport(func(q *http.Request) (*http.Response, error) {
		close(began)
		<-q.Context().Done()
		return nil, q.Context().Err()
	})
	r := newRigWith(t, chat.Name, hangs, func(_ *gateway.Config, o *gateway.Options) { o.Budget.MaxTotalTokens = 1000 })
	var wg sync.WaitGroup
	wg.Go(func() { r.turn(chat.Name, "first") })
	<-began
	wg.Go(func() { r.turn(chat.Name, "second") })
	report := r.session.Seal()
	wg.Wait()
	if report.Calls != 1 || len(r.sent()) != 1 {
		t.Errorf("%+v", report)
	}
}

// fullPurse is a Purse whose money turns of other trials may use up.
type fullPurse struct {
	asked chan struct{}
	never chan struct{}
}

func (p fullPurse) Join() *meter.Place { return new(meter.Line).Join() }

func (p fullPurse) Reserve(*meter.Place, float64) (bool, <-chan struct{}) {
	close(p.asked)
	return false, p.never
}

func (fullPurse) Release(float64) {}

// A client that ends while its request waits for turns of other trials has not failed.
func TestWaitingForTurnsOfOtherTrialsIsNoFailureOfTheClient(t *testing.T) {
	purse := fullPurse{asked: make(chan struct{}), never: make(chan struct{})}
	r := newRigWith(t, chat.Name, transport(func(*http.Request) (*http.Response, error) { return nil, errors.New("sent") }),
		func(_ *gateway.Config, o *gateway.Options) { o.Purse = purse })
	var wg sync.WaitGroup
	wg.Go(func() { r.turn(chat.Name, "a question") })
	<-purse.asked
	report := r.session.Seal()
	wg.Wait()
	if f := report.Failure; f == nil || f.Kind != model.FailedLimit || report.Waiting <= 0 || len(r.sent()) != 0 {
		t.Errorf("%+v, failure %+v", report, f)
	}
}
