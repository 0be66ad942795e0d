package environment

import (
	"fmt"
	"net/netip"
	"slices"
)

// NetworkMode says how much of the network the processes of an environment can use.
type NetworkMode string

// The modes. Empty is NetworkPublic.
const (
	// NetworkPublic is the provider's ordinary network.
	NetworkPublic NetworkMode = "public"
	// NetworkNone is a loopback device of the environment's own and nothing else: no address can be reached, and no
	// name looked up.
	NetworkNone NetworkMode = "none"
	// NetworkAllowlist is NetworkNone and one door: an HTTP proxy on the environment's loopback that connects to the
	// hosts of the list. Commands find it in HTTP_PROXY and the like. Looking up names is left to the proxy.
	NetworkAllowlist NetworkMode = "allowlist"
)

// Network is what an environment may reach. The zero value is NetworkPublic.
type Network struct {
	Mode NetworkMode
	// Hosts are what NetworkAllowlist lets through, as package egress reads them.
	Hosts []string
	// Refused, if not nil, hears of each request that the door refused. It is called by any goroutine, many at once,
	// also while SetNetwork or Destroy runs, and must not block.
	Refused func(Refusal)
}

// Refusal is a request that the door of NetworkAllowlist did not let through. Host comes from inside the environment: it is
// hostile, though no longer than a name may be.
type Refusal struct {
	Host   string // name or address, without the port
	Port   uint16
	Listed bool   // the list has it, and it was refused for Reason
	Reason string // for people, after "because"
}

// Is tells whether the two let the same through.
func (n Network) Is(other Network) bool {
	return n.mode() == other.mode() && (n.mode() != NetworkAllowlist || slices.Equal(n.Hosts, other.Hosts))
}

// Public tells whether nothing is kept from the environment.
func (n Network) Public() bool { return n.mode() == NetworkPublic }

func (n Network) mode() NetworkMode {
	if n.Mode == "" {
		return NetworkPublic
	}
	return n.Mode
}

// String is the network in words: "none", or "allowlist (pypi.org, 192.0.2.1:8080)".
func (n Network) String() string {
	if n.mode() != NetworkAllowlist {
		return string(n.mode())
	}
	return fmt.Sprintf("%s %v", n.Mode, n.Hosts)
}

// ProxyVariables are the variables by which commands find a door that listens on at.
func ProxyVariables(at netip.AddrPort) map[string]string {
	proxy := "http://" + at.String()
	const direct = "localhost,127.0.0.1,::1"
	return map[string]string{
		"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": direct,
		"http_proxy": proxy, "https_proxy": proxy, "all_proxy": proxy, "no_proxy": direct,
	}
}
