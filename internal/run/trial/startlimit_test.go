package trial

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/org/rollout-action/internal/core/config"
)

func TestWaitingIsNoPartOfStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit, ctx, stop := newStartLimit(t.Context(), time.Minute)
		defer stop()
		time.Sleep(40 * time.Second)
		limit.wait(true)
		limit.wait(true) // another reason
		time.Sleep(time.Hour)
		if ctx.Err() != nil {
			t.Fatalf("it ended while others were waited for: %v", context.Cause(ctx))
		}
		limit.wait(false)
		time.Sleep(19 * time.Second)
		if ctx.Err() != nil {
			t.Fatalf("it ended early: %v", context.Cause(ctx))
		}
		time.Sleep(2 * time.Second)
		if !errors.Is(context.Cause(ctx), errSlowStart) {
			t.Fatalf("after its minute, the cause is %v", context.Cause(ctx))
		}
	})
}

func TestLifetimeIsLongerThanAllTimeoutsTogether(t *testing.T) {
	x := &plan{
		job:      config.Job{TimeoutMultiplier: 2, Retry: config.Retry{MaxAttempts: 3}},
		timeouts: Timeouts{Install: time.Hour, Execute: 2 * time.Hour, Verify: time.Hour, StartPeriod: time.Minute, Healthcheck: time.Minute},
	}
	sum := 4*time.Hour + 2*time.Minute
	if got := x.lifetime(); got < sum || got > 10*sum {
		t.Errorf("%s of timeouts give %s", sum, got)
	}
	x.timeouts.Execute = 1 << 62
	if got := x.lifetime(); got < 24*time.Hour {
		t.Errorf("a timeout without an end gives %s", got)
	}
	x.stay = visitLifetime
	if got := x.lifetime(); got != visitLifetime {
		t.Errorf("for a visit it is %s", got)
	}
}
