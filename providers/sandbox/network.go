//go:build linux

package sandbox

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/org/rollout-action/providers/internal/initclient"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/egress"
	"github.com/org/rollout-action/providers/internal/initwire"
	"github.com/org/rollout-action/providers/sandbox/internal/usernet"
)

// defaultDevice is the network device of every sandbox whose network is public. The addresses are
// reserved for networks that end on the host itself (RFC 7335, RFC 4193), so they hide no address
// of the internet.
var defaultDevice = initwire.Device{
	Name: "eth0", MTU: 1500,
	Addrs: []initwire.Address{
		{Own: netip.MustParseAddr("192.0.0.2"), Gateway: nameServer},
		{Own: netip.MustParseAddr("fd72:6f6c:6c6f:7574::2"), Gateway: netip.MustParseAddr("fd72:6f6c:6c6f:7574::1")},
	},
}

// nameServer is the address of the name server in sandboxes.
var nameServer = netip.MustParseAddr("192.0.0.1")

// networking is the current network of a sandbox. If it is public, the sandbox has a device that
// leads to a stack in this process. With an allowlist, a proxy of this process listens on the
// sandbox's loopback device.
type networking struct {
	mu           sync.Mutex
	device       *usernet.Net  // nil if there is no device
	proxy        *egress.Proxy // nil until it is needed
	proxyAddr    netip.AddrPort
	throughProxy bool // commands get the variables of the proxy
	listeners    []*loopback
	closed       bool
}

// shares reports whether sandboxes use the machine's network.
func (p *Provider) shares() bool { return p.config.network == networkHost }

// checkNetwork returns an error if the configuration cannot enforce a network.
func (p *Provider) checkNetwork(n environment.Network) error {
	refused := func(hint, format string, args ...any) error {
		return &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf(format, args...), Hint: hint}
	}
	switch {
	case p.shares() && !n.Public():
		return refused("remove network from provider_config, or set environment.network: public",
			"the network must be %s, but environment.provider_config.network is host, which cannot be restricted", n.Mode)
	case p.config.network == networkNone && n.Mode == environment.NetworkAllowlist:
		return refused("remove network from provider_config", "environment.provider_config.network is none, so no host can be allowed")
	}
	if _, err := egress.Parse(n.Hosts); err != nil {
		return refused("", "allowed_hosts: %w", err)
	}
	return nil
}

// SetNetwork implements environment.NetworkSetter.
func (e *sandboxEnv) SetNetwork(ctx context.Context, n environment.Network) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.p.checkNetwork(n); err != nil {
		return err
	}
	if !e.process.Running() {
		return e.lost("set the sandbox's network")
	}
	policy, err := egress.Parse(n.Hosts)
	if err != nil {
		return &environment.Error{Kind: environment.KindStart, Err: err}
	}
	open := n.Mode == environment.NetworkAllowlist
	switch public := n.Public() && e.p.config.network == networkOwn; {
	case public:
		err = e.network.attach(ctx, e.process, e.p.usernet())
	case !e.p.shares():
		err = e.network.detach(ctx, e.process)
	}
	if err == nil && open {
		err = e.startProxy(ctx)
	}
	if err != nil {
		return e.requestFailed(ctx, environment.KindStart, "make the sandbox's network "+string(n.Mode), err)
	}
	e.network.set(policy, open, n.Refused)
	return nil
}

// usernet returns the options of the networks of sandboxes.
func (p *Provider) usernet() usernet.Options {
	d := defaultDevice
	d.Frames = p.frames
	return usernet.Options{Device: d, Dial: p.opts.Dial, Servers: p.opts.NameServers}
}

// attach gives a sandbox a device with access to the outside, unless it has one.
func (n *networking) attach(ctx context.Context, b *sandboxProcess, opts usernet.Options) error {
	n.mu.Lock()
	has := n.device != nil
	n.mu.Unlock()
	if has {
		return nil
	}
	end, answer, err := b.CallForFile(ctx, initwire.Request{Op: initwire.Attach, Device: &opts.Device})
	if err != nil {
		return err
	}
	opts.Frames = answer.Frames
	public, err := usernet.New(end, opts)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		public.Close()
		return initclient.ErrGone
	}
	n.device = public
	return nil
}

