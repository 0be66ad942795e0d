package mailbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	mathrand "math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// deliver brings a letter to mailboxes as Carry does in a container.
func deliver(m *Mailboxes, text string) (string, error) {
	own, theirs := net.Pipe()
	go m.Serve(theirs)
	defer own.Close()
	var out strings.Builder
	err := Carry(strings.NewReader(text), &out, own)
	return out.String(), err
}

// echo returns mailboxes whose connections return what they get.
func echo() *Mailboxes {
	return New(func(conn net.Conn) {
		_, _ = io.Copy(conn, conn)
		conn.Close()
	})
}

// exchange sends much and returns what comes back.
func exchange(t *testing.T, post Post, size int) (sent, got []byte) {
	t.Helper()
	c := Dial(post)
	defer c.Close()
	sent = make([]byte, size)
	_, _ = rand.Read(sent)
	go func() {
		for rest := sent; len(rest) > 0; {
			n := min(len(rest), 1+mathrand.IntN(300_000))
			if _, err := c.Write(rest[:n]); err != nil {
				return // the reader says why
			}
			rest = rest[n:]
		}
	}()
	got = make([]byte, size)
	if n, err := io.ReadFull(c, got); err != nil {
		t.Fatalf("after %d bytes: %v", n, err)
	}
	return sent, got
}

func TestBytesArriveOnceAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := echo()
		var letters atomic.Int64
		sent, got := exchange(t, func(_ context.Context, letter string) (string, error) {
			letters.Add(1)
			return deliver(m, letter)
		}, 5<<20)
		if !bytes.Equal(sent, got) {
			t.Error("other bytes came back")
		}
		for id := range m.boxes {
			m.boxes[id].drop()
		}
	})
}

// A letter that is lost, one whose answer is lost, one that arrives twice, and half an answer.
func TestLettersMayBeLostOrDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := echo()
		var letters atomic.Int64
		sent, got := exchange(t, func(_ context.Context, letter string) (string, error) {
			switch letters.Add(1) % 12 {
			case 0:
				return "", errors.New("lost")
			case 3:
				_, _ = deliver(m, letter)
				return "", errors.New("the answer is lost")
			case 6:
				_, _ = deliver(m, letter)
				return deliver(m, letter)
			case 9:
				answer, err := deliver(m, letter)
				return answer[:len(answer)/2], err
			}
			return deliver(m, letter)
		}, 4<<20)
		if !bytes.Equal(sent, got) {
			t.Error("other bytes came back")
		}
		for id := range m.boxes {
			m.boxes[id].drop()
		}
	})
}

func TestTheEndArrives(t *testing.T) {
	m := New(func(conn net.Conn) {
		_, _ = io.ReadFull(conn, make([]byte, 5))
		_, _ = conn.Write([]byte("and goodbye"))
		conn.Close()
	})
	c := Dial(func(_ context.Context, letter string) (string, error) { return deliver(m, letter) })
	defer c.Close()
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if all, err := io.ReadAll(c); err != nil || string(all) != "and goodbye" {
		t.Errorf("%q, %v", all, err)
	}
}

func TestAConnectionBreaksWhereLettersDoNotArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			err  error
			most int64 // letters: two wait at the same time
		}{{ErrGone, 2}, {errors.New("lost"), 2 * attempts}} {
			var letters atomic.Int64
			c := Dial(func(context.Context, string) (string, error) {
				letters.Add(1)
				return "", tc.err
			})
			_, _ = c.Write([]byte("hello"))
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, tc.err) || letters.Load() > tc.most {
				t.Errorf("%v after %d letters", err, letters.Load())
			}
			c.Close()
		}
	})
}

// A mailbox that its guest has forgotten, such as after a restart, ends the connection.
func TestAForgottenMailboxEndsTheConnection(t *testing.T) {
	first, second := echo(), echo()
	var moved atomic.Bool
	c := Dial(func(_ context.Context, letter string) (string, error) {
		if moved.Load() {
			return deliver(second, letter)
		}
		return deliver(first, letter)
	})
	defer c.Close()
	_, _ = c.Write([]byte("hello"))
	if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	moved.Store(true)
	_, _ = c.Write([]byte("again"))
	if _, err := io.ReadFull(c, make([]byte, 5)); !errors.Is(err, errUnknown) {
		t.Errorf("%v", err)
	}
}

func TestWhatIsNoLetterHasNoAnswer(t *testing.T) {
	m := echo()
	good := base64.StdEncoding.EncodeToString(letter{data: []byte("x")}.bytes())
	for _, text := range []string{"", "no base64!", base64.StdEncoding.EncodeToString([]byte("short")), good[:len(good)-8] + "AAAAAAAA"} {
		if answer, err := deliver(m, text); err == nil {
			t.Errorf("%q: %q", text, answer)
		}
	}
	if len(m.boxes) != 0 {
		t.Errorf("%d mailboxes", len(m.boxes))
	}
}

// A letter that only asks for bytes has arrived even where another one, with bytes before its own
// place, is still under way.
func TestALetterWithoutBytesIsNotStuck(t *testing.T) {
	letters := 0
	c := Dial(func(context.Context, string) (string, error) {
		letters++
		return base64.StdEncoding.EncodeToString(answer{received: 3}.bytes()), nil
	})
	defer c.Close()
	if err := c.deliver(letter{at: 5}); err != nil || letters != 1 {
		t.Errorf("%d letters, %v", letters, err)
	}
}
