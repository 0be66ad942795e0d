package usernet

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// flowTime is the idle timeout of a flow of datagrams. Source: RFC 4787, REQ-5 (two minutes at
// least).
const flowTime = 2 * time.Minute

// flow is an exchange of datagrams between a port of the sandbox and one of another host.
type flow struct {
	last atomic.Int64 // Unix nanoseconds
	end  context.CancelFunc
}

func (f *flow) touch() { f.last.Store(time.Now().UnixNano()) }

// deadline returns when a flow expires if no more datagrams arrive.
func (f *flow) deadline() time.Time { return time.Unix(0, f.last.Load()).Add(flowTime) }

// handleDatagram returns the handler of datagrams that belong to no flow.
func (n *Net) handleDatagram(s *stack.Stack) func(stack.TransportEndpointID, *stack.PacketBuffer) bool {
	return func(id stack.TransportEndpointID, pkt *stack.PacketBuffer) bool {
		to, quote := target(id), headersOf(pkt)
		if n.isGateway(to.Addr()) {
			return false
		}
		if !reachable(to.Addr()) {
			n.unreachable(quote, errRefused)
			return true
		}
		f, ctx := n.newFlow(id)
		if f == nil {
			return true
		}
		var queue waiter.Queue
		e, err := udp.NewForwarderRequest(s, id, pkt.Clone()).CreateEndpoint(&queue)
		if err != nil {
			n.endFlow(id, f)
			return true
		}
		go func() {
			defer n.endFlow(id, f)
			inside := gonet.NewUDPConn(&queue, e)
			defer inside.Close()
			outside, err := n.opts.Dial(ctx, "udp", to.String())
			if err != nil {
				n.unreachable(quote, err)
				return
			}
			defer outside.Close()
			n.exchange(ctx, f, inside, outside, quote)
		}()
		return true
	}
}

// newFlow adds a flow. It ends the flow that was idle for longest if there are too many.
func (n *Net) newFlow(id stack.TransportEndpointID) (*flow, context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, nil
	}
	if len(n.flows) >= maxFlows {
		var quiet stack.TransportEndpointID
		var oldest *flow
		for other, f := range n.flows {
			if oldest == nil || f.last.Load() < oldest.last.Load() {
				quiet, oldest = other, f
			}
		}
		oldest.end()
		delete(n.flows, quiet)
	}
	ctx, end := context.WithCancel(n.ctx)
	f := &flow{end: end}
	f.touch()
	n.flows[id] = f
	n.work.Add(1)
	return f, ctx
}

func (n *Net) endFlow(id stack.TransportEndpointID, f *flow) {
	f.end()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.flows[id] == f {
		delete(n.flows, id)
	}
	n.work.Done()
}

// datagramSize is the largest size of a datagram.
const datagramSize = 65535

var datagramBuffers = sync.Pool{New: func() any { return new([datagramSize]byte) }}

// exchange relays datagrams until the flow was idle for flowTime, or ctx ends.
func (n *Net) exchange(ctx context.Context, f *flow, inside, outside net.Conn, quote []byte) {
	ctx, end := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() {
		_ = inside.Close()
		_ = outside.Close()
	})
	defer stop()
	var out sync.WaitGroup
	out.Go(func() {
		defer end()
		n.send(f, outside, inside, quote)
	})
	n.send(f, inside, outside, quote)
	end()
	out.Wait()
}

// send relays datagrams in one direction.
func (n *Net) send(f *flow, to, from net.Conn, quote []byte) {
	buf := datagramBuffers.Get().(*[datagramSize]byte)
	defer datagramBuffers.Put(buf)
	for {
		_ = from.SetReadDeadline(f.deadline())
		size, err := from.Read(buf[:])
		late, isNet := err.(net.Error) //nolint:errorlint // the stack's is not wrapped
		switch {
		case isNet && late.Timeout() && time.Now().Before(f.deadline()):
			continue // traffic in the other direction
		case errors.Is(err, unix.ECONNREFUSED): // for an earlier datagram
			n.unreachable(quote, err)
			continue
		case err != nil:
			return
		}
		f.touch()
		if _, err := to.Write(buf[:size]); errors.Is(err, unix.ECONNREFUSED) { // an earlier one
			n.unreachable(quote, err)
			_, _ = to.Write(buf[:size])
		}
	}
}
