package fake

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/egress"
	"github.com/org/rollout-action/internal/environment"
)

// Serve adds a host to the world's network: who may reach host (a name or an address) at port, receives text.
func (w *World) Serve(host string, port uint16, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts[net.JoinHostPort(host, strconv.Itoa(int(port)))] = text
}

// network is what a machine may reach.
type network struct {
	world *World

	mu      sync.Mutex
	local   map[string]string // what servers on loopback say, by port
	set     environment.Network
	policy  egress.Policy
	changed chan struct{} // closed when it is set anew
}

// change ends the connections that there are: nothing of them arrives after it has returned.
func (n *network) change(to environment.Network) error {
	policy, err := egress.Parse(to.Hosts)
	if err != nil {
		return &environment.Error{Kind: environment.KindStart, Err: err}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.set, n.policy = to, policy
	close(n.changed)
	n.changed = make(chan struct{})
	return nil
}

// SetNetwork implements environment.NetworkSetter.
func (e *Environment) SetNetwork(ctx context.Context, to environment.Network) error {
	end, err := e.begin(ctx, "SetNetwork", running)
	if err != nil {
		return err
	}
	defer end()
	return e.m.network.change(to)
}

// connect returns what a host says, or an exit code of curl. direct connections bypass the proxy.
func (n *network) connect(host, port string, direct bool) (text string, changed <-chan struct{}, code int) {
	const noConnection, refused = 7, 22
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", nil, noConnection
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	addr, err := netip.ParseAddr(host)
	if host == "localhost" || err == nil && addr.IsLoopback() {
		text, ok := n.local[port]
		return text, n.changed, map[bool]int{false: noConnection}[ok]
	}
	if !n.set.Public() && (direct || n.set.Mode == environment.NetworkNone) {
		return "", nil, noConnection
	}
	if !n.set.Public() && !n.policy.Allows(host, uint16(number)) {
		if n.set.Refused != nil {
			n.set.Refused(environment.Refusal{Host: host, Port: uint16(number), Reason: "allowed_hosts does not list it"})
		}
		return "", nil, refused
	}
	n.world.mu.Lock()
	defer n.world.mu.Unlock()
	text, ok := n.world.hosts[net.JoinHostPort(host, port)]
	return text, n.changed, map[bool]int{false: noConnection}[ok]
}

// NetworkClient is environmenttest.Options.NetworkClient for this provider.
const NetworkClient = `
fetch() { curl -sf "http://$1/"; }
direct() { curl -sfp "http://$1/"; }
stream() { curl -sN "http://$1/"; }
serve() { say-on "$1" hello & }
`

// sayOn says a text on loopback, at a port, as long as it runs.
func sayOn(c *command) int {
	n := c.m().network
	n.mu.Lock()
	_, taken := n.local[c.args[0]]
	if !taken {
		n.local[c.args[0]] = c.args[1]
	}
	n.mu.Unlock()
	if taken {
		return 1
	}
	<-c.p.ctx.Done()
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.local, c.args[0])
	return 0
}

// curl prints what a host says; with -N again and again, until the connection ends. With -p, which is not curl's, it uses no proxy.
func curl(c *command) int {
	const badURL, partial = 3, 18
	address, err := url.Parse(c.args[0])
	if err != nil {
		return badURL
	}
	n := c.m().network
	text, changed, code := n.connect(address.Hostname(), address.Port(), c.flags['p'] != "")
	for code == 0 {
		n.mu.Lock() // nothing may be printed after a change
		select {
		case <-changed:
			code = partial
		case <-c.p.ctx.Done():
			code = partial
		default:
			_ = c.print("%s\n", text)
		}
		n.mu.Unlock()
		if c.flags['N'] == "" {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	return code
}
