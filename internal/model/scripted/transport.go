package scripted

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/model/rendering"
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
	p, action := api.Of(r.URL.Path)
	if action == "" {
		return answer(r, http.StatusNotFound, nil, encode(map[string]any{"error": map[string]any{"message": "no route " + r.URL.Path}})), nil
	}
	if action == model.ActionCount {
		return answer(r, http.StatusOK, nil, encode(map[string]any{"input_tokens": len(body)/4 + 1, "totalTokens": len(body)/4 + 1})), nil
	}
	conversation := p.Conversation(r.URL.Path, body)
	a, place, err := m.script.find(conversation)
	if err != nil {
		return failed(r, p, Error{Status: http.StatusBadRequest, Message: err.Error()}), nil //nolint:nilerr // a provider says what it cannot answer
	}
	if a.Delay > 0 {
		if err := sleep(r.Context(), time.Duration(a.Delay*float64(time.Second))); err != nil {
			return nil, err
		}
	}
	n := m.count("")
	streams := p.Streams(r.URL.Path, body)
	failing := a.Error != nil && (a.Error.Times == 0 || m.errorsOf(r, place) <= a.Error.Times)
	if failing && !(a.Error.InStream && streams) {
		return failed(r, p, *a.Error), nil
	}
	out, err := a.say(conversation, api.AskedModel(p, r.URL.Path, body), body, n)
	if err != nil {
		return failed(r, p, Error{Status: http.StatusBadRequest, Message: err.Error()}), nil //nolint:nilerr // a provider says what it cannot answer
	}
	if !streams {
		return answer(r, http.StatusOK, nil, p.Render(out)), nil
	}
	events := p.RenderStream(out)
	switch {
	case failing:
		events = p.RenderFailedStream(out, a.Error.rendered(p))
	case a.Empty:
		events = [][]byte{[]byte(": nothing\n\n")}
	}
	read, write := io.Pipe()
	go func() {
		for i, e := range events {
			if a.Cut && !failing && i == len(events)-1 {
				write.CloseWithError(io.ErrUnexpectedEOF)
				return
			}
			if i > 0 && sleep(r.Context(), time.Duration(a.Pace*float64(time.Second))) != nil {
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

// rendered returns the error as the provider states it.
func (e Error) rendered(p api.Protocol) rendering.Error {
	overflow := ""
	if e.Code != "" {
		overflow = p.Facts().Overflow
	}
	return rendering.Error{
		Status: e.Status, Message: cmp.Or(e.Message, overflow, strings.ToLower(http.StatusText(e.Status)), "error"), Overflow: e.Code != "",
	}
}

// failed returns an answer with an error of the provider.
func failed(r *http.Request, p api.Protocol, e Error) *http.Response {
	h := http.Header{}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	return answer(r, e.Status, h, p.RenderError(e.rendered(p)))
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

// encode returns v, which is made of maps, slices, texts and numbers, as JSON.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		return []byte("{}") // cannot happen
	}
	return text
}
