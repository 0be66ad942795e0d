package environmenttest

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Hosts are other machines, for providers whose connections can be redirected: Dial connects to
// servers of this process. Their addresses are reserved for documentation, so nothing uses them,
// and their names end in .hosts.test.
type Hosts struct {
	mu   sync.Mutex
	real map[string]string // host:port of a server, by network and address: "tcp 198.51.100.1:80"
	last byte
}

// New adds a host and returns its address.
func (h *Hosts) New() netip.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	return netip.AddrFrom4([4]byte{198, 51, 100, h.last})
}

// Lead redirects an address of a host to a server of this process.
func (h *Hosts) Lead(network string, from netip.AddrPort, to string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.real == nil {
		h.real = map[string]string{}
	}
	h.real[network+" "+from.String()] = to
}

// Outside starts the server for Options.Serve on a new host, and returns its address.
func (h *Hosts) Outside(t testing.TB) string {
	t.Helper()
	server := netip.MustParseAddrPort(Outside(t, "127.0.0.1"))
	at := netip.AddrPortFrom(h.New(), server.Port())
	h.Lead("tcp", at, server.String())
	return at.String()
}

// OutsideByName is Outside, but returns a name, for environments that use NameServers.
func (h *Hosts) OutsideByName(t testing.TB) string {
	t.Helper()
	at := netip.MustParseAddrPort(h.Outside(t))
	return net.JoinHostPort(Name(at.Addr()), strconv.Itoa(int(at.Port())))
}

// Machine starts servers on all IPv4 addresses of this machine and lets Dial reach them.
// Connections that must not reach them have to be blocked before Dial.
func (h *Hosts) Machine(t testing.TB) []string {
	t.Helper()
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, a := range own {
		if ip := a.(*net.IPNet).IP; ip.To4() != nil {
			at := netip.MustParseAddrPort(Outside(t, ip.String()))
			h.Lead("tcp", at, at.String())
			list = append(list, at.String())
		}
	}
	return list
}

// Real returns the address of the server behind a host's address.
func (h *Hosts) Real(t testing.TB, address string) string {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	to, ok := h.real["tcp "+address]
	if !ok {
		t.Fatalf("there is no host at %s", address)
	}
	return to
}

// Dial connects to hosts, and to nothing else.
func (h *Hosts) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	h.mu.Lock()
	to, ok := h.real[network+" "+address]
	h.mu.Unlock()
	if !ok {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ENETUNREACH}
	}
	var d net.Dialer
	return d.DialContext(ctx, network, to)
}

// Name returns the name for an address of a host.
func Name(addr netip.Addr) string { return strings.ReplaceAll(addr.String(), ".", "-") + hostsDomain }

const hostsDomain = ".hosts.test"

// NameServers starts a name server for these names on a new host, and returns a function with its
// address.
func (h *Hosts) NameServers(t testing.TB) func() []netip.AddrPort {
	t.Helper()
	at := netip.AddrPortFrom(h.New(), 53)
	h.Lead("udp", at, answering(t, named))
	return func() []netip.AddrPort { return []netip.AddrPort{at} }
}

// Silent starts a server that receives datagrams and never answers, and returns its address.
func Silent(t testing.TB) string {
	t.Helper()
	return answering(t, func([]byte) []byte { return nil })
}

// Failing starts a name server that answers every question with an error, and returns its address.
func Failing(t testing.TB) string {
	t.Helper()
	return answering(t, func(question []byte) []byte {
		var m dnsmessage.Message
		if m.Unpack(question) != nil {
			return nil
		}
		m.Response, m.Additionals, m.RCode = true, nil, dnsmessage.RCodeServerFailure
		answer, _ := m.Pack() // of what was unpacked
		return answer
	})
}

// answering serves datagrams on a new address and returns it. It sends no reply if answer returns
// nil.
func answering(t testing.TB, answer func(question []byte) []byte) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buf := make([]byte, 64<<10)
		for {
			size, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if said := answer(buf[:size]); said != nil {
				_, _ = conn.WriteTo(said, from)
			}
		}
	}()
	return conn.LocalAddr().String()
}

// named returns the reply to a question; nil if it is not a question.
func named(question []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	name, known := strings.CutSuffix(strings.ToLower(strings.TrimSuffix(q.Name.String(), ".")), hostsDomain)
	addr, err := netip.ParseAddr(strings.ReplaceAll(name, "-", "."))
	switch {
	case !known || err != nil || !addr.Is4():
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: addr.As4()},
		}}
	}
	answer, err := m.Pack()
	if err != nil {
		panic(fmt.Sprintf("pack an answer to %v: %v", q, err))
	}
	return answer
}
