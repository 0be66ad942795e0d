package environmenttest

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// brokenLoopback is a brokenEnv that implements ListenLoopback.
type brokenLoopback struct{ *brokenEnv }

func (b *brokenLoopback) ListenLoopback(ctx context.Context) (net.Listener, error) {
	return b.m.listen(b.brokenEnv, ctx)
}

// changeListener returns hooks that change listeners in environments.
func changeListener(change func(net.Listener) net.Listener) hooks {
	return hooks{patience: 20 * time.Second, listen: func(e *brokenEnv, ctx context.Context) (net.Listener, error) {
		l, err := environment.ListenLoopback(ctx, e.Environment)
		if err != nil {
			return nil, err
		}
		return change(l), nil
	}}
}

type openListener struct{ net.Listener }

func (openListener) Close() error { return nil }

type shortListener struct{ net.Listener }

func (l shortListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return shortConn{conn, io.LimitReader(conn, 1<<20)}, nil
}

type shortConn struct {
	net.Conn
	from io.Reader
}

func (c shortConn) Read(b []byte) (int, error) { return c.from.Read(b) }

var loopbackMutants = []broken{
	{"listens on the machine", []string{"what connects to a listener *", "a listener on loopback outlives *", "a listener on loopback opens *", "a listener on loopback ends *"},
		hooks{patience: 5 * time.Second, listen: func(*brokenEnv, context.Context) (net.Listener, error) {
			return net.Listen("tcp", "127.0.0.1:0")
		}}},
	{"goes on listening", []string{"listeners on loopback are separate, *"}, changeListener(func(l net.Listener) net.Listener { return openListener{l} })},
	{"passes on the beginning only", []string{"a listener on loopback passes on much, *"}, changeListener(func(l net.Listener) net.Listener { return shortListener{l} })},
}
