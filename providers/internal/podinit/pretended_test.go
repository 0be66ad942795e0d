package podinit

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/environment"
)

func TestPretendedGuestAnswers(t *testing.T) {
	p := Pretend()
	t.Cleanup(p.Close)
	e, err := Start(t.Context(), func(context.Context) (io.ReadWriteCloser, error) {
		ours, guests := net.Pipe()
		go p.Admit(guests)
		return ours, nil
	}, Options{Explain: func(context.Context) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if code, err := e.Exec(t.Context(), "exit 1", environment.ExecOptions{}); err != nil || code != 0 {
		t.Errorf("a command: code %d, %v", code, err)
	}
	if err := e.CopyTo(t.Context(), environment.Copy{Src: fstest.MapFS{"a": {Data: []byte("text")}}, Dst: "/files"}); err != nil {
		t.Errorf("a copy: %v", err)
	}
	if err := e.KillAll(t.Context()); err != nil {
		t.Errorf("the end of all processes: %v", err)
	}
	if _, err := e.ListenLoopback(t.Context()); err == nil {
		t.Error("what it cannot do succeeds")
	}
}
