package model

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/org/rollout-action/internal/model/inspect"
	"github.com/org/rollout-action/internal/model/sse"
)

// Transport returns a transport whose requests, to any host, the session answers inside this
// process. It sets the session's token. Its connections end when the session is closed.
func (s *Session) Transport() http.RoundTripper {
	l := &insideListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	go s.Serve(l)
	return &insideTransport{token: s.token, next: &http.Transport{DialContext: l.dial, DisableCompression: true}}
}

// insideTransport adds the session's token to requests.
type insideTransport struct {
	token string
	next  *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (t *insideTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+t.token)
	return t.next.RoundTrip(r)
}

// CloseIdleConnections closes connections that are idle; http.Client calls it.
func (t *insideTransport) CloseIdleConnections() { t.next.CloseIdleConnections() }

// insideListener accepts connections from this process.
type insideListener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *insideListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
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
func (l *insideListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *insideListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *insideListener) Addr() net.Addr { return insideAddr{} }

type insideAddr struct{}

// Network implements net.Addr.
func (insideAddr) Network() string { return "inside" }

// String implements net.Addr.
func (insideAddr) String() string { return "inside" }

// EventReader reads the data of server-sent events.
type EventReader struct{ from *sse.Reader }

// NewEventReader returns a reader of the events in r.
func NewEventReader(r io.Reader) *EventReader { return &EventReader{sse.NewReader(r)} }

// errLongEvent is the error of an EventReader for an event that is too long for memory.
var errLongEvent = errors.New("an event of the stream is longer than 64 MiB")

// Next returns the data of the next event with data. At the end of the stream it returns io.EOF,
// within an event io.ErrUnexpectedEOF. The last event needs no blank line. Events may be up to 64
// MiB long.
func (r *EventReader) Next() ([]byte, error) {
	for {
		e, err := nextEvent(r.from)
		switch {
		case err != nil:
			return nil, err
		case e.Long:
			return nil, errLongEvent
		case len(e.Data) > 0:
			return e.Data, nil
		}
	}
}

// nextEvent returns the next event of a stream. The last one counts also without the blank line
// that ends it, as clients take it, if its data is whole; if not, the error is io.ErrUnexpectedEOF.
func nextEvent(from *sse.Reader) (sse.Event, error) {
	e, err := from.Next()
	if errors.Is(err, io.EOF) && len(e.Data) > 0 {
		err = io.ErrUnexpectedEOF
		if inspect.Valid(e.Data) || isDone(e.Data) {
			err = nil
		}
	}
	return e, err
}
