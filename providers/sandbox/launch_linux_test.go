package sandbox

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/providers/internal/wire"
)

// TestAnswerSentBeforeTheEndIsReceived: process 1 may say why it ends and be gone before anybody has read it.
func TestAnswerSentBeforeTheEndIsReceived(t *testing.T) {
	for range 50 {
		conn, theirs, err := wire.Pair()
		if err != nil {
			t.Fatal(err)
		}
		b := &box{
			cmd: exec.Command("true"), conn: conn, received: make(chan struct{}), ended: make(chan struct{}),
			waiting: map[int64]chan wire.Answer{},
		}
		answers := b.register(7)
		fd, err := unix.Dup(int(theirs.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		theirs.Close()
		speaker, err := wire.FromFD(fd)
		if err != nil {
			t.Fatal(err)
		}
		if err := speaker.Send(wire.Answer{ID: 7, Problem: "no bash here"}); err != nil {
			t.Fatal(err)
		}
		if err := b.start(func(int) error { return nil }, nil); err != nil {
			t.Fatal(err)
		}
		if err := speaker.Close(); err != nil {
			t.Fatal(err)
		}
		<-b.ended
		if _, err := (&started{b: b, id: 7, answers: answers}).waitExit(t.Context()); err == nil || err.Error() != "no bash here" {
			t.Fatalf("what is known of its end: %v", err)
		}
		conn.Close()
	}
}
