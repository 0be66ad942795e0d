package podinit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const (
	// linkBuffer is how many bytes may be on their way in each direction: what was sent and is not
	// acknowledged, and what was received and not read.
	linkBuffer = 1 << 20
	// maxFrame is the longest piece that is sent at once.
	maxFrame = 64 << 10
	// ackEvery is how many bytes are received before they are acknowledged.
	ackEvery = 128 << 10
)

// The frames of a carrier: a byte, eight bytes, and for data as many bytes as these say.
const (
	frameData = 'd' // the length of the data
	frameAck  = 'a' // how many bytes of all were received
)

// link is a connection whose bytes are carried by other connections, one after the other. Bytes
// that were lost when a carrier broke are sent again by the next one, so its users do not notice.
type link struct {
	mu      sync.Mutex
	changed *sync.Cond

	unacked []byte // what was written and is not acknowledged
	first   uint64 // the number of its first byte, which is that of all bytes that were acknowledged
	next    uint64 // the number of the first byte that the carrier was not given

	incoming []byte
	received uint64 // bytes
	acked    uint64 // bytes of received that were acknowledged

	carrier io.ReadWriteCloser // nil: none
	broken  func(error)        // is told when the carrier breaks
	heard   time.Time          // when something last arrived
	beats   bool               // this side gives signs of life
	beat    bool               // one is due
	err     error              // the link has ended
}

var _ net.Conn = (*link)(nil) // for TLS

func newLink() *link {
	l := &link{}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// detach closes the carrier, if there is one, and returns how many bytes were received, from where
// the other side goes on.
func (l *link) detach() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.carrier != nil {
		l.carrier.Close()
		l.carrier, l.broken = nil, nil
		l.changed.Broadcast()
	}
	return l.received
}

var errForgotten = errors.New("the other side asks for bytes that it has acknowledged already")

// attach goes on with a new carrier, after detach. has is how many bytes the other side has
// received. broken, if not nil, is called once when the carrier breaks, unless it was detached.
func (l *link) attach(carrier io.ReadWriteCloser, has uint64, broken func(error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if has < l.first || has > l.first+uint64(len(l.unacked)) {
		return errForgotten
	}
	l.acknowledge(has)
	l.next, l.acked = has, l.received
	l.carrier, l.broken, l.heard = carrier, broken, time.Now()
	l.changed.Broadcast()
	go l.receive(carrier)
	go l.send(carrier)
	if l.beats {
		go l.signal(carrier)
	}
	return nil
}

// signal has a carrier give signs of life.
func (l *link) signal(carrier io.ReadWriteCloser) {
	for {
		time.Sleep(beatEvery)
		l.mu.Lock()
		if l.carrier != carrier || l.err != nil {
			l.mu.Unlock()
			return
		}
		l.beat = true
		l.changed.Broadcast()
		l.mu.Unlock()
	}
}

// state returns whether there is a carrier, and when something last arrived.
func (l *link) state() (attached bool, heard time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.carrier != nil && l.err == nil, l.heard
}

// acknowledge drops the bytes that the other side has received.
func (l *link) acknowledge(has uint64) {
	if has > l.first && has <= l.first+uint64(len(l.unacked)) {
		l.unacked = append(l.unacked[:0], l.unacked[has-l.first:]...)
		l.first = has
	}
	l.changed.Broadcast()
}

// drop forgets a carrier that broke.
func (l *link) drop(carrier io.ReadWriteCloser, err error) {
	l.mu.Lock()
	var broken func(error)
	if l.carrier == carrier {
		broken = l.broken
		l.carrier, l.broken = nil, nil
		l.changed.Broadcast()
	}
	l.mu.Unlock()
	carrier.Close()
	if broken != nil {
		broken(err)
	}
}

func (l *link) receive(carrier io.ReadWriteCloser) {
	header := make([]byte, 9)
	buffer := make([]byte, maxFrame)
	for {
		if _, err := io.ReadFull(carrier, header); err != nil {
			l.drop(carrier, err)
			return
		}
		number := binary.BigEndian.Uint64(header[1:])
		l.mu.Lock()
		l.heard = time.Now()
		l.mu.Unlock()
		if header[0] == frameAck {
			l.mu.Lock()
			l.acknowledge(number)
			l.mu.Unlock()
			continue
		}
		if header[0] != frameData || number > maxFrame {
			l.drop(carrier, errors.New("what arrives is no frame"))
			return
		}
		if _, err := io.ReadFull(carrier, buffer[:number]); err != nil {
			l.drop(carrier, err)
			return
		}
		if !l.take(carrier, buffer[:number]) {
			return
		}
	}
}

// take stores bytes from a carrier, when there is space for them. It reports whether the carrier is
// still the current one.
func (l *link) take(carrier io.ReadWriteCloser, data []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.carrier == carrier && l.err == nil && len(l.incoming) > 0 && len(l.incoming)+len(data) > linkBuffer {
		l.changed.Wait()
	}
	if l.carrier != carrier || l.err != nil {
		return false // the other side sends it again
	}
	l.incoming = append(l.incoming, data...)
	l.received += uint64(len(data))
	l.changed.Broadcast()
	return true
}

func (l *link) send(carrier io.ReadWriteCloser) {
	frame := make([]byte, 0, 2*9+maxFrame)
	for {
		l.mu.Lock()
		for l.carrier == carrier && l.err == nil && l.next == l.first+uint64(len(l.unacked)) && l.received-l.acked < ackEvery && !l.beat {
			l.changed.Wait()
		}
		if l.carrier != carrier || l.err != nil {
			l.mu.Unlock()
			return
		}
		frame = frame[:0]
		if l.received > l.acked || l.beat {
			l.beat = false
			frame = binary.BigEndian.AppendUint64(append(frame, frameAck), l.received)
			l.acked = l.received
		}
		if waiting := l.unacked[l.next-l.first:]; len(waiting) > 0 {
			piece := waiting[:min(len(waiting), maxFrame)]
			frame = binary.BigEndian.AppendUint64(append(frame, frameData), uint64(len(piece)))
			frame = append(frame, piece...)
			l.next += uint64(len(piece))
		}
		l.mu.Unlock()
		if _, err := carrier.Write(frame); err != nil {
			l.drop(carrier, err)
			return
		}
	}
}

// Read implements net.Conn.
func (l *link) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.incoming) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		l.changed.Wait()
	}
	n := copy(p, l.incoming)
	l.incoming = append(l.incoming[:0], l.incoming[n:]...)
	l.changed.Broadcast()
	return n, nil
}

