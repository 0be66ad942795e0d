package sandbox

import (
	"context"
	"net"
	"net/netip"
)

// Options describes this machine and what the caller wants of it.
type Options struct {
	// Hide are absolute paths that no environment may show: tasks, datasets, job directories.
	Hide []string
	// Dial, if not nil, makes the connections of sandboxes to the outside, as net.Dialer.DialContext does, in place of this
	// machine's network; networks are tcp, udp, and ping4 and ping6 for echo requests.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// NameServers, if not nil, are the ones that sandboxes' questions go to, in place of this machine's.
	NameServers func() []netip.AddrPort
	// Progress, if not nil, gets lines for people while New takes its time.
	Progress func(string)
}
