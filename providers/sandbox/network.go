//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/org/rollout-action/internal/egress"
	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/providers/sandbox/internal/wire"
)

// networking is what a sandbox may reach, as it was set last. A sandbox begins in the machine's network or in one of its own,
// and moves from the former to the latter, never back: what runs inside must stay within reach of what comes later. A
// public network is then a door to everything.
type networking struct {
	private bool // it has a network of its own, with nothing but a loopback device

	mu     sync.Mutex
	door   *egress.Proxy // nil until it is needed
	at     netip.AddrPort
	open   bool // commands are told of it
	closed bool
}

// offline tells whether a sandbox begins in a network of its own.
func (p *Provider) offline(n environment.Network) (bool, error) {
	if p.config.network == "none" && n.Mode == environment.NetworkAllowlist {
		return true, &environment.Error{
			Kind: environment.KindStart, Err: errors.New("environment.provider_config.network is none, so no host can be allowed"),
			Hint: "remove network from provider_config",
		}
	}
	if _, err := egress.Parse(n.Hosts); err != nil {
		return true, &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("allowed_hosts: %w", err)}
	}
	return p.config.network == "none" || !n.Public(), nil
}

// SetNetwork implements environment.Environment.
func (e *sandboxEnv) SetNetwork(ctx context.Context, n environment.Network) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := e.p.offline(n); err != nil {
		return err
	}
	policy, open, err := e.policy(n)
	if err != nil {
		return &environment.Error{Kind: environment.KindStart, Err: err}
	}
	if !n.Public() && !e.network.private {
		if _, err := e.box.call(ctx, wire.Request{Op: wire.Isolate}); err != nil {
			return e.failed(ctx, environment.KindStart, "take the machine's network from the sandbox", err)
		}
		e.network.private = true
	}
	if open {
		if err := e.openDoor(ctx); err != nil {
			return e.failed(ctx, environment.KindStart, "open a door in the sandbox's network", err)
		}
	}
	e.network.set(policy, open, n.Refused)
	return nil
}

// policy is what the door lets through, and whether there has to be one.
func (e *sandboxEnv) policy(n environment.Network) (policy egress.Policy, open bool, err error) {
	switch {
	case n.Mode == environment.NetworkAllowlist:
		policy, err = egress.Parse(n.Hosts)
		return policy, true, err
	case n.Public() && e.network.private && e.p.config.network != "none":
		return egress.Everything(), true, nil
	}
	return egress.Policy{}, false, nil
}

// openDoor has a proxy of this process listen in the sandbox's network, unless one does.
func (e *sandboxEnv) openDoor(ctx context.Context) error {
	if e.network.door != nil {
		return nil
	}
	answer, err := e.box.call(ctx, wire.Request{Op: wire.Listen})
	defer func() {
		for _, f := range answer.Files {
			f.Close()
		}
	}()
	if err != nil {
		return err
	}
	if len(answer.Files) != 1 {
		return fmt.Errorf("%d sockets came, want 1", len(answer.Files))
	}
	listener, err := net.FileListener(answer.Files[0])
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

// close ends the door and everything that went through it.
func (n *networking) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if n.door != nil {
		_ = n.door.Close()
	}
}
