package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// The ports of a rule without one.
const (
	portHTTP  = 80
	portHTTPS = 443
)

// maxName is the longest name in DNS. Source: RFC 1035, section 2.3.4.
const maxName = 253

// Rule is an entry of a list: a name, all names below a name, an address, or a range of addresses.
type Rule struct {
	name  string       // lower case, without the last dot; "" if it is an address or a range
	below bool         // means the names below name, and not name
	addr  netip.Addr   // valid if it is an address
	block netip.Prefix // valid if it is a range
	port  uint16       // 0: 80 and 443
}

// ParseRule parses an entry: "pypi.org", "*.pypi.org" (everything below it, not itself),
// "192.0.2.1" or "2001:db8::1", or a range in CIDR notation ("192.0.2.0/24", "2001:db8::/32"), each
// also with a port ("pypi.org:8443", "[2001:db8::1]:8443", "192.0.2.0/24:8443"). Without a port it
// means the ports 80 and 443. The error is one sentence with the remedy.
//
// A range means addresses only: a name that resolves into it has to be listed itself. Harbor does
// the same; it compares the name that a connection asks for. See Policy.listsAddr for the addresses
// that a range does not open.
func ParseRule(text string) (Rule, error) {
	switch {
	case text == "":
		return Rule{}, errors.New("is empty: write a host, such as pypi.org")
	case text == "*":
		return Rule{}, errors.New(`"*" would allow everything: write network: public instead`)
	case isRange(text):
		return parseRange(text)
	case strings.Contains(text, "/"):
		return Rule{}, fmt.Errorf("%q is more than a host: write it without https:// and without a path", text)
	}
	if addr, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return addressRule(addr, 0)
	}
	host, rest, hasPort := strings.Cut(text, ":")
	if end := strings.IndexByte(text, ']'); strings.HasPrefix(text, "[") && end > 0 {
		host, rest, hasPort = text[1:end], strings.TrimPrefix(text[end+1:], ":"), true
	}
	var port uint16
	if hasPort {
		var err error
		if port, err = parsePort(text, rest); err != nil {
			return Rule{}, err
		}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return addressRule(addr, port)
	}
	name, below := strings.CutPrefix(host, "*.")
	name = canonical(name)
	if problem := checkName(name); problem != "" {
		return Rule{}, fmt.Errorf("%q %s", text, problem)
	}
	return Rule{name: name, below: below, port: port}, nil
}

// isRange reports whether an entry has the form of a range, valid or not: an address before a
// slash.
func isRange(text string) bool {
	host, _, slash := strings.Cut(text, "/")
	_, err := netip.ParseAddr(strings.TrimPrefix(host, "["))
	return slash && err == nil
}

// parseRange parses a range of addresses.
func parseRange(text string) (Rule, error) {
	before, after, _ := strings.Cut(text, "/")
	host := strings.TrimPrefix(before, "[")
	size, port, hasPort := strings.Cut(after, ":")
	if host != before { // in brackets
		var closed bool
		size, port, closed = strings.Cut(after, "]")
		if !closed || port != "" && port[0] != ':' {
			return Rule{}, fmt.Errorf("%q has a bracket that is not closed: write it like [2001:db8::/32]:8443", text)
		}
		hasPort, port = port != "", strings.TrimPrefix(port, ":")
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return Rule{}, fmt.Errorf("%q is not a range: %w", text, err)
	}
	if addr.Zone() != "" {
		return addressRule(addr, 0)
	}
	var r Rule
	if hasPort {
		if r.port, err = parsePort(text, port); err != nil {
			return Rule{}, err
		}
	}
	bits, err := strconv.ParseUint(size, 10, 8)
	if err != nil || int(bits) > addr.BitLen() || size != strconv.FormatUint(bits, 10) {
		return Rule{}, fmt.Errorf("%q is not a range: write a number from 0 to %d after the slash", text, addr.BitLen())
	}
	r.block = netip.PrefixFrom(addr, int(bits))
	if addr.Is4In6() && bits >= 96 { // an IPv4 range in IPv6's form
		r.block = netip.PrefixFrom(addr.Unmap(), int(bits)-96)
	}
	if masked := r.block.Masked(); masked != r.block {
		return Rule{}, fmt.Errorf("%q has bits set beyond the prefix: write %s", text, masked)
	}
	return r, nil
}

