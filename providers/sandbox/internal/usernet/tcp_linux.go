package usernet

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// syn handles a segment that belongs to no connection.
func (n *Net) syn(id stack.TransportEndpointID, pkt *stack.PacketBuffer) bool {
	h := header.TCP(pkt.TransportHeader().Slice())
	if len(h) < header.TCPMinimumSize || h.Flags()&(header.TCPFlagSyn|header.TCPFlagAck) != header.TCPFlagSyn {
		return false
	}
	if n.isGateway(target(id).Addr()) {
		return false // nothing but names is served there
	}
	n.mu.Lock()
	_, known := n.syns[id]
	if known || n.closed || n.conns >= maxConns {
		n.mu.Unlock()
		return true
	}
	n.syns[id] = quoted(pkt)
	n.conns++
	n.work.Add(1)
	n.mu.Unlock()
	if n.forwarder.HandlePacket(id, pkt) {
		return true
	}
	n.connected(id)
	n.disconnected()
	return false
}

// connected forgets what was kept while a connection was made, and returns it.
func (n *Net) connected(id stack.TransportEndpointID) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	quote := n.syns[id]
	delete(n.syns, id)
	return quote
}

func (n *Net) disconnected() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns--
	n.work.Done()
}

// connect makes a connection to the outside, accepts the sandbox's when it stands, and carries what they say.
func (n *Net) connect(r *tcp.ForwarderRequest) {
	defer n.disconnected()
	id := r.ID()
	outside, err := n.open("tcp", target(id))
	if err != nil {
		quote := n.connected(id)
		reset := errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ECONNRESET)
		r.Complete(reset)
		if !reset {
			n.unreachable(quote, err)
		}
		return
	}
	defer outside.Close()
	var queue waiter.Queue
	e, failed := r.CreateEndpoint(&queue)
	n.connected(id)
	r.Complete(false)
	if failed != nil {
		cut(outside)
		return
	}
	inside := gonet.NewTCPConn(&queue, e)
	defer inside.Close()
	stop := context.AfterFunc(n.ctx, func() { e.Abort() })
	defer stop()
	join(inside, e, outside)
}

// join carries bytes both ways until both have ended. The end of one direction is passed on as such; where one side breaks
// off, so does the other.
func join(inside *gonet.TCPConn, e tcpip.Endpoint, outside net.Conn) {
	broken := sync.OnceFunc(func() {
		e.Abort()
		cut(outside)
	})
	var down sync.WaitGroup
	down.Go(func() {
		if carry(inside, outside) != nil || inside.CloseWrite() != nil {
			broken()
		}
	})
	if carry(outside, inside) != nil || closeWrite(outside) != nil {
		broken()
	}
	down.Wait()
}

// carryBuffers are for carry, of 64 KiB: as much as comes with one segment at most.
var carryBuffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// carry copies to the end of from.
func carry(to io.Writer, from io.Reader) error {
	buf := carryBuffers.Get().(*[64 << 10]byte)
	defer carryBuffers.Put(buf)
	for {
		size, err := from.Read(buf[:])
		if size > 0 {
			if _, writing := to.Write(buf[:size]); writing != nil {
				return writing
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// closeWrite says that nothing more comes.
func closeWrite(c net.Conn) error {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// cut ends a connection by a reset.
func cut(c net.Conn) {
	if l, ok := c.(interface{ SetLinger(sec int) error }); ok {
		_ = l.SetLinger(0)
	}
	_ = c.Close()
}

// quoted is what errors about a packet quote of it: its headers.
func quoted(pkt *stack.PacketBuffer) []byte {
	return slices.Concat(pkt.NetworkHeader().Slice(), pkt.TransportHeader().Slice())
}
