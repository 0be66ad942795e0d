package gateway_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api/chat"
	"github.com/org/rollout-action/internal/model/api/responses"
	"github.com/org/rollout-action/internal/model/gateway"
	"github.com/org/rollout-action/internal/model/scripted"
)

// provider is a server on the network that sends one stream.
type provider struct {
	kind, encoding string
	stream         string
	piece          func() int // the number of bytes to send at once; nil: all
}

func (p provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header()["Content-Type"] = nil // not one of Go's own
	if p.kind != "" {
		w.Header().Set("Content-Type", p.kind)
	}
	if p.encoding != "" {
		w.Header().Set("Content-Encoding", p.encoding)
	}
	for rest := p.stream; rest != ""; {
		n := len(rest)
		if p.piece != nil {
			n = min(n, p.piece())
		}
		_, _ = io.WriteString(w, rest[:n])
		_ = http.NewResponseController(w).Flush()
		rest = rest[n:]
	}
}

// through returns the bytes that a client gets from a provider through the gateway, and the rig.
func through(t *testing.T, api model.API, p provider) (got, *rig) {
	t.Helper()
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	r := newRigWith(t, api, nil, func(c *gateway.Config, o *gateway.Options) {
		c.BaseURL, c.Transport, o.KeepAlive = server.URL, nil, time.Hour // no sign of life is added on a busy machine
	})
	body := askBody(api, "go")
	if api == chat.Name { // the gateway adds nothing to the request, so nothing is hidden
		body = strings.Replace(body, "{", `{"stream_options":{"include_usage":true},`, 1)
	}
	return r.do(http.MethodPost, paths[api], body), r
}

// wholeStream returns a stream of an API.
func wholeStream(t *testing.T, api model.API) string {
	t.Helper()
	answer := scripted.Answer{Text: strings.Repeat("Some words. ", 20), Calls: []scripted.Call{{Name: "bash", Arguments: map[string]any{"command": "ls"}}}, Usage: scripted.Usage{Input: 100, Output: 30}}
	r := newRig(t, api, scripted.Script{Answers: []scripted.Answer{answer}}, nil)
	body := askBody(api, "go")
	if api == chat.Name {
		body = strings.Replace(body, "{", `{"stream_options":{"include_usage":true},`, 1)
	}
	return strings.ReplaceAll(r.do(http.MethodPost, paths[api], body).body, "\r\n", "\n")
}

// isWhole checks that the stream arrived unchanged and was recorded.
func isWhole(t *testing.T, what, stream string, answer got, r *rig) {
	t.Helper()
	if answer.err != nil || answer.status != http.StatusOK || answer.body != stream {
		t.Errorf("%s: %v: %d bytes of %d came: %.300q", what, answer.err, len(answer.body), len(stream), answer.body)
	}
	kept := r.kept()
	if len(kept) != 1 || !kept[0].Whole || kept[0].Failure != nil || kept[0].Answer.Usage.Output == nil || *kept[0].Answer.Usage.Output != 30 || !strings.HasPrefix(kept[0].Answer.Message.Text(), "Some words.") {
		t.Errorf("%s: recorded %+v", what, kept)
	}
}

// The network divides streams anywhere, also between the two bytes of a line's end.
func TestStreamsComeByteForByte(t *testing.T) {
	eachAPI(t, func(t *testing.T, api model.API) {
		lines := wholeStream(t, api)
		for name, stream := range map[string]string{"\\n": lines, "\\r\\n": strings.ReplaceAll(lines, "\n", "\r\n"), "\\r": strings.ReplaceAll(lines, "\n", "\r")} {
			for seed := range uint64(10) {
				random := rand.New(rand.NewPCG(seed, 7))
				answer, r := through(t, api, provider{kind: "text/event-stream", stream: stream, piece: func() int { return 1 + random.IntN(200) }})
				isWhole(t, fmt.Sprintf("%s, %d", name, seed), stream, answer, r)
			}
		}
		// Each end of a line is divided.
		stream := strings.ReplaceAll(lines, "\n", "\r\n")
		rest := stream
		answer, r := through(t, api, provider{kind: "text/event-stream", stream: stream, piece: func() int {
			n := strings.IndexByte(rest, '\r') + 1
			if n == 0 {
				n = len(rest)
			}
			rest = rest[n:]
			return n
		}})
		isWhole(t, "divided lines", stream, answer, r)
	})
}

