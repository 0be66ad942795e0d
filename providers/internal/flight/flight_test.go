package flight

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

func TestCallersShareOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group
		hold, failed := make(chan struct{}), errors.New("it failed")
		runs := 0
		var heard [3]string
		var all sync.WaitGroup
		for n := range heard {
			all.Go(func() {
				err := g.Do(t.Context(), "key", func(line string) { heard[n] += line }, func(_ context.Context, tell func(string)) error {
					runs++
					<-hold
					tell("line")
					return failed
				})
				if !errors.Is(err, failed) {
					t.Errorf("%d: %v", n, err)
				}
			})
		}
		synctest.Wait()
		if g.Waiting() != 3 {
			t.Errorf("%d wait", g.Waiting())
		}
		close(hold)
		all.Wait()
		if runs != 1 || heard != [3]string{"line", "line", "line"} {
			t.Errorf("%d runs, heard %q", runs, heard)
		}
		if err := g.Do(t.Context(), "key", nil, func(context.Context, func(string)) error { return nil }); err != nil || g.Waiting() != 0 {
			t.Errorf("afterwards: %v, %d wait", err, g.Waiting())
		}
	})
}

// An attempt ends when the last who waits for it goes, and only then.
func TestAnAttemptEndsWithItsLastCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group
		ended := false
		job := func(ctx context.Context, _ func(string)) error {
			<-ctx.Done()
			ended = true
			return ctx.Err()
		}
		first, leave := context.WithCancel(t.Context())
		second, leaveToo := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for _, ctx := range []context.Context{first, second} {
			all.Go(func() {
				if err := g.Do(ctx, "key", nil, job); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		if ended || g.Waiting() != 1 {
			t.Errorf("ended %t, %d wait", ended, g.Waiting())
		}
		leaveToo()
		all.Wait()
		if !ended {
			t.Error("it goes on without anybody")
		}
	})
}
