package podinit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/egress"
)

// reachTime bounds Reaches if its context does not.
const reachTime = 30 * time.Second

// Reaches reports whether a process of the environment can connect to a TCP address, host:port
// without names, within the time that ctx allows. It is no error if it cannot.
func (e *Environment) Reaches(ctx context.Context, address string) (bool, error) {
	within := reachTime
	if deadline, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(deadline))
	}
	// The guest answers when the time is over, which is not yet the end of the request.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), within+dialTime)
	defer cancel()
	answer, err := e.ask(limited, request{Op: opReach, Address: address, Within: within})
	if errors.Is(ctx.Err(), context.Canceled) {
		return false, ctx.Err()
	}
	return answer.Yes, e.failed(limited, environment.KindStart, "see what the container can reach", err)
}

// Connections says which connections processes of the environment have beyond its loopback device:
// those of TCP, those of UDP sockets with a remote address, and raw and packet sockets, whatever
// they are used for. The kernel does not list whom other UDP sockets exchange something with.
func (e *Environment) Connections(ctx context.Context) ([]string, error) {
	answer, err := e.ask(ctx, request{Op: opConnections})
	return answer.List, e.failed(ctx, environment.KindStart, "list the container's connections", err)
}

// SetProxy serves the proxy of an allowlist to commands, or stops that for other networks.
// Connections that the proxy carried end.
func (e *Environment) SetProxy(ctx context.Context, n environment.Network) error {
	policy, err := egress.Parse(n.Hosts)
	if err != nil {
		return &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("allowed_hosts: %w", err)}
	}
	listed := n.Mode == environment.NetworkAllowlist
	if listed {
		if err := e.startProxy(ctx); err != nil {
			return err
		}
	}
	e.mu.Lock()
	proxy := e.proxy
	e.mu.Unlock()
	if proxy == nil {
		return nil
	}
	proxy.Set(policy, func(r egress.Refusal) {
		if n.Refused != nil {
			n.Refused(environment.Refusal(r))
		}
	})
	e.mu.Lock()
	e.proxied = listed
	e.mu.Unlock()
	return nil
}

// startProxy serves the filtering proxy on the loopback device, unless it is served already.
func (e *Environment) startProxy(ctx context.Context) error {
	e.mu.Lock()
	proxy := e.proxy
	e.mu.Unlock()
	if proxy != nil {
		return nil
	}
	l, err := e.listen(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	proxy = egress.New()
	proxy.Dial = e.opts.Dial
	e.proxy, e.proxyVars = proxy, environment.ProxyVariables(l.at)
	go func() { _ = proxy.Serve(l) }() // ends when the proxy is closed
	return nil
}

// variables returns the environment variables that tell commands to use the proxy, or nil if it is
// not in use.
func (e *Environment) variables() map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.proxied {
		return nil
	}
	return e.proxyVars
}

// ListenLoopback implements environment.LoopbackListener.
func (e *Environment) ListenLoopback(ctx context.Context) (net.Listener, error) {
	l, err := e.listen(ctx)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (e *Environment) listen(ctx context.Context) (*listener, error) {
	const doing = "listen in the container"
	answer, err := e.ask(ctx, request{Op: opListen})
	if err != nil {
		return nil, e.failed(ctx, environment.KindStart, doing, err)
	}
	at, err := netip.ParseAddrPort(answer.Address)
	if err != nil {
		return nil, e.lost(doing, err)
	}
	l := &listener{e: e, at: at, incoming: make(chan net.Conn), closed: make(chan struct{}), conns: map[*counted]bool{}}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, &environment.Error{Kind: environment.KindLost, Err: fmt.Errorf("%s: %w", doing, errClosed)}
	}
	e.listeners[l.id()] = l
	return l, nil
}

// listener is a listener on the loopback device of an environment. Its connections end with it.
type listener struct {
	e        *Environment
	at       netip.AddrPort
	incoming chan net.Conn
	closed   chan struct{}

	mu    sync.Mutex
	conns map[*counted]bool
	ended bool
}

func (l *listener) id() int64 { return int64(l.at.Port()) }

// deliver hands a connection to Accept, and reports false if the listener was closed.
func (l *listener) deliver(stream *yamux.Stream) bool {
	conn := &counted{Stream: stream, l: l}
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return false
	}
	l.conns[conn] = true
	l.mu.Unlock()
	select {
	case l.incoming <- conn:
		return true
	case <-l.closed:
		return false
	}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.incoming:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-l.e.session.CloseChan():
		return nil, net.ErrClosed
	}
}

// Addr returns the address in the environment.
func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.at) }

// closeTime bounds telling the guest that a listener was closed.
const closeTime = time.Minute

// Close implements net.Listener.
func (l *listener) Close() error {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return net.ErrClosed
	}
	l.ended = true
	close(l.closed)
	conns := l.conns
	l.conns = map[*counted]bool{}
	l.mu.Unlock()
	for conn := range conns {
		reset(conn.Stream)
	}
	l.e.mu.Lock()
	delete(l.e.listeners, l.id())
	ended := l.e.closed
	l.e.mu.Unlock()
	if ended {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	_, err := l.e.ask(ctx, request{Op: opClose, ID: l.id()})
	if errors.As(err, new(*endedError)) {
		return nil
	}
	return err
}

// counted is a connection that its listener knows.
type counted struct {
	*yamux.Stream
	l *listener
}

// Close ends the connection in both directions.
func (c *counted) Close() error {
	c.l.mu.Lock()
	delete(c.l.conns, c)
	c.l.mu.Unlock()
	reset(c.Stream)
	return nil
}
