package mailbox

import (
	"io"
	"net"
	"sync"
	"time"
)

const (
	// maxKept bounds the bytes that a mailbox keeps for its client.
	maxKept = 1 << 20
	// takeTime bounds the time in which a mailbox takes the data of a letter.
	takeTime = 8 * time.Second
	// maxWait bounds letter.wait.
	maxWait = 15 * time.Second
)

// Mailboxes are the connections of clients that send letters.
type Mailboxes struct {
	accept func(net.Conn)

	mu    sync.Mutex
	boxes map[id]*box
}

// New returns Mailboxes. accept gets a connection for each mailbox that a client begins, in a
// separate goroutine.
func New(accept func(net.Conn)) *Mailboxes {
	return &Mailboxes{accept: accept, boxes: map[id]*box{}}
}

// Serve answers the letter on a connection. Delivering a letter again, at once or later, has no
// further effect.
func (m *Mailboxes) Serve(conn io.ReadWriteCloser) {
	defer conn.Close()
	l, err := readLetter(conn)
	if err != nil {
		return
	}
	reply := answer{state: unknown}
	if b := m.find(l); b != nil {
		reply = b.answer(l)
	}
	_, _ = conn.Write(reply.bytes()) // if it is lost, the client sends the letter again
}

// find returns the mailbox of a letter. The first letter of a client makes it.
func (m *Mailboxes) find(l letter) *box {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.boxes[l.box]; b != nil {
		return b
	}
	if l.at > 0 || l.ack > 0 {
		return nil
	}
	for _, earlier := range m.boxes {
		go earlier.drop() // there is one client, which has begun anew
	}
	own, theirs := net.Pipe()
	b := &box{conn: own, changed: make(chan struct{}), taking: make(chan struct{}, 1)}
	m.boxes[l.box] = b
	go b.collect()
	go m.accept(theirs)
	return b
}

// box is a mailbox.
type box struct {
	conn   net.Conn
	taking chan struct{} // has a value while a letter's data are written to conn

	mu       sync.Mutex
	changed  chan struct{} // is closed when something changes
	received uint64
	first    uint64 // the number of the first byte of kept
	kept     []byte
	ended    bool
}

// drop ends a mailbox that has no client any more. What remains of it answers letters that are
// late.
func (b *box) drop() {
	b.conn.Close()
	b.change(func() { b.ended, b.kept = true, nil })
}

// change changes the mailbox and wakes those that wait.
func (b *box) change(how func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	how()
	close(b.changed)
	b.changed = make(chan struct{})
}

// await waits until a condition holds, and reports whether it does.
func (b *box) await(until <-chan time.Time, condition func() bool) bool {
	for {
		b.mu.Lock()
		holds, changed := condition(), b.changed
		b.mu.Unlock()
		if holds {
			return true
		}
		select {
		case <-changed:
		case <-until:
			return false
		}
	}
}

// collect keeps the bytes for the client.
func (b *box) collect() {
	buffer := make([]byte, 64<<10)
	for {
		n, err := b.conn.Read(buffer)
		if n > 0 {
			b.await(nil, func() bool { return len(b.kept) < maxKept || b.ended })
			b.change(func() { b.kept = append(b.kept, buffer[:n]...) })
		}
		if err != nil {
			b.change(func() { b.ended = true })
			return
		}
	}
}

func (b *box) answer(l letter) answer {
	b.change(func() {
		if l.ack > b.first && l.ack <= b.first+uint64(len(b.kept)) {
			b.kept = append([]byte(nil), b.kept[l.ack-b.first:]...)
			b.first = l.ack
		}
	})
	b.take(l)
	if l.wait > 0 {
		b.await(time.After(min(l.wait, maxWait)), func() bool { return b.ended || b.first+uint64(len(b.kept)) > l.ack })
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	reply := answer{received: b.received, at: b.first}
	if l.wait > 0 && l.ack >= b.first && l.ack <= b.first+uint64(len(b.kept)) {
		reply.at = l.ack
		rest := b.kept[l.ack-b.first:]
		reply.data = rest[:min(len(rest), MaxPiece)]
	}
	if b.ended && reply.at+uint64(len(reply.data)) == b.first+uint64(len(b.kept)) {
		reply.state = ended
	}
	return reply
}

// take passes the data of a letter on, but for bytes that came before. A letter that arrives before
// its predecessor waits.
func (b *box) take(l letter) {
	end := l.at + uint64(len(l.data))
	late := time.Now().Add(takeTime)
	timer := time.NewTimer(takeTime)
	defer timer.Stop()
	if len(l.data) == 0 || !b.await(timer.C, func() bool { return b.received >= l.at || b.ended }) {
		return
	}
	select {
	case b.taking <- struct{}{}:
	case <-timer.C:
		return
	}
	defer func() { <-b.taking }()
	b.mu.Lock()
	from := b.received
	b.mu.Unlock()
	if from < l.at || from >= end {
		return
	}
	_ = b.conn.SetWriteDeadline(late)
	n, _ := b.conn.Write(l.data[from-l.at:]) // the client sends the rest again
	b.change(func() { b.received += uint64(n) })
}
