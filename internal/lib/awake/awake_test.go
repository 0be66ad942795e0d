package awake

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestTimeoutsEndOnTime(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Second, time.Millisecond, time.Second, 90 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			begin, cause := time.Now(), errors.New("late")
			ctx, cancel := WithTimeoutCause(t.Context(), d, cause)
			defer cancel()
			child, cancelChild := context.WithCancel(ctx)
			defer cancelChild()
			if <-child.Done(); time.Since(begin) != max(d, 0) {
				t.Errorf("%v took %v", d, time.Since(begin))
			}
			for _, c := range []context.Context{ctx, child} {
				if !errors.Is(c.Err(), context.DeadlineExceeded) || !errors.Is(context.Cause(c), cause) {
					t.Errorf("%v: %v because of %v", d, c.Err(), context.Cause(c))
				}
			}
		})
	}
}

func TestCountReturnsTheTimeSinceItBegan(t *testing.T) {
	for _, d := range []time.Duration{0, time.Millisecond, 2500 * time.Millisecond, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			stop := Count()
			time.Sleep(d)
			if got := stop(); got != d {
				t.Errorf("%v, want %v", got, d)
			}
		})
	}
}

func TestContextKeepsErrorAndCauseOfParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("enough")
		parent, end := context.WithCancelCause(t.Context())
		ctx, cancel := WithTimeout(parent, time.Hour)
		defer cancel()
		end(cause)
		if ctx.Err() == nil {
			t.Error("the context has not ended with its parent")
		}
		if <-ctx.Done(); !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(context.Cause(ctx), cause) {
			t.Errorf("%v because of %v", ctx.Err(), context.Cause(ctx))
		}
		late, cancel := WithTimeout(parent, 0)
		defer cancel()
		if <-late.Done(); !errors.Is(late.Err(), context.Canceled) {
			t.Errorf("derived from an ended context: %v", late.Err())
		}
		cancelled, cancel := WithTimeout(t.Context(), time.Hour)
		if cancel(); !errors.Is(cancelled.Err(), context.Canceled) || !errors.Is(context.Cause(cancelled), context.Canceled) {
			t.Errorf("cancelled: %v because of %v", cancelled.Err(), context.Cause(cancelled))
		}
		plain, cancel := WithTimeout(t.Context(), time.Second)
		defer cancel()
		if <-plain.Done(); !errors.Is(context.Cause(plain), context.DeadlineExceeded) {
			t.Errorf("without a cause: %v", context.Cause(plain))
		}
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		begin := time.Now()
		if Sleep(ctx, time.Hour) || time.Since(begin) != 90*time.Second {
			t.Errorf("it slept for %v", time.Since(begin))
		}
	})
}

// A context below another one of this package ends with it, however the goroutines of both are
// scheduled.
func TestContextEndsWithAParentOfItsKind(t *testing.T) {
	for range 2000 {
		parent, cancel := WithTimeout(t.Context(), time.Hour)
		child, cancelChild := WithTimeout(parent, time.Hour)
		cancel()
		select {
		case <-child.Done():
		case <-time.After(time.Minute):
			t.Fatal("the context does not end with its parent")
		}
		cancelChild()
	}
}