func parsePort(text, port string) (uint16, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q has no port from 1 to 65535 after the colon", text)
	}
	return uint16(n), nil
}

func addressRule(addr netip.Addr, port uint16) (Rule, error) {
	if addr.Zone() != "" {
		return Rule{}, fmt.Errorf("%q has a zone, which names a device of one machine: remove it", addr)
	}
	return Rule{addr: addr.Unmap(), port: port}, nil
}

// canonical returns a name in the form that rules have.
func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// checkName returns the problem of an invalid name, as text to follow the name, or "".
func checkName(name string) string {
	labels := strings.Split(name, ".")
	if name == "" || len(name) > maxName {
		return "is not a host: write a name, such as pypi.org, or an address"
	}
	for _, label := range labels {
		switch bad := strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_"); {
		case label == "" || len(label) > 63:
			return "is not a host: the parts of a name have 1 to 63 characters"
		case strings.Contains(label, "*"):
			return "has a * that is not the whole first part: write *.pypi.org for everything below pypi.org"
		case bad != "":
			return "is not a host: a name has letters, digits, dots and hyphens (write others in Punycode: xn--…)"
		}
	}
	if last := labels[len(labels)-1]; strings.Trim(last, "0123456789") == "" {
		return "looks like an address, but is not one"
	}
	return ""
}

// String returns the rule in the form that ParseRule accepts.
func (r Rule) String() string {
	host := r.name
	switch {
	case r.below:
		host = "*." + r.name
	case r.block.IsValid():
		host = r.block.String()
	case r.name == "":
		host = r.addr.String()
	}
	if r.port == 0 {
		return host
	}
	if r.addr.Is6() || r.block.Addr().Is6() {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(r.port))
}

func (r Rule) hasPort(port uint16) bool {
	return r.port == port || r.port == 0 && (port == portHTTP || port == portHTTPS)
}

func (r Rule) hasName(name string) bool {
	if r.name == "" {
		return false
	}
	return !r.below && name == r.name || r.below && strings.HasSuffix(name, "."+r.name)
}

// Policy is the list of hosts that a proxy allows. The zero value allows none.
type Policy struct {
	rules []Rule
}

// Parse parses a list. The error is about the first invalid entry.
func Parse(hosts []string) (Policy, error) {
	var p Policy
	for _, text := range hosts {
		r, err := ParseRule(text)
		if err != nil {
			return Policy{}, err
		}
		p.rules = append(p.rules, r)
	}
	return p, nil
}

// Allows reports whether the list contains a host (a name or an address), without looking it up.
func (p Policy) Allows(host string, port uint16) bool {
	t, err := parseTarget(net.JoinHostPort(host, strconv.Itoa(int(port))), 0)
	if err != nil {
		return false
	}
	if t.addr.IsValid() {
		return p.listsAddr(t.addr, port)
	}
	return p.listsName(t.host, port)
}

// listsName reports whether a name, in canonical form, may be looked up and connected to.
func (p Policy) listsName(name string, port uint16) bool {
	return slices.ContainsFunc(p.rules, func(r Rule) bool { return r.hasPort(port) && r.hasName(name) })
}

// listsAddr reports whether the list contains the address itself or a range with it. A range that
// contains addresses of the public Internet opens no others: 0.0.0.0/0 does not open this machine
// or a cloud's metadata server, 169.254.0.0/16 does.
func (p Policy) listsAddr(addr netip.Addr, port uint16) bool {
	return slices.ContainsFunc(p.rules, func(r Rule) bool {
		return r.hasPort(port) && (r.addr == addr || r.block.Contains(addr) && (isPublic(addr) || isSpecial(r.block)))
	})
}
