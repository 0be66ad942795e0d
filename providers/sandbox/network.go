//go:build linux

package sandbox

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"

	"github.com/org/rollout-action/internal/egress"
	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/providers/sandbox/internal/usernet"
	"github.com/org/rollout-action/providers/sandbox/internal/wire"
)

// device is the network device of every sandbox whose network is public. The addresses are among those that hosts have for
// networks which end in themselves (RFC 7335, RFC 4193), so they are nobody's to reach.
var device = wire.Device{
	Name: "eth0", MTU: 1500,
	Addrs: []wire.Address{
		{Own: netip.MustParseAddr("192.0.0.2"), Gateway: nameServer},
		{Own: netip.MustParseAddr("fd72:6f6c:6c6f:7574::2"), Gateway: netip.MustParseAddr("fd72:6f6c:6c6f:7574::1")},
	},
}

// nameServer is the name server in sandboxes.
var nameServer = netip.MustParseAddr("192.0.0.1")

// networking is what a sandbox may reach, as it was set last. It has a network of its own: while that is public, with a device
// that leads to a stack in this process, and for an allowlist with a proxy of this process on its loopback device.
type networking struct {
	mu     sync.Mutex
	public *usernet.Net  // nil if there is no device
	door   *egress.Proxy // nil until it is needed
	at     netip.AddrPort
	open   bool // commands are told of the door
	closed bool
}

// shares tells whether sandboxes share the machine's network.
func (p *Provider) shares() bool { return p.config.network == networkHost }

// checkNetwork refuses what cannot be kept.
func (p *Provider) checkNetwork(n environment.Network) error {
	refused := func(hint, format string, args ...any) error {
		return &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf(format, args...), Hint: hint}
	}
	switch {
	case p.shares() && !n.Public():
		return refused("remove network from provider_config, or allow public in so many words: environment.network: public",
			"the network is to be %s, but environment.provider_config.network is host, which cannot be restricted", n.Mode)
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
	if !e.box.running() {
		return e.lost("set the sandbox's network")
	}
	policy, err := egress.Parse(n.Hosts)
	if err != nil {
		return &environment.Error{Kind: environment.KindStart, Err: err}
	}
	open := n.Mode == environment.NetworkAllowlist
	switch public := n.Public() && e.p.config.network == networkOwn; {
	case public:
		err = e.network.attach(ctx, e.box, e.p.usernet())
	case !e.p.shares():
		err = e.network.detach(ctx, e.box)
	}
	if err == nil && open {
		err = e.openDoor(ctx)
	}
	if err != nil {
		return e.failed(ctx, environment.KindStart, "make the sandbox's network "+string(n.Mode), err)
	}
	e.network.set(policy, open, n.Refused)
	return nil
}

// usernet is how sandboxes get outside.
func (p *Provider) usernet() usernet.Options {
	d := device
	d.Frames = p.frames
	return usernet.Options{Device: d, Dial: p.opts.Dial, Servers: p.opts.NameServers}
}

// attach gives a sandbox the device that leads outside, unless it has it.
func (n *networking) attach(ctx context.Context, b *box, opts usernet.Options) error {
	n.mu.Lock()
	has := n.public != nil
	n.mu.Unlock()
	if has {
		return nil
	}
	end, answer, err := b.callForFile(ctx, wire.Request{Op: wire.Attach, Device: &opts.Device})
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
		return errGone
	}
	n.public = public
	return nil
}

// detach takes the device away, and all connections with it.
func (n *networking) detach(ctx context.Context, b *box) error {
	n.mu.Lock()
	public := n.public
	n.public = nil
	n.mu.Unlock()
	if public == nil {
		return nil
	}
	public.Close()
	_, err := b.call(ctx, wire.Request{Op: wire.Detach, Device: &device})
	return err
}

// callForFile sends a request whose answer has one file.
func (b *box) callForFile(ctx context.Context, request wire.Request) (*os.File, wire.Answer, error) {
	answer, err := b.call(ctx, request)
	if err == nil && len(answer.Files) == 1 {
		return answer.Files[0], answer, nil
	}
	for _, f := range answer.Files {
		f.Close()
	}
	if err == nil {
		err = fmt.Errorf("%d files came, want 1", len(answer.Files))
	}
	return nil, answer, err
}

// openDoor has a proxy of this process listen in the sandbox's network, unless one does.
func (e *sandboxEnv) openDoor(ctx context.Context) error {
	if e.network.door != nil {
		return nil
	}
	socket, _, err := e.box.callForFile(ctx, wire.Request{Op: wire.Listen})
	if err != nil {
		return err
	}
	defer socket.Close()
	listener, err := net.FileListener(socket)
	if err != nil {
		return err
	}
	at, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		listener.Close()
		return fmt.Errorf("the socket listens on %s", listener.Addr())
	}
	n := &e.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		listener.Close()
		return errGone
	}
	n.door, n.at = egress.New(), at.AddrPort()
	if e.p.opts.Dial != nil {
		n.door.Dial = e.p.opts.Dial
	}
	go func() { _ = n.door.Serve(listener) }() // ends with the door
	return nil
}

// set changes what the door lets through, if there is one.
func (n *networking) set(policy egress.Policy, open bool, refused func(environment.Refusal)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open = open
	if n.door == nil {
		return
	}
	n.door.Set(policy, func(r egress.Refusal) {
		if refused != nil {
			refused(environment.Refusal(r))
		}
	})
}

// variables tell commands of the door.
func (n *networking) variables() map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.open {
		return nil
	}
	return environment.ProxyVariables(n.at)
}

// close ends the network and everything that goes through it.
func (n *networking) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if n.public != nil {
		n.public.Close()
		n.public = nil
	}
	if n.door != nil {
		_ = n.door.Close()
	}
}