// detach removes the device, which ends all its connections.
func (n *networking) detach(ctx context.Context, b *sandboxProcess) error {
	n.mu.Lock()
	public := n.device
	n.device = nil
	n.mu.Unlock()
	if public == nil {
		return nil
	}
	public.Close()
	_, err := b.Call(ctx, initwire.Request{Op: initwire.Detach, Device: &defaultDevice})
	return err
}

// startProxy serves the filtering proxy on the sandbox's loopback device, unless it is served
// already.
func (e *sandboxEnv) startProxy(ctx context.Context) error {
	if e.network.proxy != nil {
		return nil
	}
	listener, at, err := e.listen(ctx)
	if err != nil {
		return err
	}
	n := &e.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		listener.Close()
		return initclient.ErrGone
	}
	n.proxy, n.proxyAddr = egress.New(), at.AddrPort()
	if e.p.opts.Dial != nil {
		n.proxy.Dial = e.p.opts.Dial
	}
	go func() { _ = n.proxy.Serve(listener) }() // ends when the proxy is closed
	return nil
}

// listen returns a socket that listens on the sandbox's loopback device.
func (e *sandboxEnv) listen(ctx context.Context) (net.Listener, *net.TCPAddr, error) {
	socket, _, err := e.process.CallForFile(ctx, initwire.Request{Op: initwire.Listen})
	if err != nil {
		return nil, nil, err
	}
	defer socket.Close()
	listener, err := net.FileListener(socket)
	if err != nil {
		return nil, nil, err
	}
	at, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		listener.Close()
		return nil, nil, fmt.Errorf("the socket listens on %s", listener.Addr())
	}
	return listener, at, nil
}

// ListenLoopback implements environment.LoopbackListener.
func (e *sandboxEnv) ListenLoopback(ctx context.Context) (net.Listener, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !e.process.Running() {
		return nil, e.lost("listen in the sandbox")
	}
	listener, _, err := e.listen(ctx)
	if err != nil {
		return nil, e.requestFailed(ctx, environment.KindStart, "listen in the sandbox", err)
	}
	l := &loopback{Listener: listener, conns: map[net.Conn]bool{}}
	n := &e.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		listener.Close()
		return nil, e.lost("listen in the sandbox")
	}
	n.listeners = append(n.listeners, l)
	return l, nil
}

// loopback is a listener on a sandbox's loopback device that closes its connections with it.
type loopback struct {
	net.Listener
	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

// Accept implements net.Listener.
func (l *loopback) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	counted := &countedConn{Conn: conn, l: l}
	l.conns[counted] = true
	return counted, nil
}

// Close implements net.Listener.
func (l *loopback) Close() error {
	l.mu.Lock()
	l.closed = true
	conns := slices.Collect(maps.Keys(l.conns))
	l.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
	return l.Listener.Close()
}

// countedConn is a connection that its listener tracks until it is closed.
type countedConn struct {
	net.Conn
	l *loopback
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.l.mu.Lock()
	delete(c.l.conns, c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

// set changes the policy of the proxy, if there is one.
func (n *networking) set(policy egress.Policy, open bool, refused func(environment.Refusal)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.throughProxy = open
	if n.proxy == nil {
		return
	}
	n.proxy.Set(policy, func(r egress.Refusal) {
		if refused != nil {
			refused(environment.Refusal(r))
		}
	})
}

// variables returns the proxy variables for commands, or nil without an allowlist.
func (n *networking) variables() map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.throughProxy {
		return nil
	}
	return environment.ProxyVariables(n.proxyAddr)
}

// close ends the network and all of its connections.
func (n *networking) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if n.device != nil {
		n.device.Close()
		n.device = nil
	}
	if n.proxy != nil {
		_ = n.proxy.Close()
	}
	for _, l := range n.listeners {
		_ = l.Close() // it may have been closed before
	}
}
