package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

const (
	lookupTime = 10 * time.Second
	// dialTime bounds connecting to one address.
	dialTime = 10 * time.Second
	// maxAddrs is the maximum number of addresses of a name that are tried.
	maxAddrs = 8
)

// Refusal is a request that the proxy refused.
type Refusal struct {
	Host   string // name or address, as the client sent it; at most 253 bytes
	Port   uint16
	Listed bool   // the list has the host; it was refused for another reason
	Reason string // completes a sentence after "because"
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("%s is refused, because %s", net.JoinHostPort(r.Host, strconv.Itoa(int(r.Port))), r.Reason)
}

const notListed = "allowed_hosts does not list it"

// target is the host and port that a client requests.
type target struct {
	host string     // in canonical form
	addr netip.Addr // valid if host is an address
	port uint16
}

func (t target) refused(listed bool, format string, args ...any) *Refusal {
	return &Refusal{Host: t.host, Port: t.port, Listed: listed, Reason: fmt.Sprintf(format, args...)}
}

var errTarget = errors.New("is not a host and port")

// parseTarget parses "host:port". port is the default; if it is 0, the port is required.
func parseTarget(text string, port uint16) (target, error) {
	host, portText, err := net.SplitHostPort(text)
	if err != nil && port != 0 {
		host, portText, err = strings.Trim(text, "[]"), strconv.Itoa(int(port)), nil
	}
	if err != nil {
		return target{}, errTarget
	}
	n, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || n == 0 {
		return target{}, errTarget
	}
	t := target{host: canonical(host), port: uint16(n)}
	if addr, err := netip.ParseAddr(t.host); err == nil && addr.Zone() == "" {
		t.addr = addr.Unmap()
		t.host = t.addr.String()
		return t, nil
	}
	if checkName(t.host) != "" {
		return target{}, errTarget
	}
	return t, nil
}

// lookupFunc returns the addresses of a name.
type lookupFunc func(ctx context.Context, name string) ([]netip.Addr, error)

// lookup is a lookupFunc that asks this machine's resolver.
func lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// admitted returns the addresses to try for a target, all of them checked. The caller must connect
// to these: if it looked the name up again, it might get others.
func (p Policy) admitted(ctx context.Context, t target, find lookupFunc) ([]netip.Addr, error) {
	if t.addr.IsValid() {
		if !p.listsAddr(t.addr, t.port) {
			return nil, t.refused(false, notListed)
		}
		return []netip.Addr{t.addr}, nil
	}
	if !p.listsName(t.host, t.port) {
		return nil, t.refused(false, notListed)
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	found, err := find(ctx, t.host)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", t.host, err)
	}
	var good []netip.Addr
	for _, addr := range found {
		addr = addr.Unmap()
		if (isPublic(addr) || p.listsAddr(addr, t.port)) && len(good) < maxAddrs {
			good = append(good, addr)
		}
	}
	if len(good) == 0 && len(found) > 0 {
		return nil, t.refused(true, "it leads to %s, which is not a public address: to allow that, list the address as well, or a range of such addresses", found[0].Unmap())
	}
	if len(good) == 0 {
		return nil, fmt.Errorf("look up %s: it has no address", t.host)
	}
	return good, nil
}

// dial connects to the first address that accepts a connection.
func (p *Proxy) dial(ctx context.Context, addrs []netip.Addr, port uint16) (net.Conn, error) {
	var errs []error
	for _, addr := range addrs {
		conn, err := p.dialOne(ctx, netip.AddrPortFrom(addr, port).String())
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func (p *Proxy) dialOne(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	if p.Dial != nil {
		return p.Dial(ctx, "tcp", address)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}