func TestStreamsThatClientsTakeAllTheSame(t *testing.T) {
	eachAPI(t, func(t *testing.T, api model.API) {
		stream := wholeStream(t, api)
		for name, p := range map[string]provider{
			"another case of the type":   {kind: "Text/Event-Stream; Charset=utf-8", stream: stream},
			"no type":                    {stream: stream},
			"a type of texts":            {kind: "text/plain", stream: stream},
			"a mark of the byte order":   {kind: "text/event-stream", stream: "\uFEFF" + stream},
			"no blank line at the end":   {kind: "text/event-stream", stream: strings.TrimSuffix(stream, "\n")},
			"no end of the last line":    {kind: "text/event-stream", stream: strings.TrimRight(stream, "\n")},
			"events without data, an id": {kind: "text/event-stream", stream: "id: 7\nretry: 10\n\n" + stream},
		} {
			answer, r := through(t, api, p)
			isWhole(t, name, p.stream, answer, r)
		}
	})
}

// An event with a picture may be long. All of it is passed on, also if it is too long to be held.
func TestLongEventsArePassedOn(t *testing.T) {
	eachAPI(t, func(t *testing.T, api model.API) {
		long := "event: picture\ndata: {\"type\":\"picture\",\"data\":\"" + strings.Repeat("x", 20<<20) + "\"}\n\n"
		stream := long + wholeStream(t, api)
		answer, r := through(t, api, provider{kind: "text/event-stream", stream: stream})
		isWhole(t, "20 MiB", stream, answer, r)
	})
}

// The last event of a response repeats the whole response.
func TestALongResponseEnds(t *testing.T) {
	stream := wholeStream(t, responses.Name)
	at := strings.Index(stream, "event: response.completed\ndata: {") + len("event: response.completed\ndata: {")
	stream = stream[:at] + `"x":"` + strings.Repeat("x", 65<<20) + `",` + stream[at:]
	answer, r := through(t, responses.Name, provider{kind: "text/event-stream", stream: stream})
	if kept := r.kept(); answer.err != nil || answer.body != stream || len(kept) != 1 || !kept[0].Whole || kept[0].Answer.Finish != "completed" || !strings.HasPrefix(kept[0].Answer.Message.Text(), "Some words.") {
		t.Errorf("%v: %d of %d bytes", answer.err, len(answer.body), len(stream))
	}
}

// compressed returns a text in an encoding.
func compressed(t *testing.T, encoding, text string) string {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	var err error
	switch encoding {
	case "gzip":
		w = gzip.NewWriter(&out)
	case "br":
		w = brotli.NewWriter(&out)
	case "zstd":
		w, err = zstd.NewWriter(&out)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(w, text)
	w.Close()
	return out.String()
}

// Some servers compress answers although the gateway asks them not to.
func TestCompressedAnswersAreDecoded(t *testing.T) {
	eachAPI(t, func(t *testing.T, api model.API) {
		stream := wholeStream(t, api)
		for _, encoding := range []string{"gzip", "br", "zstd"} {
			answer, r := through(t, api, provider{kind: "text/event-stream", encoding: encoding, stream: compressed(t, encoding, stream)})
			isWhole(t, encoding, stream, answer, r)
			const refusal = `{"error":{"message":"no such thing"}}`
			r = newRigWith(t, api, fixed(http.StatusBadRequest, "application/json", compressed(t, encoding, refusal), "Content-Encoding", encoding), nil)
			if answer := r.turn(api, "go"); answer.body != refusal || answer.header.Get("Content-Encoding") != "" || r.session.Seal().Failure.Message != "no such thing" {
				t.Errorf("%s: %+v", encoding, answer)
			}
		}
	})
}

// An encoding that the gateway does not know may be known to the client.
func TestUnknownEncodingsArePassedOn(t *testing.T) {
	r := newRigWith(t, chat.Name, fixed(200, "text/event-stream", "\x01\x02\x03", "Content-Encoding", "dcb"), nil)
	if answer := r.turn(chat.Name, "go"); answer.err != nil || answer.body != "\x01\x02\x03" || answer.header.Get("Content-Encoding") != "dcb" {
		t.Errorf("%+v", answer)
	}
	if f := r.session.Seal().Failure; f == nil || !strings.Contains(f.Message, `the encoding "dcb"`) {
		t.Errorf("%+v", f)
	}
}

// The part of an answer before it broke off reaches the agent, as it would without a gateway, at
// any speed.
func TestWhatCameBeforeTheCutIsDelivered(t *testing.T) {
	eachAPI(t, func(t *testing.T, api model.API) {
		for range 20 {
			r := newRig(t, api, scripted.Script{Answers: []scripted.Answer{{Text: strings.Repeat("Some words. ", 50), Cut: true}}}, nil)
			answer := r.turn(api, "go")
			if answer.err == nil || strings.Count(answer.body, "Some") < 40 {
				t.Fatalf("%v: %q", answer.err, answer.body)
			}
		}
	})
}
