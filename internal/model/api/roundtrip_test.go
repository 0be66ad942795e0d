package api_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/model/rendering"
	"github.com/org/rollout-action/internal/model/sse"
)

// eachAPI runs a test for every API of the table.
func eachAPI(t *testing.T, test func(t *testing.T, p api.Protocol)) {
	for _, p := range api.All {
		t.Run(string(p.Facts().Name), func(t *testing.T) { test(t, p) })
	}
}

// readStream reads the events of a stream as the gateway does.
func readStream(t *testing.T, p api.Protocol, events [][]byte) (a model.Answer, whole bool) {
	t.Helper()
	reader, stream := p.Reader([]byte("{}")), sse.NewReader(bytes.NewReader(bytes.Join(events, nil)))
	for {
		e, err := stream.Next()
		if errors.Is(err, io.EOF) {
			return reader.Answer()
		}
		if err != nil {
			t.Fatal(err)
		}
		reader.Read(e)
	}
}

// text returns the texts of an answer's parts of a type.
func text(a model.Answer, kind model.PartType) string {
	var b strings.Builder
	for _, part := range a.Message.Parts {
		if part.Type == kind {
			b.WriteString(part.Text)
		}
	}
	return b.String()
}

// An answer that an API writes is the answer that it reads: as an object and as a stream, with text
// that is cut into pieces within words and characters.
func TestAnswersSurviveTheRoundTrip(t *testing.T) {
	said := rendering.Answer{
		Request: []byte(`{"stream_options":{"include_usage":true}}`), ID: "1", Model: "big-model",
		Text:  strings.Repeat("Grüße, \"世界\"\n", 20),
		Calls: []rendering.Call{{ID: "a1", Name: "read_file", Arguments: json.RawMessage(`{"path":"/app/ü.txt","lines":[1,2]}`)}},
		Usage: rendering.Usage{Input: 1000, Cached: 300, Output: 77},
	}
	check := func(t *testing.T, got model.Answer) {
		t.Helper()
		if text(got, model.PartText) != said.Text || got.Model != said.Model || got.Failed != "" || got.Finish == "" {
			t.Errorf("read %+v", got)
		}
		var calls []model.Part
		for _, part := range got.Message.Parts {
			if part.Type == model.PartCall {
				calls = append(calls, part)
			}
		}
		if len(calls) != 1 || calls[0].Name != "read_file" || string(calls[0].Arguments) != string(said.Calls[0].Arguments) {
			t.Errorf("the calls are %+v", calls)
		}
		if u := got.Usage; !u.Known() || u.Output == nil || *u.Output != 77 {
			t.Errorf("the usage is %+v", u)
		}
	}
	eachAPI(t, func(t *testing.T, p api.Protocol) {
		check(t, p.Answer(p.Render(said)))
		got, whole := readStream(t, p, p.RenderStream(said))
		if !whole {
			t.Error("the stream is not whole")
		}
		check(t, got)
	})
}

// A stream that breaks off, wherever that is, is an incomplete answer and never a panic; so is one
// that ends with an error, whose message is kept.
func TestBrokenStreamsAreIncomplete(t *testing.T) {
	said := rendering.Answer{ID: "1", Model: "m", Text: "some words of an answer that takes several events", Usage: rendering.Usage{Input: 1, Output: 1}}
	eachAPI(t, func(t *testing.T, p api.Protocol) {
		events := p.RenderStream(said)
		for n := range len(events) - 1 {
			if got, whole := readStream(t, p, events[:n]); whole && got.Finish == "" {
				t.Errorf("the first %d of %d events are a whole answer: %+v", n, len(events), got)
			}
		}
		got, whole := readStream(t, p, p.RenderFailedStream(said, rendering.Error{Status: 529, Message: "the model is overloaded"}))
		if whole && got.Failed == "" || !strings.Contains(got.Failed, "overloaded") {
			t.Errorf("a failed stream: whole is %v, %+v", whole, got)
		}
	})
}

// A server may answer with anything: a body that is not an answer of the API is read as an empty
// one.
func TestForeignAnswersAreEmpty(t *testing.T) {
	for _, body := range []string{"", "null", "[]", `"text"`, "{", "<html>", `{"content":7,"choices":{},"output":"x","candidates":null,"usage":"many"}`, `{"choices":[null],"content":[[]],"output":[1],"candidates":[{"content":{"parts":3}}]}`} {
		eachAPI(t, func(t *testing.T, p api.Protocol) {
			if got := p.Answer([]byte(body)); got.Usage.Known() || text(got, model.PartText) != "" {
				t.Errorf("%s is read as %+v", body, got)
			}
			if c := p.Conversation("/", []byte(body)); len(c.Tools) != 0 {
				t.Errorf("%s has the tools %+v", body, c.Tools)
			}
		})
	}
}

// Clients find the message of an error where the API has it.
func TestErrorsAreJSONWithTheMessage(t *testing.T) {
	eachAPI(t, func(t *testing.T, p api.Protocol) {
		for _, body := range [][]byte{
			p.Failure(429, "budget", `the "budget" is used up`),
			p.RenderError(rendering.Error{Status: 429, Message: `the "budget" is used up`}),
		} {
			var parsed struct{ Error struct{ Message string } }
			if err := json.Unmarshal(body, &parsed); err != nil || parsed.Error.Message != `the "budget" is used up` {
				t.Errorf("%s: %v", body, err)
			}
		}
	})
}
