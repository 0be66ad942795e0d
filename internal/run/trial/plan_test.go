package trial

import (
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

func TestLifetimeIsLongerThanAllTimeoutsTogether(t *testing.T) {
	x := &plan{
		spec:     Spec{Task: &task.Task{}},
		job:      config.Job{TimeoutMultiplier: 2, Retry: config.Retry{MaxAttempts: 3}},
		timeouts: timing.Timeouts{Install: time.Hour, Execute: 2 * time.Hour, Verify: time.Hour, StartPeriod: time.Minute, Healthcheck: time.Minute},
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
