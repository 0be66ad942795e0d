package scripted

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/model"
)

// Model is an upstream that answers by a script, to be used as the Transport of a model. It is safe
// for concurrent use.
type Model struct {
	script Script

	mu     sync.Mutex
	counts map[string]int // of answers by "", and by the places of errors for requests that are of no trial
}

// New returns a model that answers by a script, which must be checked.
func New(s Script) *Model { return &Model{script: s, counts: map[string]int{}} }

// RoundTrip implements http.RoundTripper.
func (m *Model) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	api, action := model.APIOf(r.URL.Path)
	if action == "" {
		return answer(r, http.StatusNotFound, nil, encode(map[string]any{"error": map[string]any{"message": "no route " + r.URL.Path}})), nil
	}
	if action == model.ActionCount {
		return answer(r, http.StatusOK, nil, encode(map[string]any{"input_tokens": len(body)/4 + 1, "totalTokens": len(body)/4 + 1})), nil
	}
	conversation := model.ReadConversation(api, r.URL.Path, body)
	a, place, err := m.script.find(conversation)
	if err != nil {
		return m.failed(r, api, Error{Status: http.StatusBadRequest, Message: err.Error()}), nil //nolint:nilerr // a provider says what it cannot answer
	}
	if a.Delay > 0 {
		if err := sleep(r.Context(), time.Duration(a.Delay*float64(time.Second))); err != nil {
			return nil, err
		}
	}
	n := m.count("")
	streams := model.AsksForStream(api, r.URL.Path, body)
	failing := a.Error != nil && (a.Error.Times == 0 || m.errorsOf(r, place) <= a.Error.Times)
	if failing && !(a.Error.InStream && streams) {
		return m.failed(r, api, *a.Error), nil
	}
	out, err := a.say(conversation, model.AskedModel(api, r.URL.Path, body), len(body), n)
	if err != nil {
		return m.failed(r, api, Error{Status: http.StatusBadRequest, Message: err.Error()}), nil //nolint:nilerr // a provider says what it cannot answer
	}
	if api == model.OpenAIChat {
		out.ids = tokenIDsOf(body, conversation, out)
	}
	if !streams {
		return answer(r, http.StatusOK, nil, out.plain(api)), nil
	}
	events := out.events(api, wantsUsage(body))
	switch {
	case failing:
		events = out.failedEvents(api, *a.Error)
	case a.Empty:
		events = [][]byte{[]byte(": nothing\n\n")}
	}
	read, write := io.Pipe()
	go func() {
		for i, e := range events {
			if out.cut && !failing && i == len(events)-1 {
				write.CloseWithError(io.ErrUnexpectedEOF)
				return
			}
			if i > 0 && sleep(r.Context(), out.pace) != nil {
				write.CloseWithError(r.Context().Err())
				return
			}
			if _, err := write.Write(e); err != nil {
				return
			}
		}
		write.Close()
	}()
	response := answer(r, http.StatusOK, http.Header{"Content-Type": {"text/event-stream"}}, nil)
	response.Body, response.ContentLength = read, -1
	return response, nil
}

// count increments the count of a text and returns it.
func (m *Model) count(text string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[text]++
	return m.counts[text]
}

// errorsOf returns how often the trial of a request has reached a place of the script with an
// error, including this time.
func (m *Model) errorsOf(r *http.Request, place string) int {
	if c := model.CallerOf(r.Context()); c != nil {
		return c.Count(place)
	}
	return m.count(place)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failed returns an answer with an error of the provider.
func (m *Model) failed(r *http.Request, api model.API, e Error) *http.Response {
	h := http.Header{}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	return answer(r, e.Status, h, e.body(api))
}

func answer(r *http.Request, status int, h http.Header, body []byte) *http.Response {
	if h == nil {
		h = http.Header{}
	}
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	return &http.Response{
		StatusCode: status, Status: strconv.Itoa(status) + " " + http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}

func wantsUsage(body []byte) bool {
	var asked struct {
		Options struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	_ = json.Unmarshal(body, &asked) // a body of another form asks for none
	return asked.Options.Usage
}

// encode returns v, which is made of maps, slices, texts and numbers, as JSON.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		return []byte("{}") // cannot happen
	}
	return text
}
