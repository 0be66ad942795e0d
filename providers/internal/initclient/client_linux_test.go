package initclient

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/providers/internal/initwire"
)

// TestAnswerSentBeforeTheEndIsReceived: process 1 may say why it ends and be gone before anybody
// has read it.
func TestAnswerSentBeforeTheEndIsReceived(t *testing.T) {
	for range 50 {
		conn, theirs, err := initwire.Pair()
		if err != nil {
			t.Fatal(err)
		}
		b := New()
		answers := b.register(7)
		fd, err := unix.Dup(int(theirs.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		theirs.Close()
		speaker, err := initwire.FromFD(fd)
		if err != nil {
			t.Fatal(err)
		}
		if err := speaker.Send(initwire.Answer{ID: 7, Problem: "no bash here"}); err != nil {
			t.Fatal(err)
		}
		b.Connect(conn, func() {}, func() {})
		if err := speaker.Close(); err != nil {
			t.Fatal(err)
		}
		<-b.Ended()
		if _, err := (&Started{b: b, ID: 7, answers: answers}).waitExit(t.Context()); err == nil || err.Error() != "no bash here" {
			t.Fatalf("what is known of its end: %v", err)
		}
		conn.Close()
	}
}
