package trial_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
)

func TestRemovedImageIsMadeAgain(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		var pulls, creations atomic.Int64
		s := story{agent: script("true"), hooks: hooks{before: func(_ context.Context, c call) error {
			switch c.op {
			case "pull":
				pulls.Add(1)
			case "create":
				if creations.Add(1) == 2 {
					return &environment.Error{Kind: environment.KindStart, Err: environment.ErrNoImage}
				}
			}
			return nil
		}}}
		sc := p.newScene(t, s)
		puzzle := s.task(t, p)
		sc.run(s, puzzle, 1).check(t, want{reward: "1"})
		second := sc.run(s, puzzle, 2)
		second.check(t, want{reward: "1"})
		checkRetries(t, second, "trial")
		if pulls.Load() != 2 {
			t.Errorf("the image was pulled %d times, want twice", pulls.Load())
		}
	})
}
