package testenv

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
)

// Relay forwards connections to a server until it is cut.
type Relay struct {
	net.Listener
	to string

	mu    sync.Mutex
	down  bool
	conns []net.Conn
}

// NewRelay returns a Relay to a server, on a port of the loopback interface that is closed after
// the test.
func NewRelay(t testing.TB, to string) *Relay {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{Listener: l, to: to}
	t.Cleanup(func() { l.Close(); r.Cut(true) })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go r.carry(conn)
		}
	}()
	return r
}

func (r *Relay) carry(conn net.Conn) {
	defer conn.Close()
	r.mu.Lock()
	down := r.down
	r.mu.Unlock()
	if down {
		return
	}
	server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", r.to)
	if err != nil {
		return
	}
	defer server.Close()
	r.mu.Lock()
	down = r.down // it may have been cut meanwhile
	if !down {
		r.conns = append(r.conns, conn, server)
	}
	r.mu.Unlock()
	if down {
		return
	}
	go func() { _, _ = io.Copy(server, conn); server.Close() }()
	_, _ = io.Copy(conn, server)
}

// Cut closes all connections and, if down is true, refuses new ones.
func (r *Relay) Cut(down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns, r.down = nil, down
}
