package sandbox

import (
	"context"
	"net"
	"net/netip"
)

// Options describes this machine and the caller's requirements.
type Options struct {
	// Hide lists absolute paths that no environment may show: tasks, datasets, job directories.
	Hide []string
	// Dial, if not nil, replaces this machine's network for connections of sandboxes to the
	// outside. It behaves like net.Dialer.DialContext; networks are tcp, udp, and ping4 and ping6
	// for echo requests.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// NameServers, if not nil, returns the name servers for sandboxes, in place of this machine's.
	NameServers func() []netip.AddrPort
	// Progress, if not nil, gets lines for the user during New.
	Progress func(string)
}
