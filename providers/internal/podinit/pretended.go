package podinit

import (
	"net"

	"github.com/hashicorp/yamux"
)

// Pretended is a guest without a container, for tests and measurements of all that is between
// guests and their clients: every command succeeds at once and prints nothing, and files that are
// copied to it are gone.
type Pretended struct{ admission }

// Pretend returns a new one.
func Pretend() *Pretended {
	p := &Pretended{}
	p.admission = admission{link: newLink(), serve: p.handle}
	return p
}

// Admit serves a connection that Connector would carry. It does not wait for the end.
func (p *Pretended) Admit(conn net.Conn) { p.admit(conn, func() {}) }

// Close ends the connection.
func (p *Pretended) Close() { p.link.end(net.ErrClosed) }

func (p *Pretended) handle(stream *yamux.Stream) {
	defer stream.Close()
	var r request
	if err := readMessage(stream, &r); err != nil {
		return
	}
	switch r.Op {
	case opExec:
		if err := writeFrame(stream, frameBegun, nil); err == nil {
			_ = writeReply(stream, reply{}) // if it fails, the client is gone
		}
	case opUnpack:
		if _, err := readFrames(stream, func(byte, []byte) error { return nil }); err == nil {
			_ = writeMessage(stream, reply{})
		}
	case opSetUp, opKillAll, opStay, opMemory, opProcesses:
		_ = writeMessage(stream, reply{})
	default:
		_ = writeMessage(stream, reply{Problem: "this guest is pretended"})
	}
}
