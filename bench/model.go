package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api/chat"
	"github.com/org/rollout-action/internal/model/gateway"
	"github.com/org/rollout-action/internal/model/scripted"
	"github.com/org/rollout-action/providers/sandbox"
)

const (
	streams     = 200 // at the same time
	firstBytes  = 30  // requests of which one value is the median
	requestSize = 30_000
)

// askedBody is a request as long as the first requests of well-known agents.
var askedBody = `{"model":"any","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("word ", requestSize/5) + `"}]}`

// firstByteScript prints the microseconds from sending a request to the first event of its answer,
// for each of $2 requests to $1 with the key $3. It needs only bash. The request is in $4.
const firstByteScript = `body=$(<"$4")
for ((i = 0; i < $2; i++)); do
	exec 7<>"/dev/tcp/${1%%:*}/${1##*:}" || exit
	from=$EPOCHREALTIME
	printf 'POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s' "$3" "${#body}" "$body" >&7
	while read -r line <&7; do [[ $line == data:* ]] && break; done
	to=$EPOCHREALTIME
	[[ $line == data:* ]] || exit 9
	echo $((${to/./} - ${from/./}))
	cat <&7 >/dev/null
	exec 7>&-
done
`

// provider is a scripted model behind HTTP.
type provider struct {
	server *http.Server
	at     string
}

// serveModel serves a model that answers with words words. pace is the time between two events, in
// seconds.
func serveModel(ctx context.Context, words int, pace float64) (*provider, error) {
	script := scripted.Script{Answers: []scripted.Answer{{Text: strings.Repeat("word ", words), Pace: pace}}, Repeat: true}
	if err := script.Check(); err != nil {
		return nil, err
	}
	upstream := scripted.New(script)
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &provider{at: l.Addr().String(), server: &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := upstream.RoundTrip(r)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer answer.Body.Close()
		w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
		w.WriteHeader(answer.StatusCode)
		out := http.NewResponseController(w)
		buffer := make([]byte, 4<<10)
		for {
			n, err := answer.Body.Read(buffer)
			if n > 0 {
				_, _ = w.Write(buffer[:n])
				_ = out.Flush()
			}
			if err != nil {
				return
			}
		}
	})}}
	go func() { _ = p.server.Serve(l) }() // ends with Close
	return p, nil
}

func (p *provider) close() { p.server.Close() }

// gateway returns a session in front of the provider that records as a trial's does.
func (p *provider) gateway(dir string) (*gateway.Session, func(), error) {
	m, err := gateway.New(gateway.Config{Name: "m", API: chat.Name, Upstream: "big", Key: "sk-key-of-the-bench", BaseURL: "http://" + p.at})
	if err != nil {
		return nil, nil, err
	}
	file, err := os.CreateTemp(dir, "trajectory-")
	if err != nil {
		return nil, nil, err
	}
	s := gateway.NewSession(gateway.Options{Model: m, Conversations: true, Keep: model.NewRecorder(file, 1<<40).Record})
	return s, func() { s.Close(); m.Close(); file.Close() }, nil
}

// model measures the gateway to models.
func (b *bench) model(ctx context.Context) error {
	p, err := serveModel(ctx, 20, 0)
	if err != nil {
		return err
	}
	defer p.close()
	dir := filepath.Join(b.dir, "model")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	direct, err := writeRequest(dir)
	if err != nil {
		return err
	}
	floor := func(ctx context.Context) (float64, error) {
		out, err := commandOutput(ctx, "bash", "-c", firstByteScript, "bash", p.at, strconv.Itoa(firstBytes), "any", direct)
		if err != nil {
			return 0, err
		}
		return medianOf(out)
	}
	for _, place := range []struct {
		name string
		open func() (*stage, error)
	}{
		{"model.sandbox", func() (*stage, error) { return b.inSandboxes(ctx, dir, "", sandbox.Options{}) }},
		{"model.docker", func() (*stage, error) { return b.onDocker(ctx, filepath.Join(dir, "docker")) }},
	} {
		err := b.door(ctx, place.name, place.open, p, dir, floor)
		if err := b.unlessMissing(place.name, err); err != nil {
			return err
		}
	}
	through, straight := b.inChild("model", "streams"), b.inChild("model", "streams-direct")
	if err := b.measure(ctx, measuring{"model.streams", perSecond(streams, through), perSecond(streams, straight)}); err != nil {
		return err
	}
	var each []float64
	for i, peak := range b.peaks["streams"] {
		each = append(each, (peak-b.peaks["streams-direct"][i])/streams)
	}
	b.add("model.memory", each)
	var held []float64
	for range 3 {
		megabytes, err := heldByRecord(ctx, dir)
		if err != nil {
			return err
		}
		held = append(held, megabytes)
	}
	b.add("model.record", held)
	var waiting, recording []float64
	for range 3 {
		turn, err := heldByTurn(ctx, dir)
		if err != nil {
			return err
		}
		waiting, recording = append(waiting, turn.waiting), append(recording, turn.recording)
	}
	b.add("model.waiting", waiting)
	b.add("model.recording", recording)
	return nil
}

