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
	// maxConns bounds the connections to a listener; more wait.
	maxConns = 256
	// maxHeader bounds the headers of a request and of a response.
	maxHeader  = 64 << 10
	headerTime = 30 * time.Second
	idleTime   = 2 * time.Minute
	// quietTime is the maximum idle time of a connection. Models think for minutes before they
	// answer.
	quietTime = 15 * time.Minute
)

// errClosed means that the policy was replaced, or the proxy closed, while a connection was being
// made.
var errClosed = errors.New("the proxy was closed meanwhile")

// Proxy is an HTTP proxy that forwards the traffic that its policy allows: requests with absolute
// URLs (http only) and CONNECT. It looks names up itself and connects to the addresses that it
// checked. Addresses that are not on the public Internet (this machine's, private ones, metadata
// servers) are reached only if the list has the address itself; a name alone never leads there.
//
// After a CONNECT to a name, TLS must ask for a listed name or for none, and may not hide it. On
// ports of TLS, such as 443, only TLS is forwarded. The rest of a connection is not inspected: a
// listed host can forward any data anywhere.
//
// Many goroutines may call its methods at once.
type Proxy struct {
	server  http.Server
	forward httputil.ReverseProxy
	find    lookupFunc
	// Dial connects to TCP addresses; nil means this machine's network. Set it before calling
	// Serve.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu      sync.Mutex
	policy  Policy
	refused func(Refusal)
	version int // of policy
	conns   map[io.Closer]struct{}
	closed  bool
}

// New returns a proxy that refuses everything until Set is called.
func New() *Proxy {
	p := &Proxy{find: lookup, conns: map[io.Closer]struct{}{}}
	quiet := log.New(io.Discard, "", 0)
	p.server = http.Server{
		Handler: http.HandlerFunc(p.handle), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeader, ErrorLog: quiet,
	}
	p.forward = httputil.ReverseProxy{
		Rewrite:      func(*httputil.ProxyRequest) {}, // the URL is complete, and Host follows from it
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { writeError(w, err) },
		ErrorLog:     quiet,
		Transport: &http.Transport{
			DialContext:            p.dialFor,
			DisableCompression:     true,
			MaxIdleConnsPerHost:    4,
			IdleConnTimeout:        headerTime,
			MaxResponseHeaderBytes: maxHeader,
		},
		FlushInterval: -1, // immediately
	}
	return p
}

// Set replaces the policy. When it returns, all connections that were made under the previous one
// are closed. If refused is not nil, it is called with each request that this policy refuses; it
// must not block.
func (p *Proxy) Set(policy Policy, refused func(Refusal)) {
	p.mu.Lock()
	p.policy, p.refused = policy, refused
	p.version++
	conns := p.conns
	p.conns = map[io.Closer]struct{}{}
	p.mu.Unlock()
	for conn := range conns {
		_ = conn.Close()
	}
}

// Serve serves the connections to l until l or the proxy is closed, and closes l.
func (p *Proxy) Serve(l net.Listener) error {
	err := p.server.Serve(netutil.LimitListener(l, maxConns))
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Close closes all connections and ends Serve.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Set(Policy{}, nil)
	return p.server.Close()
}

// current returns the policy, its callback for refusals and its version.
func (p *Proxy) current() (Policy, func(Refusal), int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.policy, p.refused, p.version
}

// keep records a connection that was made under a version of the policy, so that Set can close it.
// If the policy has been replaced, keep closes the connection.
func (p *Proxy) keep(conn io.Closer, version int) error {
	p.mu.Lock()
	isCurrent := !p.closed && version == p.version
	if isCurrent {
		p.conns[conn] = struct{}{}
	}
	p.mu.Unlock()
	if !isCurrent {
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

// connect connects to a target if the policy allows it.
func (p *Proxy) connect(ctx context.Context, t target) (net.Conn, error) {
	policy, refused, version := p.current()
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
	if err := p.keep(kept, version); err != nil {
		return nil, err
	}
	return kept, nil
}

// dialFor is connect for forwarded requests.
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
			writeError(w, err)
			return
		}
		p.forward.ServeHTTP(w, r)
	default:
		http.Error(w, "rollout: this is a proxy: it accepts http:// URLs, and CONNECT for others", http.StatusBadRequest)
	}
}

// check checks the name in a request that is to be forwarded, because the request may reuse a
// connection that was made for another one. The address is checked when a connection is made.
func (p *Proxy) check(r *http.Request) error {
	t, err := parseTarget(r.URL.Host, portHTTP)
	if err != nil {
		return err
	}
	policy, refused, _ := p.current()
	_, err = policy.admitted(r.Context(), t, func(context.Context, string) ([]netip.Addr, error) { return anyPublic, nil })
	if no := new(Refusal); errors.As(err, &no) && refused != nil {
		refused(*no)
	}
	return err
}

// anyPublic stands for the addresses of a name when only the name is checked.
var anyPublic = []netip.Addr{netip.AddrFrom4([4]byte{1, 1, 1, 1})}

// writeError answers a request with the reason of its failure.
func writeError(w http.ResponseWriter, err error) {
	code := http.StatusBadGateway
	switch no := new(Refusal); {
	case errors.As(err, &no):
		code = http.StatusForbidden
	case errors.Is(err, errTarget):
		code = http.StatusBadRequest
	}
	http.Error(w, "rollout: "+err.Error(), code)
}
