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

// handleSYN handles a segment that belongs to no connection.
func (n *Net) handleSYN(id stack.TransportEndpointID, pkt *stack.PacketBuffer) bool {
	h := header.TCP(pkt.TransportHeader().Slice())
	if len(h) < header.TCPMinimumSize || h.Flags()&(header.TCPFlagSyn|header.TCPFlagAck) != header.TCPFlagSyn {
		return false
	}
	if n.isGateway(target(id).Addr()) {
		return false // the gateway serves only DNS
	}
	n.mu.Lock()
	_, known := n.syns[id]
	if known || n.closed || n.conns >= maxConns {
		n.mu.Unlock()
		return true
	}
	n.syns[id] = headersOf(pkt)
	n.conns++
	n.work.Add(1)
	n.mu.Unlock()
	if n.forwarder.HandlePacket(id, pkt) {
		return true
	}
	n.takeQuote(id)
	n.endConn()
	return false
}

// takeQuote returns and deletes the headers that were kept while a connection was established.
func (n *Net) takeQuote(id stack.TransportEndpointID) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	quote := n.syns[id]
	delete(n.syns, id)
	return quote
}

func (n *Net) endConn() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns--
	n.work.Done()
}

// connect connects to the outside, then accepts the sandbox's connection, and relays between the
// two.
func (n *Net) connect(r *tcp.ForwarderRequest) {
	defer n.endConn()
	id := r.ID()
	outside, err := n.open("tcp", target(id))
	if err != nil {
		quote := n.takeQuote(id)
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
	n.takeQuote(id)
	r.Complete(false)
	if failed != nil {
		reset(outside)
		return
	}
	inside := gonet.NewTCPConn(&queue, e)
	defer inside.Close()
	stop := context.AfterFunc(n.ctx, func() { e.Abort() })
	defer stop()
	relay(inside, e, outside)
}

// relay copies bytes both ways until both directions have ended. It passes on the end of one
// direction; if one side is reset, it resets the other.
func relay(inside *gonet.TCPConn, e tcpip.Endpoint, outside net.Conn) {
	broken := sync.OnceFunc(func() {
		e.Abort()
		reset(outside)
	})
	var down sync.WaitGroup
	down.Go(func() {
		if copyStream(inside, outside) != nil || inside.CloseWrite() != nil {
			broken()
		}
	})
	if copyStream(outside, inside) != nil || closeWrite(outside) != nil {
		broken()
	}
	down.Wait()
}

// streamBuffers pools the buffers of copyStream, of 64 KiB: the largest segment.
var streamBuffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// copyStream copies until from ends.
func copyStream(to io.Writer, from io.Reader) error {
	buf := streamBuffers.Get().(*[64 << 10]byte)
	defer streamBuffers.Put(buf)
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

// closeWrite ends the writing side of a connection.
func closeWrite(c net.Conn) error {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// reset ends a connection by a reset.
func reset(c net.Conn) {
	if l, ok := c.(interface{ SetLinger(sec int) error }); ok {
		_ = l.SetLinger(0)
	}
	_ = c.Close()
}

// headersOf returns a packet's headers, which errors about it quote.
func headersOf(pkt *stack.PacketBuffer) []byte {
	return slices.Concat(pkt.NetworkHeader().Slice(), pkt.TransportHeader().Slice())
}
