package usernet

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// ping is the key of echo requests that differ only in their sequence number.
type ping struct {
	from, to netip.Addr
	id       uint16
}

// pinger forwards echo requests.
type pinger struct {
	requests chan []byte // as sent by the sandbox, from the ICMP header on
}

// pingTime is the idle timeout of a pinger.
const pingTime = 15 * time.Second

// Types of echo messages. Sources: RFC 792, RFC 4443.
const (
	echoRequest4, echoReply4 = 8, 0
	echoRequest6, echoReply6 = 128, 129
	echoSize                 = 8
)

// echoRequest returns the position of the ICMP message if the packet is an echo request, and 0
// otherwise. part reports a fragment that may belong to one.
func (p packet) echoRequest() (at int, part bool) {
	next, protocol, request := p.data[6], uint8(header.ICMPv6ProtocolNumber), byte(echoRequest6)
	at = header.IPv6MinimumSize
	if p.isIPv4() {
		next, protocol, request = p.data[9], uint8(header.ICMPv4ProtocolNumber), echoRequest4
		at = int(p.data[0]&0x0f) * 4
		const moreOrOffset = 0x3fff // the flag of more fragments, and where this one belongs
		if binary.BigEndian.Uint16(p.data[6:])&moreOrOffset != 0 {
			return 0, next == protocol
		}
	} else if next == uint8(header.IPv6FragmentHeader) {
		return 0, len(p.data) > at && p.data[at] == protocol
	}
	if next != protocol || at < header.IPv4MinimumSize || len(p.data) < at+echoSize || p.data[at] != request {
		return 0, false
	}
	return at, false
}

// echo forwards an echo request for another host, and reports whether the packet was one. The stack
// itself would answer for every host, existing or not. Fragmented requests are dropped.
func (n *Net) echo(p packet) bool {
	at, part := p.echoRequest()
	from, to := p.addresses()
	if at == 0 || n.isGateway(to) {
		return part
	}
	body := slices.Clone(p.data[at:])
	key := ping{from: from, to: to, id: binary.BigEndian.Uint16(body[4:])}
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.pings[key]
	if known == nil {
		if n.closed || len(n.pings) >= maxPings {
			return true
		}
		known = &pinger{requests: make(chan []byte, 8)}
		n.pings[key] = known
		quote := slices.Clone(p.data[:at+echoSize])
		n.work.Go(func() { n.servePinger(key, known, quote) })
	}
	select {
	case known.requests <- body:
	default: // dropped
	}
	return true
}

// servePinger forwards the requests of one pinger.
func (n *Net) servePinger(key ping, p *pinger, quote []byte) {
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.pings, key)
	}()
	if !reachable(key.to) {
		n.unreachable(quote, errRefused)
		return
	}
	network := "ping6"
	if key.to.Is4() {
		network = "ping4"
	}
	conn, err := n.opts.Dial(n.ctx, network, key.to.String())
	if err != nil {
		n.unreachable(quote, err)
		return
	}
	stop := context.AfterFunc(n.ctx, func() { _ = conn.Close() })
	defer stop()
	n.work.Go(func() { n.forwardReplies(key, conn) })
	defer conn.Close()
	quiet := time.NewTimer(pingTime)
	defer quiet.Stop()
	for {
		select {
		case request := <-p.requests:
			quiet.Reset(pingTime)
			if _, err := conn.Write(request); err != nil {
				n.unreachable(quote, err)
			}
		case <-quiet.C:
			return
		case <-n.ctx.Done():
			return
		}
	}
}

// forwardReplies sends answers to the sandbox with the identifier of its requests.
func (n *Net) forwardReplies(key ping, conn net.Conn) {
	buf := datagramBuffers.Get().(*[datagramSize]byte)
	defer datagramBuffers.Put(buf)
	for {
		size, err := conn.Read(buf[:])
		if err != nil {
			return
		}
		body := append([]byte(nil), buf[:size]...)
		if size < echoSize || body[0] != echoReply4 && body[0] != echoReply6 {
			continue
		}
		binary.BigEndian.PutUint16(body[4:], key.id)
		if key.to.Is4() {
			answer := header.ICMPv4(body)
			answer.SetChecksum(0)
			answer.SetChecksum(header.ICMPv4Checksum(answer, 0))
			n.link.send(n.ipv4(address(key.from), address(key.to), header.ICMPv4ProtocolNumber, answer))
		} else {
			n.link.send(n.ipv6(address(key.from), address(key.to), body))
		}
	}
}

// dialPing implements DialFunc for pings. Source: icmp(7), the section on ping sockets: the kernel
// sets identifier and checksum of requests and delivers only their answers. Only groups in
// net.ipv4.ping_group_range may have such sockets, root included: the error is then EACCES, and the
// sandbox is told that pings are prohibited.
func dialPing(addr string) (net.Conn, error) {
	to, err := netip.ParseAddr(addr)
	if err != nil {
		return nil, err
	}
	family, protocol := unix.AF_INET6, unix.IPPROTO_ICMPV6
	var where unix.Sockaddr = &unix.SockaddrInet6{Addr: to.As16()}
	if to.Is4() {
		family, protocol, where = unix.AF_INET, unix.IPPROTO_ICMP, &unix.SockaddrInet4{Addr: to.As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, fmt.Errorf("open a socket for pings: %w", err)
	}
	file := os.NewFile(uintptr(fd), "ping")
	defer file.Close()
	if err := unix.Connect(fd, where); err != nil {
		return nil, err
	}
	return net.FileConn(file)
}
