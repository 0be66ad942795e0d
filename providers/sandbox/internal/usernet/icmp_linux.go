package usernet

import (
	"errors"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// isNoRoute reports whether an error says that there is no route to a host.
func isNoRoute(err error) bool {
	return errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.ENETDOWN) || errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT)
}

// codes holds the codes of destination unreachable for IPv4 and IPv6.
type codes struct {
	four header.ICMPv4Code
	six  header.ICMPv6Code
}

// unreachable reports to the sandbox why a packet did not arrive, as a router or the host would.
// quote has the packet's headers. It sends nothing if the outside did not answer at all.
func (n *Net) unreachable(quote []byte, err error) {
	var c codes
	switch {
	case errors.Is(err, errRefused), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EHOSTDOWN):
		c = codes{header.ICMPv4HostUnreachable, header.ICMPv6AddressUnreachable}
	case isNoRoute(err):
		c = codes{header.ICMPv4NetUnreachable, header.ICMPv6NetworkUnreachable}
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		c = codes{header.ICMPv4AdminProhibited, header.ICMPv6Prohibited}
	case errors.Is(err, unix.ECONNREFUSED):
		c = codes{header.ICMPv4PortUnreachable, header.ICMPv6PortUnreachable}
	default:
		return
	}
	if p := (packet{data: quote}); len(quote) >= header.IPv4MinimumSize && p.isIPv4() {
		n.link.send(n.errorIPv4(p, c.four))
	} else if len(quote) >= header.IPv6MinimumSize {
		n.link.send(n.errorIPv6(p, c.six))
	}
}

// gatewayFor returns the gateway's address of a packet's family.
func (n *Net) gatewayFor(p packet) tcpip.Address {
	for _, a := range n.opts.Device.Addrs {
		if a.Gateway.Is4() == p.isIPv4() {
			return address(a.Gateway)
		}
	}
	panic("usernet: a packet of a kind that the sandbox has no address of")
}

func (n *Net) errorIPv4(about packet, code header.ICMPv4Code) []byte {
	from, _ := about.addresses()
	body := header.ICMPv4(make([]byte, header.ICMPv4MinimumSize+len(about.data)))
	body.SetType(header.ICMPv4DstUnreachable)
	body.SetCode(code)
	copy(body[header.ICMPv4MinimumSize:], about.data)
	body.SetChecksum(header.ICMPv4Checksum(body, 0))
	return n.ipv4(address(from), n.gatewayFor(about), header.ICMPv4ProtocolNumber, body)
}

func (n *Net) ipv4(to, from tcpip.Address, protocol tcpip.TransportProtocolNumber, body []byte) []byte {
	out := header.IPv4(make([]byte, header.IPv4MinimumSize+len(body)))
	out.Encode(&header.IPv4Fields{
		TotalLength: uint16(len(out)), TTL: 64, Protocol: uint8(protocol), SrcAddr: from, DstAddr: to,
	})
	out.SetChecksum(^out.CalculateChecksum())
	copy(out[header.IPv4MinimumSize:], body)
	return out
}

func (n *Net) errorIPv6(about packet, code header.ICMPv6Code) []byte {
	from, _ := about.addresses()
	body := header.ICMPv6(make([]byte, header.ICMPv6MinimumSize+len(about.data)))
	body.SetType(header.ICMPv6DstUnreachable)
	body.SetCode(code)
	copy(body[header.ICMPv6MinimumSize:], about.data)
	return n.ipv6(address(from), n.gatewayFor(about), body)
}

// ipv6 returns a packet with an ICMP message, whose checksum it computes.
func (n *Net) ipv6(to, from tcpip.Address, body header.ICMPv6) []byte {
	body.SetChecksum(0)
	sum := header.PseudoHeaderChecksum(header.ICMPv6ProtocolNumber, from, to, uint16(len(body)))
	body.SetChecksum(^checksum.Checksum(body, sum))
	out := header.IPv6(make([]byte, header.IPv6MinimumSize+len(body)))
	out.Encode(&header.IPv6Fields{
		PayloadLength: uint16(len(body)), TransportProtocol: header.ICMPv6ProtocolNumber, HopLimit: 64, SrcAddr: from, DstAddr: to,
	})
	copy(out[header.IPv6MinimumSize:], body)
	return out
}
