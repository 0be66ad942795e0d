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

// Serve makes a host of the world's own network: whoever may reach host (a name or an address) at port gets
// text. It is all that there is outside of environments; nothing leads to the real network.
func (w *World) Serve(host string, port uint16, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts[net.JoinHostPort(host, strconv.Itoa(int(port)))] = text
}

// network is what a machine may reach.
type network struct {
	world *World

	mu      sync.Mutex
	local   map[uint16]string // what is said on loopback, by port
	set     environment.Network
	policy  egress.Policy
	changed chan struct{} // closed when it is set anew
}

func newNetwork(w *World) *network {
	return &network{world: w, local: map[uint16]string{}, changed: make(chan struct{})}
}

// change ends what was connected before: commands in connections notice at once, and may not print any more.
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

// The exit codes of curl. Source: curl(1).
const (
	curlURL       = 3
	curlNoConnect = 7
	curlRefused   = 22 // with -f, for an answer of 400 or more
	curlPartial   = 18
)

// connect finds what a host says, or the exit code of a curl that did not get to it. direct is past the door.
func (n *network) connect(host string, port uint16, direct bool) (text string, changed <-chan struct{}, code int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if isLoopback(host) { // the machine's own, whatever the world has there
		if said, ok := n.local[port]; ok {
			return said, n.changed, 0
		}
		return "", nil, curlNoConnect
	}
	if !n.set.Public() && (direct || n.set.Mode == environment.NetworkNone) {
		return "", nil, curlNoConnect
	}
	if !n.set.Public() && !n.policy.Allows(host, port) {
		if n.set.Refused != nil {
			n.set.Refused(environment.Refusal{Host: host, Port: port, Reason: "allowed_hosts does not list it"})
		}
		return "", nil, curlRefused
	}
	n.world.mu.Lock()
	text, ok := n.world.hosts[net.JoinHostPort(host, strconv.Itoa(int(port)))]
	n.world.mu.Unlock()
	if !ok {
		return "", nil, curlNoConnect
	}
	return text, n.changed, 0
}

// isLoopback tells whether a host is the machine itself.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// SetNetwork implements environment.NetworkSetter. What is cut off is the world's own network: there is no other.
func (e *Environment) SetNetwork(ctx context.Context, to environment.Network) error {
	end, err := e.begin(ctx, "network", running)
	if err != nil {
		return err
	}
	defer end()
	return e.m.network.change(to)
}

// netCommands use the network.
var netCommands = map[string]func(*command) int{"curl": curl, "say-on": sayOn}

// NetworkClient are functions that reach for a host:port by way of the door (fetch, and stream until the connection
// ends) and past it (direct), and one that serves on loopback in the background.
const NetworkClient = `
fetch() { curl -sf "http://$1/"; }
direct() { curl -sf --noproxy=all "http://$1/"; }
stream() { curl -sN "http://$1/"; }
serve() { say-on "$1" hello & }
`

// sayOn says a text on loopback, at a port, as long as it runs.
func sayOn(c *command) int {
	if len(c.args) != 2 {
		return c.usage("want a port and a text")
	}
	port, err := strconv.ParseUint(c.args[0], 10, 16)
	if err != nil {
		return c.usage("%q is no port", c.args[0])
	}
	n := c.m().network
	n.mu.Lock()
	_, taken := n.local[uint16(port)]
	if !taken {
		n.local[uint16(port)] = c.args[1]
	}
	n.mu.Unlock()
	if taken {
		return 1
	}
	<-c.p.ctx.Done()
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.local, uint16(port))
	return 0
}

// streamPause is between the lines of curl -N.
const streamPause = 5 * time.Millisecond

// curl gets what a host of the world says; with -N again and again, until the connection is cut. With --noproxy it
// does not use the door.
func curl(c *command) int {
	flags, err := c.options("sSfNm:", "silent=s", "fail=f", "no-buffer=N", "noproxy=p")
	if err != nil || len(c.args) != 1 {
		return c.usage("want one address (%v)", err)
	}
	address, err := url.Parse(c.args[0])
	if err != nil || address.Scheme != "http" && address.Scheme != "https" {
		return curlURL
	}
	port := map[string]uint64{"http": 80, "https": 443}[address.Scheme]
	if text := address.Port(); text != "" {
		if port, err = strconv.ParseUint(text, 10, 16); err != nil {
			return curlURL
		}
	}
	_, direct := flags['p']
	n := c.m().network
	text, changed, code := n.connect(address.Hostname(), uint16(port), direct)
	if code != 0 {
		return code
	}
	for c.sayWhile(changed, text) {
		if _, again := flags['N']; !again {
			return 0
		}
		select {
		case <-time.After(streamPause):
		case <-c.p.ctx.Done():
		}
	}
	return curlPartial
}

// sayWhile prints a line unless the network was changed: not even the line that was on its way may come after that.
func (c *command) sayWhile(changed <-chan struct{}, text string) bool {
	n := c.m().network
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-changed:
		return false
	default:
		return c.print("%s\n", text)
	}
}
