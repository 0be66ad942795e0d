package timing

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// timedEnv is an environment that measures its commands: each takes elapsed here, and ran by the
// environment's clock, to which the limit applies.
type timedEnv struct {
	environment.Environment
	elapsed, ran time.Duration
	timeouts     []time.Duration
}

func (e *timedEnv) Exec(_ context.Context, _ string, opts environment.ExecOptions) (int, error) {
	e.timeouts = append(e.timeouts, opts.Timeout)
	time.Sleep(e.elapsed)
	*opts.Ran = min(e.ran, opts.Timeout)
	if e.ran > opts.Timeout {
		return -1, environment.ErrTimeout
	}
	return 0, nil
}

func TestClockChargesCommandsTheTimeOfTheirEnvironment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock(t.Context(), time.Minute)
		defer c.End()
		env := &timedEnv{elapsed: time.Hour, ran: 10 * time.Second}
		for range 2 {
			if code, err := c.Exec(c.ctx, env, "", environment.ExecOptions{Timeout: 30 * time.Second}); code != 0 || err != nil {
				t.Fatalf("code %d, %v", code, err)
			}
			time.Sleep(15 * time.Second) // of the model
		}
		env.ran = time.Hour
		_, err := c.Exec(c.ctx, env, "", environment.ExecOptions{Timeout: 30 * time.Second})
		if !errors.Is(err, environment.ErrTimeout) || !errors.Is(context.Cause(c.ctx), environment.ErrTimeout) {
			t.Errorf("a command beyond the end: %v, %v", err, context.Cause(c.ctx))
		}
		if want := 10 * time.Second; env.timeouts[2] != want || env.timeouts[1] != 30*time.Second {
			t.Errorf("limits of the commands: %v", env.timeouts)
		}
	})
}

func TestClockEndsBetweenCommandsAndNotInOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock(t.Context(), time.Minute)
		defer c.End()
		env := &timedEnv{elapsed: time.Hour, ran: time.Hour}
		if _, err := c.Exec(c.ctx, env, "", environment.ExecOptions{Timeout: time.Second}); !errors.Is(err, environment.ErrTimeout) || c.ctx.Err() != nil {
			t.Errorf("a command beyond its own limit: %v, %v", err, c.ctx.Err())
		}
		began := time.Now()
		if <-c.ctx.Done(); time.Since(began) != 59*time.Second || !errors.Is(context.Cause(c.ctx), environment.ErrTimeout) {
			t.Errorf("it ended after %v: %v", time.Since(began), context.Cause(c.ctx))
		}
		if _, err := c.Exec(c.ctx, env, "", environment.ExecOptions{}); !errors.Is(err, environment.ErrTimeout) || len(env.timeouts) != 1 {
			t.Errorf("after the end: %v, %v", err, env.timeouts)
		}
	})
}

func TestStretchIsTimeThatNoClockOfTheEnvironmentMeasured(t *testing.T) {
	for _, c := range []struct{ elapsed, ran, want time.Duration }{{40, 6, 34}, {40, 0, 0}, {5, 6, 0}} {
		if got := Unmeasured(c.elapsed, c.ran); got != c.want {
			t.Errorf("%d of %d: %d", c.ran, c.elapsed, got)
		}
	}
}
