package egress

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

const (
	// maxConns bounds the connections of one door; more wait.
	maxConns = 256
	// maxHeader bounds the header of a request, and of an answer.
	maxHeader  = 64 << 10
	headerTime = 30 * time.Second
	idleTime   = 2 * time.Minute
	// quietTime is how long a connection may carry nothing. Models think for minutes before they answer.
	quietTime = 15 * time.Minute
)

// errClosed: what was being done was overtaken by another policy, or the end.
var errClosed = errors.New("the door was closed meanwhile")

// Proxy is an HTTP proxy that lets through what its policy allows: requests with absolute addresses (http only) and
// CONNECT. It looks names up itself and connects to the very addresses that it has checked. Addresses that are not of the
// Internet (this machine's, private ones, metadata servers) are reached only if the list has the address itself: a
// name alone never leads there.
//
// In a CONNECT to a name, TLS must ask for a name that is listed as well, or for none, and not hide it. On ports of TLS, such as
// 443, nothing else is let through. What else goes through a connection is not looked at: who is listed can pass on anything
// to anybody.
//
// Its methods may be called by many goroutines at once.
type Proxy struct {
	server  http.Server
	forward httputil.ReverseProxy
	find    lookupFunc
	// Dial makes connections to addresses, tcp ones; nil: this machine's network. It is set before Serve is called.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu      sync.Mutex
	policy  Policy
	refused func(Refusal)
	turn    int // counts the policies
	conns   map[io.Closer]struct{}
	closed  bool
}

// New makes a proxy that lets nothing through.
func New() *Proxy {
	p := &Proxy{find: lookup, conns: map[io.Closer]struct{}{}}
	quiet := log.New(io.Discard, "", 0)
	p.server = http.Server{
		Handler: http.HandlerFunc(p.handle), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeader, ErrorLog: quiet,
	}
	p.forward = httputil.ReverseProxy{
		Rewrite:      func(*httputil.ProxyRequest) {}, // the address is complete, and Host follows from it
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { answer(w, err) },
		ErrorLog:     quiet,
		Transport: &http.Transport{
			DialContext:            p.dialFor,
			DisableCompression:     true,
			MaxIdleConnsPerHost:    4,
			IdleConnTimeout:        headerTime,
			MaxResponseHeaderBytes: maxHeader,
		},
		FlushInterval: -1, // as it comes
	}
	return p
}

// Set puts another policy in force. When it returns, no connection lives that was made under another one. refused,
// if not nil, hears of each request that this policy refuses; it must not block.
func (p *Proxy) Set(policy Policy, refused func(Refusal)) {
	p.mu.Lock()
	p.policy, p.refused = policy, refused
	p.turn++
	conns := p.conns
	p.conns = map[io.Closer]struct{}{}
	p.mu.Unlock()
	for conn := range conns {
		_ = conn.Close()
	}
}

// Serve serves those who connect to l until l ends or the proxy is closed, and closes l.
func (p *Proxy) Serve(l net.Listener) error {
	err := p.server.Serve(netutil.LimitListener(l, maxConns))
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Close ends all connections and everything that Serve serves.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Set(Policy{}, nil)
	return p.server.Close()
}

// now is what is in force.
func (p *Proxy) now() (Policy, func(Refusal), int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.policy, p.refused, p.turn
}

// keep remembers a connection that was made under a policy, for the time when it is not in force any more. If that has come
// already, the connection is closed.
func (p *Proxy) keep(conn io.Closer, turn int) error {
	p.mu.Lock()
	current := !p.closed && turn == p.turn
	if current {
		p.conns[conn] = struct{}{}
	}
	p.mu.Unlock()
	if !current {
		_ = conn.Close()
		return errClosed
	}
	return nil
}

func (p *Proxy) forget(conn io.Closer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

// connect connects to a target if the policy in force lets it.
func (p *Proxy) connect(ctx context.Context, t target) (net.Conn, error) {
	policy, refused, turn := p.now()
	addrs, err := policy.admitted(ctx, t, p.find)
	var conn net.Conn
	if err == nil {
		conn, err = p.dial(ctx, addrs, t.port)
	}
	if no := new(Refusal); errors.As(err, &no) && refused != nil {
		refused(*no)
	}
	if err != nil {
		return nil, err
	}
	kept := &upstream{Conn: conn, proxy: p}
	kept.touch()
	if err := p.keep(kept, turn); err != nil {
		return nil, err
	}
	return kept, nil
}

// dialFor is connect for requests that are passed on.
func (p *Proxy) dialFor(ctx context.Context, _, address string) (net.Conn, error) {
	t, err := parseTarget(address, portHTTP)
	if err != nil {
		return nil, err
	}
	return p.connect(ctx, t)
}

func (p *Proxy) handle(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		p.tunnel(w, r)
	case r.URL.Scheme == "http" && r.URL.Host != "":
		if err := p.check(r); err != nil {
			answer(w, err)
			return
		}
		p.forward.ServeHTTP(w, r)
	default:
		http.Error(w, "rollout: this is a proxy: it takes http:// addresses, and CONNECT for others", http.StatusBadRequest)
	}
}

// check looks at a request to be passed on: the connection that it takes may have been made for another one. A refusal of
// the address comes when one is made.
func (p *Proxy) check(r *http.Request) error {
	t, err := parseTarget(r.URL.Host, portHTTP)
	if err != nil {
		return err
	}
	policy, refused, _ := p.now()
	_, err = policy.admitted(r.Context(), t, func(context.Context, string) ([]netip.Addr, error) { return anyPublic, nil })
	if no := new(Refusal); errors.As(err, &no) && refused != nil {
		refused(*no)
	}
	return err
}

// anyPublic stands for the addresses of a name when only the name is judged.
var anyPublic = []netip.Addr{netip.AddrFrom4([4]byte{1, 1, 1, 1})}

// answer tells a client why it does not get what it asked for.
func answer(w http.ResponseWriter, err error) {
	code := http.StatusBadGateway
	switch no := new(Refusal); {
	case errors.As(err, &no):
		code = http.StatusForbidden
	case errors.Is(err, errTarget):
		code = http.StatusBadRequest
	}
	http.Error(w, "rollout: "+err.Error(), code)
}
