package initwire

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// pair returns both ends of a connection.
func pair(t *testing.T) (*Conn, *Conn) {
	t.Helper()
	ours, file, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	theirs := &Conn{file: file}
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

func TestMessagesArriveWholeWithTheirFiles(t *testing.T) {
	for name, size := range map[string]int{"short": 10, "just inline": maxInline - 200, "longer than the socket takes": 4 << 20} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := pair(t)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			sent := Request{ID: 7, Op: Exec, Command: &Command{Args: []string{strings.Repeat("ä\"\n", size/4)}}}
			if err := ours.Send(sent, r, w); err != nil {
				t.Fatal(err)
			}
			w.Close()
			var got Request
			files, err := theirs.Receive(&got)
			if err != nil || got.ID != 7 || got.Command.Args[0] != sent.Command.Args[0] || len(files) != 2 {
				t.Fatalf("message %d, %d files: %v", got.ID, len(files), err)
			}
			if _, err := files[1].WriteString("through"); err != nil {
				t.Error(err)
			}
			files[1].Close()
			if text, err := io.ReadAll(files[0]); err != nil || string(text) != "through" {
				t.Errorf("%q, %v", text, err)
			}
			files[0].Close()
		})
	}
}

func TestConnectionEndIsPassedOn(t *testing.T) {
	ours, theirs := pair(t)
	ours.Close()
	if _, err := theirs.Receive(&Request{}); !errors.Is(err, io.EOF) {
		t.Errorf("receive: %v", err)
	}
	if err := theirs.Send(Answer{ID: 1}); err == nil {
		t.Error("a message went to nobody")
	}
}

func TestInvalidMessages(t *testing.T) {
	ours, theirs := pair(t)
	if err := ours.send([]byte("{"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := theirs.Receive(&Request{}); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("receive: %v", err)
	}
}
