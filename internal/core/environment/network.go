package environment

import (
	"fmt"
	"net/netip"
	"slices"
)

// NetworkMode selects how much of the network the processes of an environment can use.
type NetworkMode string

// The modes. Empty is NetworkPublic.
const (
	// NetworkPublic is the provider's usual network.
	NetworkPublic NetworkMode = "public"
	// NetworkNone is a loopback device and nothing else: no address can be reached, and no name
	// resolved.
	NetworkNone NetworkMode = "none"
	// NetworkAllowlist is NetworkNone with an HTTP proxy on the environment's loopback device that
	// connects to the listed hosts. Commands find it in HTTP_PROXY and similar variables. Only the
	// proxy resolves names.
	NetworkAllowlist NetworkMode = "allowlist"
)

// Network describes the addresses that an environment can reach. The zero value is NetworkPublic.
type Network struct {
	Mode NetworkMode
	// Hosts are the hosts that NetworkAllowlist allows, in the syntax of package egress.
	Hosts []string
	// Refused, if not nil, is called with each request that the proxy refused. It is called by
	// several goroutines at once, also during SetNetwork or Destroy, and must not block.
	Refused func(Refusal)
}

// Refusal is a request that the proxy of NetworkAllowlist refused. Host comes from inside the
// environment and is not trusted, but is no longer than a name may be.
type Refusal struct {
	Host   string // name or address, without the port
	Port   uint16
	Listed bool   // it is listed, but was refused for Reason
	Reason string // for users, to follow "because"
}

// Is reports whether both networks allow the same hosts.
func (n Network) Is(other Network) bool {
	return n.mode() == other.mode() && (n.mode() != NetworkAllowlist || slices.Equal(n.Hosts, other.Hosts))
}

// Public reports whether the environment has full access.
func (n Network) Public() bool { return n.mode() == NetworkPublic }

func (n Network) mode() NetworkMode {
	if n.Mode == "" {
		return NetworkPublic
	}
	return n.Mode
}

// String returns a description: "none", or "allowlist (pypi.org, 192.0.2.1:8080)".
func (n Network) String() string {
	if n.mode() != NetworkAllowlist {
		return string(n.mode())
	}
	return fmt.Sprintf("%s %v", n.Mode, n.Hosts)
}

// ProxyVariables returns the environment variables that make commands use a proxy at the address.
func ProxyVariables(at netip.AddrPort) map[string]string {
	proxy := "http://" + at.String()
	const direct = "localhost,127.0.0.1,::1"
	return map[string]string{
		"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": direct,
		"http_proxy": proxy, "https_proxy": proxy, "all_proxy": proxy, "no_proxy": direct,
	}
}
