package podinit

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
)

// fragile is a carrier that breaks after some bytes.
type fragile struct {
	net.Conn
	mu   sync.Mutex
	left int
}

var errBroke = errors.New("the carrier broke")

func (f *fragile) Write(p []byte) (int, error) {
	f.mu.Lock()
	n := min(len(p), f.left)
	f.left -= n
	f.mu.Unlock()
	written, err := f.Conn.Write(p[:n])
	if n < len(p) && err == nil {
		f.Conn.Close()
		err = errBroke
	}
	return written, err
}

// reconnect attaches new fragile carriers whenever the last one has broken, until ended is closed.
func reconnect(t *testing.T, a, b *link, lasts func() int, ended <-chan struct{}) (carriers func() int) {
	t.Helper()
	var mu sync.Mutex
	count := 0
	var attach func()
	attach = func() {
		select {
		case <-ended:
			return
		default:
		}
		mu.Lock()
		defer mu.Unlock()
		count++
		one, other := net.Pipe()
		hasA, hasB := a.detach(), b.detach()
		if err := b.attach(&fragile{Conn: other, left: lasts()}, hasA, nil); err != nil && b.ended() == nil {
			t.Error(err)
		}
		if err := a.attach(&fragile{Conn: one, left: lasts()}, hasB, func(error) { go attach() }); err != nil && a.ended() == nil {
			t.Error(err)
		}
	}
	attach()
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return count
	}
}

func TestLinkOutlivesItsCarriers(t *testing.T) {
	a, b := newLink(), newLink()
	ended := make(chan struct{})
	random := rand.New(rand.NewPCG(1, 2)) // #nosec G404 -- a test
	carriers := reconnect(t, a, b, func() int { return 1 + random.IntN(300_000) }, ended)
	const size = 8 << 20
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	var all sync.WaitGroup
	for _, way := range []struct{ from, to *link }{{a, b}, {b, a}} {
		all.Go(func() {
			if n, err := io.Copy(way.from, bytes.NewReader(data)); err != nil || n != size {
				t.Errorf("wrote %d: %v", n, err)
			}
		})
		all.Go(func() {
			got := make([]byte, size)
			if _, err := io.ReadFull(way.to, got); err != nil || !bytes.Equal(got, data) {
				t.Errorf("other bytes arrived: %v", err)
			}
		})
	}
	all.Wait()
	close(ended)
	a.end(io.EOF)
	b.end(io.EOF)
	if n := carriers(); n < 20 {
		t.Errorf("%d carriers were needed: nothing broke", n)
	}
}

func TestEndOfALinkIsAnError(t *testing.T) {
	l := newLink()
	reason := errors.New("the pod was evicted")
	done := make(chan error, 1)
	go func() {
		_, err := l.Read(make([]byte, 1))
		done <- err
	}()
	l.end(reason)
	if err := <-done; !errors.Is(err, reason) {
		t.Errorf("read: %v", err)
	}
	if _, err := l.Write([]byte("x")); !errors.Is(err, reason) {
		t.Errorf("write: %v", err)
	}
	if err := l.attach(nopCarrier{}, 0, nil); !errors.Is(err, reason) {
		t.Errorf("attach: %v", err)
	}
}

type nopCarrier struct{}

func (nopCarrier) Read([]byte) (int, error)    { return 0, io.EOF }
func (nopCarrier) Write(p []byte) (int, error) { return len(p), nil }
func (nopCarrier) Close() error                { return nil }

func TestBytesThatAreForgottenCannotBeAskedFor(t *testing.T) {
	l := newLink()
	for _, has := range []uint64{1, 1 << 60} {
		if err := l.attach(nopCarrier{}, has, nil); !errors.Is(err, errForgotten) {
			t.Errorf("%d: %v", has, err)
		}
	}
}

func TestHelloOfAnotherVersion(t *testing.T) {
	sent := hello{first: true, secret: [32]byte{1, 2, 3}, received: 77}
	got, err := readHello(bytes.NewReader(sent.bytes()))
	if err != nil || got != sent {
		t.Errorf("%+v, %v", got, err)
	}
	other := sent.bytes()
	other[2]++
	if _, err := readHello(bytes.NewReader(other)); !errors.Is(err, errOtherVersion) {
		t.Errorf("another version: %v", err)
	}
	if _, err := readHello(bytes.NewReader(sent.bytes()[:20])); err == nil {
		t.Error("half a hello is enough")
	}
}

// A guest of another version is noticed when it is greeted first. Afterwards, such bytes are words
// of an engine that could not start the connector.
func TestErrorTextOfAnEngineIsNotTakenForAnotherVersion(t *testing.T) {
	for _, first := range []bool{true, false} {
		d := &dialer{first: first, link: newLink()}
		words := struct {
			io.Reader
			io.Writer
		}{strings.NewReader("OCI runtime exec failed: exec failed: unable to start container process"), io.Discard}
		_, err := d.greet(words)
		if final := new(finalError); err == nil || errors.As(err, &final) != first {
			t.Errorf("first: %t: %v", first, err)
		}
	}
}
