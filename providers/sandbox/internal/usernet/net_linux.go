package usernet

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/log"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"github.com/org/rollout-action/internal/lib/egress"
	"github.com/org/rollout-action/providers/internal/initwire"
	"github.com/org/rollout-action/providers/internal/rtnl"
)

// Limits of one sandbox. Excess traffic is dropped, as by a busy network, and the sender tries
// again. Flows of datagrams have no end, so the one that was idle for longest is ended.
const (
	maxConns = 1024
	maxFlows = 512
	maxAsked = 128 // concurrent DNS questions
	maxPings = 64
	// tcpBuffer is the size of each direction's buffer of a connection, for data in transit within
	// this machine.
	tcpBuffer = 256 << 10
)

// DialFunc connects to an address, as net.Dialer.DialContext does. The networks are tcp and udp;
// ping4 and ping6 are connections on which each write is an echo request (ICMP, with any checksum),
// and each read an answer.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Options describes a network.
type Options struct {
	// Device has the settings of the sandbox's device: its addresses and MTU.
	Device initwire.Device
	Frames initwire.Frames
	// Dial makes connections to the outside; nil: this machine's network.
	Dial DialFunc
	// Servers are the name servers to ask, in order; nil: this machine's.
	Servers func() []netip.AddrPort
}

// Net is the running network of one sandbox.
type Net struct {
	opts   Options
	link   *link
	ctx    context.Context //nolint:containedctx // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // all goroutines except the stack's own

	mu     sync.Mutex
	stack  *stack.Stack // nil until the first packet
	closed bool
	syns   map[stack.TransportEndpointID][]byte // pending connections: headers to quote
	conns  int                                  // established or being established
	flows  map[stack.TransportEndpointID]*flow
	asked  chan struct{} // a slot for each open question
	pings  map[ping]*pinger

	forwarder *tcp.Forwarder
}

// New starts the network of a sandbox on the outer end of its device. The Net closes end.
func New(end *os.File, opts Options) (*Net, error) {
	l, err := newLink(end, opts)
	if err != nil {
		return nil, err
	}
	if opts.Dial == nil {
		opts.Dial = dial
	}
	if opts.Servers == nil {
		opts.Servers = machineServers
	}
	n := &Net{
		opts: opts, link: l, syns: map[stack.TransportEndpointID][]byte{}, flows: map[stack.TransportEndpointID]*flow{},
		asked: make(chan struct{}, maxAsked), pings: map[ping]*pinger{},
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.work.Go(n.receive)
	return n, nil
}

// Close ends all connections and the device. It may be called more than once.
func (n *Net) Close() {
	n.mu.Lock()
	closed, s := n.closed, n.stack
	n.closed = true
	n.mu.Unlock()
	if closed {
		return
	}
	n.cancel()
	ended := make(chan struct{})
	go func() {
		n.work.Wait()
		close(ended)
	}()
	if s == nil {
		// receive must have left the file: otherwise its last read would end the device, and Close
		// would wait for the kernel.
		n.link.stop()
		<-ended
		n.link.close()
		return
	}
	// The sandbox learns that its connections end while the device exists. A connection may be in
	// the making.
	for over := false; !over; {
		for _, e := range s.RegisteredEndpoints() {
			e.Abort()
		}
		n.link.stop()
		select {
		case <-ended:
			over = true
		case <-time.After(5 * time.Millisecond):
		}
	}
	s.Destroy()
	n.link.close()
}

// receive passes packets to the stack until the device ends.
func (n *Net) receive() {
	small := make([]byte, headerSize+ethernetSize+2048) // for sandboxes without any network traffic
	buf := small
	for {
		packet, err := n.link.read(buf)
		if err != nil {
			return
		}
		if packet.data == nil || !n.isFromSandbox(packet) {
			continue
		}
		if n.stack == nil {
			if !n.start() {
				return
			}
			buf = make([]byte, headerSize+ethernetSize+maxPacket)
		}
		if n.echo(packet) {
			continue
		}
		n.link.deliver(packet)
	}
}

// isFromSandbox reports whether a packet comes from an address of the sandbox and is unicast. Other
// packets are for neighbours, which the device does not have, or are forged.
func (n *Net) isFromSandbox(p packet) bool {
	from, to := p.addresses()
	if to.IsMulticast() || to.IsUnspecified() || to.Is4() && to.As4() == [4]byte{255, 255, 255, 255} {
		return false
	}
	for _, a := range n.opts.Device.Addrs {
		if a.Own == from {
			return true
		}
	}
	return false
}

const nic = 1

// silenceLog keeps the stack from writing to this process's stderr. Parts of the stack hold the
// logger already, so it changes that logger; no other code has used it before the first stack is
// made.
var silenceLog = sync.OnceFunc(func() { log.Log().Emitter = &log.Writer{Next: io.Discard} })

// start makes the stack. It returns false if the network was closed meanwhile.
func (n *Net) start() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	silenceLog()
	s := stack.New(stack.Options{
		NetworkProtocols: []stack.NetworkProtocolFactory{
			ipv4.NewProtocol,
			ipv6.NewProtocolWithOptions(ipv6.Options{NDPConfigs: ipv6.NDPConfigurations{HandleRAs: ipv6.HandlingRAsDisabled}}),
		},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
	})
	sack, moderate, linger := tcpip.TCPSACKEnabled(true), tcpip.TCPModerateReceiveBufferOption(false), tcpip.TCPLingerTimeoutOption(lingerTime)
	wait := tcpip.TCPTimeWaitTimeoutOption(lingerTime)
	for _, option := range []tcpip.SettableTransportProtocolOption{
		&sack, &moderate, &linger, &wait,
		&tcpip.TCPSendBufferSizeRangeOption{Min: tcp.MinBufferSize, Default: tcpBuffer, Max: tcpBuffer},
		&tcpip.TCPReceiveBufferSizeRangeOption{Min: tcp.MinBufferSize, Default: tcpBuffer, Max: tcpBuffer},
	} {
		must(s.SetTransportProtocolOption(tcp.ProtocolNumber, option))
	}
	must(s.CreateNIC(nic, n.link))
	must(s.SetPromiscuousMode(nic, true)) // packets have other hosts' addresses
	must(s.SetSpoofing(nic, true))        // and answers come from those addresses
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}, {Destination: header.IPv6EmptySubnet, NIC: nic}})
	n.forwarder = tcp.NewForwarder(s, tcpBuffer, maxConns, n.connect)
	s.SetTransportProtocolHandler(tcp.ProtocolNumber, n.handleSYN)
	s.SetTransportProtocolHandler(udp.ProtocolNumber, n.handleDatagram(s))
	for _, a := range n.opts.Device.Addrs {
		must(s.AddProtocolAddress(nic, tcpip.ProtocolAddress{
			Protocol: protocolOf(a.Gateway), AddressWithPrefix: address(a.Gateway).WithPrefix(),
		}, stack.AddressProperties{}))
		n.serveNames(s, a.Gateway)
	}
	n.stack = s
	return true
}

