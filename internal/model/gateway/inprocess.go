package gateway

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// Transport returns a transport whose requests, to any host, the session answers inside this
// process. It sets the session's token. Its connections end when the session is closed.
func (s *Session) Transport() http.RoundTripper {
	l := &inProcessListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	go s.Serve(l)
	return &inProcessTransport{token: s.token, next: &http.Transport{DialContext: l.dial, DisableCompression: true}}
}

// inProcessTransport adds the session's token to requests.
type inProcessTransport struct {
	token string
	next  *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (t *inProcessTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+t.token)
	return t.next.RoundTrip(r)
}

// CloseIdleConnections closes connections that are idle; http.Client calls it.
func (t *inProcessTransport) CloseIdleConnections() { t.next.CloseIdleConnections() }

// inProcessListener accepts connections from this process.
type inProcessListener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *inProcessListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, errSealed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *inProcessListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *inProcessListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *inProcessListener) Addr() net.Addr { return insideAddr{} }

type insideAddr struct{}

// Network implements net.Addr.
func (insideAddr) Network() string { return "inside" }

// String implements net.Addr.
func (insideAddr) String() string { return "inside" }
