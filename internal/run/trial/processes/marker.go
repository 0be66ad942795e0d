package processes

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// Marker is a process that begins before an agent's commands. Ending it by its context ends all
// processes that began after it, including those left by commands that have ended.
type Marker struct {
	cancel context.CancelFunc
	input  *io.PipeWriter
	done   chan struct{}
	err    error // of Exec; valid when done is closed
}

// markerGrace limits the wait for a marker to end by itself. A marker that a signal has stopped
// ends with the environment.
const markerGrace = 10 * time.Second

// Start starts a marker, and returns when it runs. It outlives limited, so that the command
// that is running then is ended first.
func Start(limited context.Context, env environment.Environment, opts environment.ExecOptions) (*Marker, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(limited))
	input, output := io.Pipe()
	ready := &firstWrite{came: make(chan struct{})}
	m := &Marker{cancel: cancel, input: output, done: make(chan struct{})}
	opts.Stdin, opts.Stdout = input, ready
	go func() {
		defer cancel()
		defer close(m.done)
		defer input.Close()
		_, m.err = env.Exec(ctx, "echo; read -r", opts)
	}()
	select {
	case <-ready.came:
		return m, nil
	case <-m.done:
		if m.err == nil {
			m.err = &environment.Error{Kind: environment.KindExec, Err: errors.New("bash in the environment ends without running the commands that it is given")}
		}
		return nil, m.err
	case <-limited.Done():
		if _, err := m.End(limited, true); err != nil {
			return nil, err
		}
		return nil, context.Cause(limited)
	}
}

// End ends the marker; if all is set, with all processes that began after it. unknown reports
// whether the marker had ended before, so that this could not be done. The end of ctx ends the wait
// for a marker that ends by itself.
func (m *Marker) End(ctx context.Context, all bool) (unknown bool, err error) {
	select {
	case <-m.done:
		return true, m.lost()
	default:
	}
	if all {
		m.cancel()
		<-m.done
		return false, m.lost()
	}
	m.input.Close()
	grace := time.NewTimer(markerGrace)
	defer grace.Stop()
	select {
	case <-m.done:
		return false, m.lost()
	case <-grace.C:
	case <-ctx.Done():
	}
	return false, nil
}

// lost returns the error of a marker whose environment was lost, or nil. The marker has ended.
func (m *Marker) lost() error {
	if environment.KindOf(m.err) == environment.KindLost {
		return m.err
	}
	return nil
}

// firstWrite is a writer that closes came at the first write.
type firstWrite struct {
	once sync.Once
	came chan struct{}
}

func (w *firstWrite) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.came) })
	return len(p), nil
}
