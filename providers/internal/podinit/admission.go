package podinit

import (
	"crypto/subtle"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// helloTime is how long a connection to a guest may take to identify itself.
const helloTime = 20 * time.Second

// admission is the guest's end of the connection with its client.
type admission struct {
	serve func(stream *yamux.Stream) // serves a stream that the client has begun
	link  *link

	mu      sync.Mutex
	key     *key // of the client; nil until it has come
	session *yamux.Session
}

// admit attaches a connection to the link if its first bytes are the client's. It calls said when
// it has read them.
func (a *admission) admit(conn net.Conn, said func()) {
	_ = conn.SetDeadline(time.Now().Add(helloTime))
	first, err := readHello(conn)
	said()
	if err != nil || !a.knows(first) {
		refused := hello{secret: [32]byte{1}}
		_, _ = conn.Write(refused.bytes())
		conn.Close()
		return
	}
	answer := hello{received: a.link.detach()}
	if _, err := conn.Write(answer.bytes()); err != nil {
		conn.Close()
		return
	}
	_ = conn.SetDeadline(time.Time{})
	if err := a.link.attach(conn, first.received, nil); err != nil {
		conn.Close()
	}
}

// knows reports whether a hello is the client's. The first one is, for it comes before any process
// of the image has started.
func (a *admission) knows(h hello) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.key == nil && h.first:
		k := key(h.secret)
		a.key = &k
		go a.talk(k)
		return true
	case a.key == nil:
		return false
	}
	expected := a.key.resume()
	if h.first { // its answer may have been lost
		expected = *a.key
	}
	return subtle.ConstantTimeCompare(expected[:], h.secret[:]) == 1
}

// talk serves the client. It ends with the link.
func (a *admission) talk(k key) {
	config, err := k.configuration(guestSide, clientSide)
	if err != nil {
		a.link.end(err)
		return
	}
	encrypted := tls.Server(a.link, config)
	session, err := yamux.Server(encrypted, multiplexing())
	if err != nil {
		a.link.end(err)
		return
	}
	a.mu.Lock()
	a.session = session
	a.mu.Unlock()
	for {
		stream, err := session.AcceptStream()
		if err != nil {
			a.link.end(err)
			return
		}
		go a.serve(stream)
	}
}