// heldTurn is the heap used during a turn, in megabytes: the maximum while the gateway waits for
// the model and passes on its answer, and the value when the turn is about to be recorded.
type heldTurn struct{ waiting, recording float64 }

// The request of an agent in heldByTurn: a conversation of 20 MB, repeated.
const (
	sentMessages = 200
	sentMessage  = 100_000
)

// heldByTurn sends a long conversation twice and measures the second turn, in which only the last
// message is new.
func heldByTurn(ctx context.Context, dir string) (held heldTurn, err error) {
	var before float64
	var mu sync.Mutex
	measure := func(most *float64) {
		mu.Lock()
		defer mu.Unlock()
		*most = max(*most, (heap()-before)/1e6)
	}
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
		measure(&held.waiting)
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range 3 {
			fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word %d\"}}]}\n\n", n)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(20 * time.Millisecond) // until the gateway has passed it on
			measure(&held.waiting)
		}
		fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	defer provider.Close()
	m, err := gateway.New(gateway.Config{Name: "m", API: chat.Name, Upstream: "big", Key: "sk-key-of-the-bench", BaseURL: provider.URL})
	if err != nil {
		return held, err
	}
	defer m.Close()
	file, err := os.CreateTemp(dir, "record-")
	if err != nil {
		return held, err
	}
	defer file.Close()
	record := model.NewRecorder(file, 1<<40).Record
	s := gateway.NewSession(gateway.Options{Model: m, Conversations: true, Keep: func(t model.Turn) error {
		measure(&held.recording)
		return record(t)
	}})
	defer s.Close()
	client := &http.Client{Transport: s.Transport()}
	defer client.CloseIdleConnections()
	for n := range 2 {
		mu.Lock()
		held, before = heldTurn{}, heap()
		mu.Unlock()
		length, body := conversation(sentMessages + n)
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://model.invalid/v1/chat/completions", body)
		if err != nil {
			return held, err
		}
		q.ContentLength = length
		answer, err := client.Do(q)
		if err != nil {
			return held, err
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err == nil && (answer.StatusCode != http.StatusOK || !strings.Contains(string(text), "[DONE]") || length < sentMessages*sentMessage) {
			err = fmt.Errorf("turn %d of %d bytes: status %d, %d bytes", n, length, answer.StatusCode, len(text))
		}
		if err != nil {
			return held, err
		}
	}
	mu.Lock()
	defer mu.Unlock()
	return held, nil
}

// conversation returns a request with so many messages, without holding all of it in memory.
func conversation(messages int) (length int64, body io.Reader) {
	words := strings.Repeat("word\\n", sentMessage/6)
	parts := []io.Reader{strings.NewReader(`{"model":"any","stream":true,"messages":[{"role":"system","content":"s"}`)}
	for n := range messages {
		parts = append(parts, strings.NewReader(fmt.Sprintf(`,{"role":"user","content":"%d `, n)), strings.NewReader(words), strings.NewReader(`"}`))
	}
	parts = append(parts, strings.NewReader("]}"))
	for _, p := range parts {
		if text, ok := p.(*strings.Reader); ok {
			length += text.Size()
		}
	}
	return length, io.MultiReader(parts...)
}

// The messages of the agent in heldByRecord.
const (
	recordedTurns   = 500
	recordedMessage = 100_000 // bytes of each; requests repeat the one before
)

// heldByRecord records a conversation of 50 MB, and returns the heap in use between its turns at
// the end, in megabytes.
func heldByRecord(ctx context.Context, dir string) (float64, error) {
	script := scripted.Script{Answers: []scripted.Answer{{Text: "Go on."}}, Repeat: true}
	if err := script.Check(); err != nil {
		return 0, err
	}
	m, err := gateway.New(gateway.Config{Name: "m", API: chat.Name, Upstream: "big", Transport: scripted.New(script)})
	if err != nil {
		return 0, err
	}
	defer m.Close()
	file, err := os.CreateTemp(dir, "record-")
	if err != nil {
		return 0, err
	}
	defer file.Close()
	before := heap()
	s := gateway.NewSession(gateway.Options{Model: m, Conversations: true, Keep: model.NewRecorder(file, 1<<40).Record})
	defer s.Close()
	client := &http.Client{Transport: s.Transport()}
	message := func(n int) string {
		return fmt.Sprintf(`{"role":"user","content":"%d %s"}`, n, strings.Repeat("word ", recordedMessage/5))
	}
	for n := range recordedTurns {
		body := `{"model":"any","stream":true,"messages":[{"role":"system","content":"s"},` + message(n) + "," + message(n+1) + "]}"
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://model.invalid/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			return 0, err
		}
		answer, err := client.Do(q)
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("turn %d: status %d", n, answer.StatusCode)
		}
		if err != nil {
			return 0, err
		}
	}
	after := heap()
	info, err := file.Stat()
	if err == nil && info.Size() < recordedTurns*recordedMessage {
		err = fmt.Errorf("the record has only %d bytes", info.Size())
	}
	return (after - before) / 1e6, err
}

