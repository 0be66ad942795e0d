package mailbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"sync"
	"time"
)

// Post has Carry run where the mailboxes are, and returns its output. letter and answer are text.
// It fails for letters or answers that are lost; Conn sends the letter again then. Two calls may
// run at the same time. An error with ErrGone in its chain breaks the connection at once.
type Post func(ctx context.Context, letter string) (answer string, err error)

const (
	// pollTime is how long a letter waits for bytes. With takeTime it is below the 30 s after which
	// Fly ends a command.
	pollTime = 12 * time.Second
	// attempts is how often a letter is sent before the connection breaks.
	attempts = 6
	// gatherTime is how long a letter may wait for the client's next bytes, so that they go with
	// it.
	gatherTime = 10 * time.Millisecond
	// maxUnsent and maxUnread bound the bytes that wait at the client.
	maxUnsent, maxUnread = 2 << 20, 4 << 20
)

// Conn is the client's end of a connection. One letter at a time waits for bytes; another one
// brings those of the client meanwhile.
type Conn struct {
	post Post
	box  id
	ctx  context.Context //nolint:containedctx // ends with Close
	stop context.CancelFunc

	mu      sync.Mutex
	changed sync.Cond
	unsent  []byte
	next    uint64 // the number of the first byte of unsent
	unread  []byte
	have    uint64 // bytes that came
	waits   bool   // a letter waits for bytes
	err     error
}

// Dial begins a connection. Nothing is sent before the first Write.
func Dial(post Post) *Conn {
	c := &Conn{post: post}
	c.changed.L = &c.mu
	_, _ = rand.Read(c.box[:]) // never fails
	c.ctx, c.stop = context.WithCancel(context.Background())
	go c.poll()
	return c
}

// Read implements io.Reader.
func (c *Conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.unread) == 0 && c.err == nil {
		c.changed.Wait()
	}
	if len(c.unread) == 0 {
		return 0, c.err
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	c.changed.Broadcast()
	return n, nil
}

// Write implements io.Writer. It returns the error of an earlier letter.
func (c *Conn) Write(p []byte) (written int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(p) > 0 {
		for len(c.unsent) >= maxUnsent && c.err == nil {
			c.changed.Wait()
		}
		if c.err != nil {
			return written, c.err
		}
		n := min(maxUnsent-len(c.unsent), len(p))
		c.unsent = append(c.unsent, p[:n]...)
		p, written = p[n:], written+n
		c.changed.Broadcast()
	}
	return written, nil
}

// Close implements io.Closer.
func (c *Conn) Close() error {
	c.end(io.ErrClosedPipe)
	return nil
}

func (c *Conn) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	c.stop()
	c.changed.Broadcast()
}

// piece takes the next bytes to send. The lock is held.
func (c *Conn) piece() letter {
	n := min(len(c.unsent), MaxPiece)
	l := letter{box: c.box, at: c.next, data: c.unsent[:n:n]}
	c.unsent, c.next = c.unsent[n:], c.next+uint64(n)
	c.changed.Broadcast()
	return l
}

// poll asks for bytes, again and again, and brings those that wait to be sent.
func (c *Conn) poll() {
	c.mu.Lock()
	for len(c.unsent) == 0 && c.err == nil {
		c.changed.Wait() // the first letter makes the mailbox
	}
	c.mu.Unlock()
	for first := true; ; first = false {
		c.mu.Lock()
		for len(c.unread) >= maxUnread && c.err == nil {
			c.changed.Wait()
		}
		if c.err != nil {
			c.mu.Unlock()
			return
		}
		l := c.piece()
		l.wait, c.waits = pollTime, true
		c.changed.Broadcast()
		c.mu.Unlock()
		err := c.deliver(l)
		c.mu.Lock()
		c.waits = false
		c.mu.Unlock()
		if err != nil {
			c.end(err)
			return
		}
		if first {
			go c.send() // no other letter may come before the first
		}
		select {
		case <-time.After(gatherTime):
		case <-c.ctx.Done():
		}
	}
}

// send brings bytes while a letter waits for bytes.
func (c *Conn) send() {
	for {
		c.mu.Lock()
		for (len(c.unsent) == 0 || !c.waits) && c.err == nil {
			c.changed.Wait()
		}
		if c.err != nil {
			c.mu.Unlock()
			return
		}
		l := c.piece()
		c.mu.Unlock()
		if err := c.deliver(l); err != nil {
			c.end(err)
			return
		}
	}
}

// ErrGone says that no letter will arrive any more.
var ErrGone = errors.New("the other side is gone")

var (
	errUnknown = errors.New("the other side has forgotten the connection")
	errStuck   = errors.New("the other side takes no bytes")
)

// deliver sends a letter until its bytes have arrived.
func (c *Conn) deliver(l letter) error {
	end := l.at + uint64(len(l.data))
	pause, failed := 100*time.Millisecond, 0
	for {
		c.mu.Lock()
		l.ack = c.have
		c.mu.Unlock()
		reply, err := c.exchange(l)
		switch {
		case c.ctx.Err() != nil:
			return c.ctx.Err()
		case err == nil && reply.state == unknown:
			return errUnknown
		case err == nil && len(l.data) == 0:
			c.took(reply)
			return nil // another letter may bring bytes before l.at
		case err == nil:
			c.took(reply)
			if reply.received >= end {
				return nil
			}
			if reply.received > l.at {
				l.data, l.at, failed = l.data[reply.received-l.at:], reply.received, 0
				continue
			}
			err = errStuck
		}
		if failed++; failed == attempts || errors.Is(err, ErrGone) {
			return err
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, 5*time.Second)
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
	}
}

func (c *Conn) exchange(l letter) (answer, error) {
	text, err := c.post(c.ctx, base64.StdEncoding.EncodeToString(l.bytes()))
	if err != nil {
		return answer{}, err
	}
	reply, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return answer{}, errDamaged
	}
	a, err := readAnswer(bytes.NewReader(reply))
	if err != nil {
		return answer{}, errDamaged
	}
	return a, nil
}

// took stores the bytes of an answer, but for those that came before.
func (c *Conn) took(a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if end := a.at + uint64(len(a.data)); a.at <= c.have && end > c.have {
		c.unread = append(c.unread, a.data[c.have-a.at:]...)
		c.have = end
	}
	if a.state == ended && a.at+uint64(len(a.data)) == c.have && c.err == nil {
		c.err = io.EOF
		c.stop()
	}
	c.changed.Broadcast()
}