// lingerTime is how long the stack remembers connections that have ended at one side or both.
// Nothing is lost between it and the sandbox, so there is little gain in a longer time.
const lingerTime = 10 * time.Second

// must panics on an error that only a bug of this package can cause.
func must(err tcpip.Error) {
	if err != nil {
		panic("usernet: " + err.String())
	}
}

func protocolOf(addr netip.Addr) tcpip.NetworkProtocolNumber {
	if addr.Is4() {
		return ipv4.ProtocolNumber
	}
	return ipv6.ProtocolNumber
}

func address(addr netip.Addr) tcpip.Address { return tcpip.AddrFromSlice(addr.AsSlice()) }

// target returns the address that a sandbox connects to.
func target(id stack.TransportEndpointID) netip.AddrPort {
	addr, _ := netip.AddrFromSlice(id.LocalAddress.AsSlice())
	return netip.AddrPortFrom(addr, id.LocalPort)
}

// isGateway reports whether an address belongs to this end of the device.
func (n *Net) isGateway(addr netip.Addr) bool {
	for _, a := range n.opts.Device.Addrs {
		if a.Gateway == addr {
			return true
		}
	}
	return false
}

// reachable reports whether a sandbox may reach an address. It may not reach this machine's
// addresses.
func reachable(addr netip.Addr) bool {
	if !egress.MayBeRemote(addr) {
		return false
	}
	kernel, err := rtnl.Open()
	if err != nil {
		return false
	}
	defer kernel.Close()
	leaves, err := kernel.LeavesMachine(addr)
	if err != nil {
		return isNoRoute(err) // nothing is sent, and the sandbox gets the reason
	}
	return leaves
}

// dial implements DialFunc with this machine's network.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	if network == "ping4" || network == "ping6" {
		return dialPing(address)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

var errRefused = errors.New("this machine's own addresses are not reached from sandboxes")

// open connects to the outside.
func (n *Net) open(network string, to netip.AddrPort) (net.Conn, error) {
	if !reachable(to.Addr()) {
		return nil, errRefused
	}
	return n.opts.Dial(n.ctx, network, to.String())
}