// heap returns the heap in use, in bytes.
func heap() float64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // frees objects with finalizers and those in pools
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

// door measures the first byte through the gateway of an environment.
func (b *bench) door(ctx context.Context, name string, open func() (*stage, error), p *provider, dir string, floor measured) (err error) {
	s, err := open()
	if err != nil {
		return err
	}
	defer s.provider.Close()
	env, err := s.create(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Destroy(context.WithoutCancel(ctx))) }()
	listener, err := environment.ListenLoopback(ctx, env)
	if err != nil {
		return err
	}
	defer listener.Close()
	session, end, err := p.gateway(dir)
	if err != nil {
		return err
	}
	defer end()
	go session.Serve(listener)
	script := fmt.Sprintf("cat >/tmp/body && bash -c '%s' bash %s %d %s /tmp/body", strings.ReplaceAll(firstByteScript, "'", `'\''`), listener.Addr(), firstBytes, session.Token())
	ours := func(ctx context.Context) (float64, error) {
		var out strings.Builder
		code, err := env.Exec(ctx, script, environment.ExecOptions{Stdin: strings.NewReader(askedBody), Stdout: &out, Stderr: io.Discard})
		if err == nil && code != 0 {
			err = fmt.Errorf("the client ended with %d", code)
		}
		if err != nil {
			return 0, err
		}
		return medianOf(out.String())
	}
	return b.measure(ctx, measuring{name, ours, floor})
}

func writeRequest(dir string) (string, error) {
	path := filepath.Join(dir, "request.json")
	return path, os.WriteFile(path, []byte(askedBody), 0o644)
}

// medianOf parses lines of microseconds and returns their median in milliseconds.
func medianOf(text string) (float64, error) {
	var values []float64
	for line := range strings.Lines(text) {
		us, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
		if err != nil {
			return 0, err
		}
		values = append(values, us/1000)
	}
	if len(values) != firstBytes {
		return 0, fmt.Errorf("%d of %d requests were answered", len(values), firstBytes)
	}
	slices.Sort(values)
	return values[len(values)/2], nil
}

// runStreams returns the work of a child: to read many paced streams concurrently, through a
// gateway or directly, and measure the duration.
func runStreams(through bool) func(context.Context, *bench) ([]float64, error) {
	return func(ctx context.Context, b *bench) ([]float64, error) {
		p, err := serveModel(ctx, 800, 0.02) // about four seconds
		if err != nil {
			return nil, err
		}
		defer p.close()
		at, key := p.at, "any"
		if through {
			if err := os.MkdirAll(b.dir, 0o755); err != nil {
				return nil, err
			}
			session, end, err := p.gateway(b.dir)
			if err != nil {
				return nil, err
			}
			defer end()
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
			if err != nil {
				return nil, err
			}
			defer l.Close()
			go session.Serve(l)
			at, key = l.Addr().String(), session.Token()
		}
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: streams}}
		defer client.CloseIdleConnections()
		took := timed(func(ctx context.Context) error {
			return each(ctx, streams, streams, func(ctx context.Context, _ int) error {
				q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+at+"/v1/chat/completions", strings.NewReader(askedBody))
				if err != nil {
					return err
				}
				q.Header.Set("Authorization", "Bearer "+key)
				answer, err := client.Do(q)
				if err != nil {
					return err
				}
				defer answer.Body.Close()
				text, err := io.ReadAll(answer.Body)
				if err == nil && (answer.StatusCode != http.StatusOK || !strings.Contains(string(text[max(0, len(text)-100):]), "[DONE]")) {
					err = fmt.Errorf("status %d, %d bytes", answer.StatusCode, len(text))
				}
				return err
			})
		})
		ms, err := took(ctx)
		return []float64{ms}, err
	}
}

func commandOutput(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if errors.Is(err, exec.ErrNotFound) {
		err = fmt.Errorf("%w: %w", errUnmeasurable, err)
	}
	return string(out), err
}
