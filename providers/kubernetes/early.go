package kubernetes

import (
	"context"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/org/rollout-action/internal/lib/awake"
)

// A kubelet checks for changes about once a second. When the last init container has ended, it
// reports that, starts the main container at once, and reports a second later that it runs. This
// wait would be half of a short trial, so the guest is dialed before the report.

// earlyPauses are the times before the attempts. A node as a rule starts the container within the
// first; it may take minutes to pull the image.
var earlyPauses = []time.Duration{150 * time.Millisecond, 150 * time.Millisecond, 300 * time.Millisecond}

// early is a connection to a guest whose node does not report it as running yet.
type early struct {
	mu   sync.Mutex
	conn io.ReadWriteCloser
}

// take returns the connection to its first caller; nil to others, or if there is none.
func (e *early) take() io.ReadWriteCloser {
	e.mu.Lock()
	defer e.mu.Unlock()
	conn := e.conn
	e.conn = nil
	return conn
}

// drop ends the connection if nothing has taken it.
func (e *early) drop() {
	if conn := e.take(); conn != nil {
		_ = conn.Close()
	}
}

// dial tries to connect, and reports whether it did. Why it did not does not matter: the container
// may not be there yet.
func (e *early) dial(ctx context.Context, connect func(context.Context) (io.ReadWriteCloser, error)) bool {
	for _, pause := range earlyPauses {
		if !awake.Sleep(ctx, pause) {
			return false
		}
		if conn, err := connect(ctx); err == nil {
			e.mu.Lock()
			e.conn = conn
			e.mu.Unlock()
			return true
		}
	}
	return false
}

// begin dials in the background. The channel gets true when there is a connection. end ends the
// attempts and waits for their end.
func (e *early) begin(ctx context.Context, connect func(context.Context) (io.ReadWriteCloser, error)) (reached <-chan bool, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	connected, over := make(chan bool, 1), make(chan struct{})
	go func() {
		defer close(over)
		if e.dial(ctx, connect) {
			connected <- true
		}
	}()
	return connected, func() { cancel(); <-over }
}

// aboutToRun reports whether a node starts the main container of a pod now: all init containers
// have succeeded.
func aboutToRun(pod *corev1.Pod) bool {
	for _, c := range pod.Status.InitContainerStatuses {
		if t := c.State.Terminated; t == nil || t.ExitCode != 0 {
			return false
		}
	}
	return len(pod.Status.InitContainerStatuses) > 0 // a kubelet lists all of them from the beginning
}
