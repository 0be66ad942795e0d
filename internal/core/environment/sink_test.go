package environment

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

type writes func([]byte) (int, error)

func (f writes) Write(p []byte) (int, error) { return f(p) }

func TestSinkReturnsTheFirstError(t *testing.T) {
	calls := 0
	full := errors.New("full")
	s := newSink(writes(func(p []byte) (int, error) { calls++; return 0, full }))
	for range 100 {
		if n, err := s.Write(make([]byte, 100<<10)); n != 100<<10 || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := s.close(); !errors.Is(err, full) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
	short := newSink(writes(func(p []byte) (int, error) { return 1, nil }))
	_, _ = short.Write([]byte("abc"))
	if err := short.close(); err == nil {
		t.Error("a short write is no error")
	}
}

func TestSinkGivesUpOnABlockedWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, calls := make(chan struct{}), 0
		s := newSink(writes(func(p []byte) (int, error) { calls++; <-release; return len(p), nil }))
		began := time.Now()
		for range 100 {
			_, _ = s.Write(make([]byte, 100<<10))
		}
		if err := s.close(); !errors.Is(err, errStuck) {
			t.Error(err)
		}
		if took := time.Since(began); took > 4*sinkTimeout {
			t.Errorf("took %v", took)
		}
		close(release)
		<-s.done
		if calls != 1 {
			t.Errorf("%d calls, one of them after close", calls)
		}
	})
}
