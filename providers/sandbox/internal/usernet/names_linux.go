package usernet

import (
	"bufio"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

const (
	portDNS = 53
	// askTime bounds one question, staggerTime the time until the next server is asked as well. A
	// resolver waits five seconds for a server, and this one asks all of them.
	askTime     = 10 * time.Second
	staggerTime = 1500 * time.Millisecond
	// namesIdle is the idle timeout of a connection to the name server.
	namesIdle = 30 * time.Second
)

// resolvConf is the file that lists this machine's name servers.
const resolvConf = "/etc/resolv.conf"

// machineServers returns this machine's present name servers. Source: resolv.conf(5).
func machineServers() []netip.AddrPort {
	f, err := os.Open(resolvConf)
	if err != nil {
		return localServer
	}
	defer f.Close()
	var list []netip.AddrPort
	for lines := bufio.NewScanner(f); lines.Scan() && len(list) < maxServers; {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if addr, err := netip.ParseAddr(fields[1]); err == nil {
			list = append(list, netip.AddrPortFrom(addr, portDNS))
		}
	}
	if len(list) == 0 {
		return localServer
	}
	return list
}

// maxServers bounds the name servers in use; localServer is the default if none is configured.
// Source: resolv.conf(5).
const maxServers = 3

var localServer = []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), portDNS)}

// serveNames serves DNS at an address.
func (n *Net) serveNames(s *stack.Stack, at netip.Addr) {
	local := tcpip.FullAddress{NIC: nic, Addr: address(at), Port: portDNS}
	datagrams, err := gonet.DialUDP(s, &local, nil, protocolOf(at))
	if err != nil {
		panic("usernet: " + err.Error())
	}
	streams, err := gonet.ListenTCP(s, local, protocolOf(at))
	if err != nil {
		panic("usernet: " + err.Error())
	}
	context.AfterFunc(n.ctx, func() {
		datagrams.Close()
		streams.Close()
	})
	n.work.Go(func() { n.answerDatagrams(datagrams) })
	n.work.Go(func() { n.answerStreams(streams) })
}

// beginQuestion takes one of the slots for questions. It returns false if none is free.
func (n *Net) beginQuestion() bool {
	select {
	case n.asked <- struct{}{}:
		return true
	default:
		return false
	}
}

func (n *Net) answerDatagrams(conn *gonet.UDPConn) {
	buf := make([]byte, datagramSize)
	for {
		size, from, err := conn.ReadFrom(buf)
		if err != nil {
			if n.ctx.Err() != nil {
				return
			}
			continue
		}
		question := append([]byte(nil), buf[:size]...)
		if !n.beginQuestion() {
			continue // the client will retry
		}
		n.work.Go(func() {
			defer func() { <-n.asked }()
			if answer := n.ask(question); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		})
	}
}

// ask asks the name servers in order until one answers. It returns nil if none does.
func (n *Net) ask(question []byte) []byte {
	ctx, cancel := context.WithTimeout(n.ctx, askTime)
	defer cancel()
	servers := n.opts.Servers()
	answers := make(chan []byte, len(servers))
	next := time.NewTimer(0)
	defer next.Stop()
	var last []byte // a failure, which is better than nothing
	for started, ended := 0, 0; ended < len(servers); {
		select {
		case <-next.C:
			if started < len(servers) {
				server := servers[started]
				n.work.Go(func() { answers <- n.askServer(ctx, server, question) })
				started++
				next.Reset(staggerTime)
			}
		case answer := <-answers:
			ended++
			if conclusive(answer) {
				return answer
			}
			if answer != nil {
				last = answer
			}
			next.Reset(0)
		case <-ctx.Done():
			return last
		}
	}
	return last
}

// conclusive reports whether a resolver would accept an answer and not ask the next server.
func conclusive(answer []byte) bool {
	var p dnsmessage.Parser
	h, err := p.Start(answer)
	return err == nil && h.RCode != dnsmessage.RCodeServerFailure && h.RCode != dnsmessage.RCodeRefused && h.RCode != dnsmessage.RCodeNotImplemented
}

// idSize is the size of the ID at the beginning of each question and answer.
const idSize = 2

// askServer asks one server. It returns nil if there is no answer.
func (n *Net) askServer(ctx context.Context, server netip.AddrPort, question []byte) []byte {
	if len(question) < idSize {
		return nil
	}
	conn, err := n.opts.Dial(ctx, "udp", server.String())
	if err != nil {
		return nil
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := conn.Write(question); err != nil {
		return nil
	}
	buf := datagramBuffers.Get().(*[datagramSize]byte)
	defer datagramBuffers.Put(buf)
	for {
		size, err := conn.Read(buf[:])
		if err != nil {
			return nil
		}
		if size >= idSize && binary.BigEndian.Uint16(buf[:]) == binary.BigEndian.Uint16(question) {
			return append([]byte(nil), buf[:size]...)
		}
	}
}

func (n *Net) answerStreams(l *gonet.TCPListener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			if n.ctx.Err() != nil {
				return
			}
			continue
		}
		if !n.beginQuestion() {
			_ = conn.Close()
			continue
		}
		n.work.Go(func() {
			defer func() { <-n.asked }()
			defer conn.Close()
			stop := context.AfterFunc(n.ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
			defer stop()
			n.answerStream(conn)
		})
	}
}

// dialServer connects to the first server that accepts a connection. It returns nil if none does.
func (n *Net) dialServer() net.Conn {
	for _, server := range n.opts.Servers() {
		ctx, cancel := context.WithTimeout(n.ctx, askTime)
		conn, err := n.opts.Dial(ctx, "tcp", server.String())
		cancel()
		if err == nil {
			return conn
		}
	}
	return nil
}

// answerStream relays a connection to a server.
func (n *Net) answerStream(inside net.Conn) {
	outside := n.dialServer()
	if outside == nil {
		return
	}
	defer outside.Close()
	quiet := time.AfterFunc(namesIdle, func() {
		_ = outside.Close()
		_ = inside.Close()
	})
	defer quiet.Stop()
	stop := context.AfterFunc(n.ctx, func() { _ = outside.Close() })
	defer stop()
	done := make(chan struct{})
	n.work.Go(func() {
		defer close(done)
		_ = copyStream(idleConn{inside, quiet}, outside)
		_ = inside.Close()
	})
	if copyStream(idleConn{outside, quiet}, inside) != nil || closeWrite(outside) != nil {
		_ = outside.Close()
	}
	<-done
}

// idleConn resets a timer with each write.
type idleConn struct {
	net.Conn
	quiet *time.Timer
}

func (t idleConn) Write(b []byte) (int, error) {
	t.quiet.Reset(namesIdle)
	return t.Conn.Write(b)
}
