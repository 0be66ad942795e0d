package podinit

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// outages is a Dialer of a container whose network can be taken away.
type outages struct {
	*container
	mu   sync.Mutex
	away bool
	last io.Closer
}

func (o *outages) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.away {
		return nil, &environment.Error{Kind: environment.KindLost, Transient: true, Err: errors.New("the server is away")}
	}
	c, err := o.container.dial(ctx)
	o.last = c
	return c, err
}

// begin takes the network away for a time.
func (o *outages) begin(d time.Duration) {
	o.mu.Lock()
	o.away = true
	o.last.Close()
	o.mu.Unlock()
	time.AfterFunc(d, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.away = false
	})
}

func startWithOutages(t *testing.T) (*outages, *Environment) {
	t.Helper()
	o := &outages{container: startContainer(t)}
	e, err := Start(t.Context(), o.dial, Options{Explain: o.explain})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return o, e
}

// The limits of these tests: an outage is longer than a command may run.
const (
	outageLimit = 6 * time.Second
	outageTime  = 10 * time.Second
)

// begun is a writer that takes the network away when a command says something.
type begun struct{ sync.Once }

func (b *begun) writer(o *outages) io.Writer {
	return noted{func(p []byte) (int, error) { return len(p), nil }, func() { b.Do(func() { o.begin(outageTime) }) }}
}

func TestCommandThatEndsInTimeDuringAnOutageIsNotLate(t *testing.T) {
	t.Parallel()
	o, e := startWithOutages(t)
	var ran time.Duration
	began := time.Now()
	code, err := e.Exec(t.Context(), "echo; sleep 2; exit 7", environment.ExecOptions{Timeout: outageLimit, Stdout: new(begun).writer(o), Ran: &ran})
	if err != nil || code != 7 || ran < 2*time.Second || ran > outageLimit || time.Since(began) < outageTime {
		t.Errorf("code %d, %v, ran %v of %v", code, err, ran, time.Since(began))
	}
}

func TestCommandGetsNoTimeFromAnOutageInWhichItWorks(t *testing.T) {
	t.Parallel()
	o, e := startWithOutages(t)
	var ran time.Duration
	began := time.Now()
	_, err := e.Exec(t.Context(), "echo; sleep 1000 & sleep 1000", environment.ExecOptions{Timeout: outageLimit, Stdout: new(begun).writer(o), Ran: &ran})
	if !errors.Is(err, environment.ErrTimeout) || ran < outageLimit || ran > outageTime || time.Since(began) < outageTime {
		t.Errorf("%v, ran %v of %v", err, ran, time.Since(began))
	}
	if got := run(t, e, `for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline; echo; done | grep -c ^sleep || true`, environment.ExecOptions{}); got != "0\n" {
		t.Errorf("processes that live on: %s", got)
	}
}

func TestCommandThatWaitsForTheClientIsNotChargedForAnOutage(t *testing.T) {
	t.Parallel()
	o, e := startWithOutages(t)
	l, err := e.ListenLoopback(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		line := make([]byte, 4)
		if _, err := io.ReadFull(conn, line); err == nil {
			o.begin(outageTime)
			time.Sleep(outageTime / 2) // the answer has to wait for the network
			_, _ = conn.Write([]byte("pong\n"))
		}
	}()
	var ran time.Duration
	_, port, _ := net.SplitHostPort(l.Addr().String())
	began := time.Now()
	code, err := e.Exec(t.Context(), "exec 3<>/dev/tcp/127.0.0.1/"+port+"; echo ask >&3; read -r answer <&3; [ $answer = pong ]", environment.ExecOptions{Timeout: outageLimit, Ran: &ran})
	if err != nil || code != 0 || ran > outageLimit || time.Since(began) < outageTime {
		t.Errorf("code %d, %v, ran %v of %v", code, err, ran, time.Since(began))
	}
}
