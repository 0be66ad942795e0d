package egress

import (
	"net/netip"
	"slices"
)

// local are the networks whose addresses never lead to a single host on another network: this
// machine's own, link-local ones, multicast.
var local = prefixes("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")

// metadata are the metadata servers of clouds that are not link-local. They give the machine's
// credentials to any program on it.
// Sources: the documentation of Alibaba, Azure, Oracle and AWS.
var metadata = prefixes("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::254/128")

// special are further networks that have no host of the Internet, or through which other networks
// are reached. Source: the IANA special-purpose address registries.
var special = prefixes(
	"10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"2001::/23",     // Teredo, ORCHID and the like
	"2001:db8::/32", // documentation
	"2002::/16",     // 6to4, which embeds IPv4 addresses
	"3fff::/20",     // documentation
)

// global6 contains the IPv6 addresses of all hosts of the Internet. All other addresses are
// special.
var global6 = netip.MustParsePrefix("2000::/3")

// private6 contains the private IPv6 networks.
var private6 = netip.MustParsePrefix("fc00::/7")

// translated6 are prefixes that embed an IPv4 address (NAT64, 6to4), with the byte at which it
// begins.
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

// isSpecial reports whether no address in a range is on the public Internet.
func isSpecial(block netip.Prefix) bool {
	if !block.Addr().Is4() && !global6.Overlaps(block) {
		return true
	}
	return slices.ContainsFunc(slices.Concat(local, metadata, special), func(p netip.Prefix) bool {
		return p.Bits() <= block.Bits() && p.Contains(block.Addr())
	})
}

func within(addr netip.Addr, list []netip.Prefix) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// isPublic reports whether an address is on the public Internet. addr must not be an IPv4 address
// in IPv6 form.
func isPublic(addr netip.Addr) bool {
	if !addr.IsValid() || addr.Is6() && !global6.Contains(addr) {
		return false
	}
	return !within(addr, local) && !within(addr, metadata) && !within(addr, special)
}

// MayBeRemote reports whether an address may be that of another machine, on the Internet or in a
// private network. It reports false for loopback, link-local and multicast addresses and for
// metadata servers. The caller has to find out which other addresses this machine has.
func MayBeRemote(addr netip.Addr) bool {
	addr = addr.Unmap()
	if !addr.IsValid() || addr.Zone() != "" || within(addr, local) || within(addr, metadata) {
		return false
	}
	if addr.Is4() {
		return true
	}
	for prefix, at := range translated6 {
		if prefix.Contains(addr) {
			all := addr.As16()
			return MayBeRemote(netip.AddrFrom4([4]byte(all[at : at+4])))
		}
	}
	return global6.Contains(addr) || private6.Contains(addr)
}
