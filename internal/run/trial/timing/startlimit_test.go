package timing

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitingIsNoPartOfStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit, ctx, stop := NewStartLimit(t.Context(), time.Minute)
		defer stop()
		time.Sleep(40 * time.Second)
		limit.Wait(true)
		limit.Wait(true) // another reason
		time.Sleep(time.Hour)
		if ctx.Err() != nil {
			t.Fatalf("it ended while others were waited for: %v", context.Cause(ctx))
		}
		limit.Wait(false)
		time.Sleep(19 * time.Second)
		if ctx.Err() != nil {
			t.Fatalf("it ended early: %v", context.Cause(ctx))
		}
		time.Sleep(2 * time.Second)
		if !errors.Is(context.Cause(ctx), ErrSlowStart) {
			t.Fatalf("after its minute, the cause is %v", context.Cause(ctx))
		}
	})
}
