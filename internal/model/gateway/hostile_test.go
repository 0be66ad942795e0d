package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/org/rollout-action/internal/model/api/anthropic"
	"github.com/org/rollout-action/internal/model/api/chat"
	"github.com/org/rollout-action/internal/model/gateway"
	"github.com/org/rollout-action/internal/model/scripted"
)

// pipes is a listener whose connections are in memory, so that their times can be tested.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial connects, or returns nil if the listener takes no connection within a second.
func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours
	case <-time.After(time.Second):
		return nil
	}
}

// hostile runs a test against a session whose times are fake.
func hostile(t *testing.T, upstream http.RoundTripper, bound int, test func(t *testing.T, s *gateway.Session, p *pipes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m, err := gateway.New(gateway.Config{API: chat.Name, Upstream: "m", Transport: upstream, MaxConcurrent: bound})
		if err != nil {
			t.Fatal(err)
		}
		s, p := gateway.NewSession(gateway.Options{Model: m}), newPipes()
		served := make(chan struct{})
		go func() { s.Serve(p); close(served) }()
		test(t, s, p)
		s.Close()
		p.Close()
		<-served
	})
}

// lasts returns the duration of a connection on which only text is written.
func lasts(t *testing.T, c net.Conn, text string) time.Duration {
	t.Helper()
	began := time.Now()
	go func() { _, _ = io.WriteString(c, text) }()
	_, _ = io.Copy(io.Discard, c) // until the gateway closes it
	return time.Since(began)
}

func TestSlowClientsAreEnded(t *testing.T) {
	for name, one := range map[string]struct {
		text string // with the token for %
		most time.Duration
	}{
		"nothing":       {"", 2 * time.Minute},
		"half a header": {"POST /v1/chat/completions HTTP/1.1\r\nAuthor", 2 * time.Minute},
		"half a body":   {"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %\r\nContent-Length: 100\r\n\r\n{", 10 * time.Minute},
		"then idle":     {"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", 6 * time.Minute},
		"no token":      {"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			hostile(t, scripted.New(saying("ok")), 0, func(t *testing.T, s *gateway.Session, p *pipes) {
				c := p.dial()
				defer c.Close()
				if took := lasts(t, c, strings.ReplaceAll(one.text, "%", s.Token())); took > one.most {
					t.Errorf("the connection was there for %s", took)
				}
			})
		})
	}
}

// An answer may take any time, and so may the pauses of a client that has its whole answer.
func TestPatientClientsAreAnswered(t *testing.T) {
	slow := transport(func(q *http.Request) (*http.Response, error) {
		time.Sleep(30 * time.Minute)
		return scripted.New(saying("ok")).RoundTrip(q)
	})
	hostile(t, slow, 0, func(t *testing.T, s *gateway.Session, p *pipes) {
		client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return p.dial(), nil }}}
		defer client.CloseIdleConnections()
		for _, pause := range []time.Duration{0, time.Minute, 4 * time.Minute, time.Hour} {
			time.Sleep(pause)
			q, err := http.NewRequest(http.MethodPost, "http://gateway/v1/chat/completions", strings.NewReader(askBody(chat.Name, "go")))
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Authorization", "Bearer "+s.Token())
			q.Header.Set("Expect", "100-continue")
			answer, err := client.Do(q)
			if err != nil {
				t.Fatalf("after %s: %v", pause, err)
			}
			text, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err != nil || !strings.Contains(string(text), "[DONE]") {
				t.Errorf("after %s: %v, %q", pause, err, text)
			}
		}
	})
}