// Write implements net.Conn.
func (l *link) Write(p []byte) (written int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(p) > 0 {
		for l.err == nil && len(l.unacked) >= linkBuffer {
			l.changed.Wait()
		}
		if l.err != nil {
			return written, l.err
		}
		n := min(len(p), linkBuffer-len(l.unacked))
		l.unacked = append(l.unacked, p[:n]...)
		p, written = p[n:], written+n
		l.changed.Broadcast()
	}
	return written, nil
}

// end ends the link for good: reads and writes fail with err.
func (l *link) end(err error) {
	l.mu.Lock()
	if l.err == nil {
		l.err = err
	}
	carrier := l.carrier
	l.carrier, l.broken = nil, nil
	l.changed.Broadcast()
	l.mu.Unlock()
	if carrier != nil {
		carrier.Close()
	}
}

// ended returns why the link has ended, or nil.
func (l *link) ended() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close implements net.Conn.
func (l *link) Close() error {
	l.end(net.ErrClosed)
	return nil
}

type linkAddr struct{}

func (linkAddr) Network() string { return "rollout" }
func (linkAddr) String() string  { return "guest" }

// LocalAddr implements net.Conn.
func (l *link) LocalAddr() net.Addr { return linkAddr{} }

// RemoteAddr implements net.Conn.
func (l *link) RemoteAddr() net.Addr { return linkAddr{} }

// SetDeadline implements net.Conn. A link has no deadlines: who waits ends it.
func (l *link) SetDeadline(t time.Time) error {
	if t.IsZero() {
		return nil
	}
	return os.ErrNoDeadline
}

// SetReadDeadline implements net.Conn.
func (l *link) SetReadDeadline(t time.Time) error { return l.SetDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (l *link) SetWriteDeadline(t time.Time) error { return l.SetDeadline(t) }

// hello is the first message of both sides on each carrier. The client sends a secret: the key on
// the first carrier, which no process of an image can see, and afterwards one that is derived from
// it.
type hello struct {
	first    bool
	secret   [32]byte
	received uint64
}

const helloSize = 4 + 1 + 32 + 8

var helloMagic = [4]byte{'r', 'g', 2, '\n'}

func (h hello) bytes() []byte {
	out := append(make([]byte, 0, helloSize), helloMagic[:]...)
	if h.first {
		out = append(out, 1)
	} else {
		out = append(out, 0)
	}
	out = append(out, h.secret[:]...)
	return binary.BigEndian.AppendUint64(out, h.received)
}

var errOtherVersion = errors.New("the guest is of another version of rollout")

func readHello(r io.Reader) (hello, error) {
	raw := make([]byte, helloSize)
	if _, err := io.ReadFull(r, raw); err != nil {
		return hello{}, fmt.Errorf("wait for the first bytes: %w", err)
	}
	if [4]byte(raw[:4]) != helloMagic {
		return hello{}, errOtherVersion
	}
	return hello{first: raw[4] == 1, secret: [32]byte(raw[5:37]), received: binary.BigEndian.Uint64(raw[37:])}, nil
}
