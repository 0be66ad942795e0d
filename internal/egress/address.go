package egress

import (
	"net/netip"
	"slices"
)

// here are networks that never lead to another host: this machine's own, those of the link that it is on, groups of hosts.
var here = prefixes("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")

// metadata are servers of clouds, other than link-local ones, that hand the machine's credentials to whoever asks from it.
// Sources: the documentation of Alibaba, Azure, Oracle and AWS.
var metadata = prefixes("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::254/128")

// special are networks that no host of the Internet is in, or through which others are reached, besides here and
// metadata. Source: the IANA special-purpose address registries.
var special = prefixes(
	"10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"2001::/23",     // Teredo, ORCHID and the like
	"2001:db8::/32", // documentation
	"2002::/16",     // 6to4, which has addresses of IPv4 in it
	"3fff::/20",     // documentation
)

// global6 is where hosts of the Internet have their addresses of IPv6: everything else is special.
var global6 = netip.MustParsePrefix("2000::/3")

// private6 are private networks, of IPv6.
var private6 = netip.MustParsePrefix("fc00::/7")

// translated6 are prefixes in front of addresses of IPv4, with the byte at which those begin: NAT64 and 6to4.
var translated6 = map[netip.Prefix]int{
	netip.MustParsePrefix("64:ff9b::/96"): 12,
	netip.MustParsePrefix("2002::/16"):    2,
}

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

// isSpecial tells whether no address of a range is one of the Internet's.
func isSpecial(block netip.Prefix) bool {
	if !block.Addr().Is4() && !global6.Overlaps(block) {
		return true
	}
	return slices.ContainsFunc(slices.Concat(here, metadata, special), func(p netip.Prefix) bool {
		return p.Bits() <= block.Bits() && p.Contains(block.Addr())
	})
}

func within(addr netip.Addr, list []netip.Prefix) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// isPublic tells whether an address is one of the Internet's. addr is not an address of IPv4 in IPv6's form.
func isPublic(addr netip.Addr) bool {
	if !addr.IsValid() || addr.Is6() && !global6.Contains(addr) {
		return false
	}
	return !within(addr, here) && !within(addr, metadata) && !within(addr, special)
}

// Elsewhere tells whether an address may be that of another machine, on the Internet or in a private network. It is not for
// those of this machine by their kind, whatever is link-local, groups of hosts, and metadata servers. Which other addresses
// this machine has is for the caller to find out.
func Elsewhere(addr netip.Addr) bool {
	addr = addr.Unmap()
	if !addr.IsValid() || addr.Zone() != "" || within(addr, here) || within(addr, metadata) {
		return false
	}
	if addr.Is4() {
		return true
	}
	for prefix, at := range translated6 {
		if prefix.Contains(addr) {
			all := addr.As16()
			return Elsewhere(netip.AddrFrom4([4]byte(all[at : at+4])))
		}
	}
	return global6.Contains(addr) || private6.Contains(addr)
}
