package egress

import "net/netip"

// special are networks that no host of the Internet is in, or through which others are reached: this machine, private
// ones, those of clouds' metadata servers. Source: the IANA special-purpose address registries.
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
	"2001::/23",     // Teredo, ORCHID and the like
	"2001:db8::/32", // documentation
	"2002::/16",     // 6to4, which has addresses of IPv4 in it
	"3fff::/20",     // documentation
)

// global6 is where hosts of the Internet have their addresses of IPv6: everything else is special.
var global6 = netip.MustParsePrefix("2000::/3")

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
	for _, p := range special {
		if p.Bits() <= block.Bits() && p.Contains(block.Addr()) {
			return true
		}
	}
	return false
}

// isPublic tells whether an address is one of the Internet's. addr is not an address of IPv4 in IPv6's form.
func isPublic(addr netip.Addr) bool {
	if !addr.IsValid() || addr.Is6() && !global6.Contains(addr) {
		return false
	}
	for _, p := range special {
		if p.Contains(addr) {
			return false
		}
	}
	return true
}
