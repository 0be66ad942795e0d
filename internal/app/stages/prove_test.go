package stages

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/org/rollout-action/internal/core/task"
)

func TestEachTaskBeginsNoFurtherTaskOnceCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var done atomic.Int32
	err := EachTask(ctx, "Checking tasks", make([]*task.Task, 10_000), func(int, *task.Task) {
		done.Add(1)
		cancel()
	})
	if n := done.Load(); !errors.Is(err, context.Canceled) || n > 1000 {
		t.Errorf("%d tasks were done, error %v", n, err)
	}
}