// A client that reads nothing of its answer occupies the only place in the queue, for which others
// wait.
func TestAClientThatTakesNothingIsEnded(t *testing.T) {
	long := saying(strings.Repeat("many words ", 20_000))
	hostile(t, scripted.New(long), 1, func(t *testing.T, s *gateway.Session, p *pipes) {
		c := p.dial()
		defer c.Close()
		body := askBody(chat.Name, "go")
		go func() {
			_, _ = io.WriteString(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+s.Token()+"\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
		}()
		synctest.Wait()
		if !s.Running() {
			t.Fatal("the turn does not run")
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if s.Running() {
			t.Error("the turn still runs")
		}
	})
}

// The end of a trial does not wait for a client that takes nothing.
func TestSealDoesNotWaitForClients(t *testing.T) {
	hostile(t, scripted.New(saying(strings.Repeat("many words ", 20_000))), 0, func(t *testing.T, s *gateway.Session, p *pipes) {
		c := p.dial()
		defer c.Close()
		body := askBody(chat.Name, "go")
		go func() {
			_, _ = io.WriteString(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+s.Token()+"\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
		}()
		synctest.Wait()
		began := time.Now()
		if r := s.Seal(); r.Calls != 1 || time.Since(began) > time.Second {
			t.Errorf("%+v after %s", r, time.Since(began))
		}
	})
}

func TestConnectionsAreBounded(t *testing.T) {
	hostile(t, scripted.New(saying("ok")), 0, func(t *testing.T, _ *gateway.Session, p *pipes) {
		var open []net.Conn
		for {
			c := p.dial()
			if c == nil {
				break
			}
			open = append(open, c)
			if len(open) > 10_000 {
				t.Fatal("there is no bound")
			}
		}
		if len(open) < 250 {
			t.Errorf("%d connections are too few", len(open))
		}
		open[0].Close()
		next := p.dial()
		if next == nil {
			t.Fatal("no connection after one has ended")
		}
		go func() { _, _ = io.WriteString(next, "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n") }()
		if line, err := bufio.NewReader(next).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Errorf("%q, %v", line, err)
		}
		for _, c := range append(open, next) {
			c.Close()
		}
	})
}

func TestBodiesAreBoundedTogether(t *testing.T) {
	answer := make(chan struct{})
	r := newRigWith(t, chat.Name, transport(func(q *http.Request) (*http.Response, error) {
		<-answer
		return scripted.New(saying("ok")).RoundTrip(q)
	}), nil)
	r.session.Hold(10_000)
	long := strings.Repeat("x", 6000)
	first := make(chan got)
	go func() { first <- r.turn(chat.Name, long) }()
	for !r.session.Running() {
		time.Sleep(time.Millisecond)
	}
	if second := r.turn(chat.Name, long); second.status != http.StatusServiceUnavailable || !strings.Contains(second.body, "requests_too_large") {
		t.Errorf("%+v", second)
	}
	close(answer)
	if one := <-first; one.status != http.StatusOK {
		t.Errorf("%+v", one)
	}
	if third := r.turn(chat.Name, long); third.status != http.StatusOK {
		t.Errorf("after the first: %+v", third)
	}
}

// An error blames the model's name only if it contains the name as a word.
func TestProbeNamesTheModel(t *testing.T) {
	for message, key := range map[string]string{
		"The model o1 does not exist": "model", "no such model: models/O1": "model", "too1ate": "", "something else is missing": "",
	} {
		m, err := gateway.New(gateway.Config{API: chat.Name, Upstream: "o1", Transport: fixed(http.StatusBadRequest, "application/json", `{"error":{"message":"`+message+`"}}`)})
		if err != nil {
			t.Fatal(err)
		}
		var failed *gateway.ProbeError
		if _, err := m.Probe(t.Context()); !errors.As(err, &failed) || failed.Key != key {
			t.Errorf("%q: %v, want the key %q", message, err, key)
		}
	}
}

// An error because of a key that is invalid in a header does not blame the URL.
func TestProbeBlamesKeysWithLineBreaks(t *testing.T) {
	for _, c := range []gateway.Config{{Key: secretKey + "\n"}, {Key: "a\x00b"}, {Headers: map[string]string{"X-Team": "evals\n"}}} {
		c.API, c.Upstream = chat.Name, "m"
		m, err := gateway.New(c)
		if err != nil {
			t.Fatal(err)
		}
		want := "api_key"
		if c.Key == "" {
			want = "headers.X-Team"
		}
		var failed *gateway.ProbeError
		if _, err := m.Probe(t.Context()); !errors.As(err, &failed) || failed.Key != want || strings.Contains(failed.Message, secretKey) {
			t.Errorf("%v, want the key %s", err, want)
		}
	}
}

// A probe does not wait for ever for a provider that accepts a request and does not answer.
func TestProbeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := gateway.New(gateway.Config{API: anthropic.Name, Upstream: "m", Key: secretKey, Transport: transport(func(q *http.Request) (*http.Response, error) {
			<-q.Context().Done()
			return nil, q.Context().Err()
		})})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err = m.Probe(ctx)
		if failed := (*gateway.ProbeError)(nil); !errors.As(err, &failed) || failed.Key != "base_url" || !strings.Contains(failed.Message, "api.anthropic.com did not answer in time") {
			t.Errorf("%v", err)
		}
	})
}
