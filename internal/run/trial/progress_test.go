package trial_test

import (
	"context"
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/event"
)

// Progress ends with its operation: a view must not show a push while the trial waits for its
// environment.
func TestProgressEnds(t *testing.T) {
	t.Parallel()
	s := story{agent: agent.Agent{Name: agent.Nop}, files: dockerfile("FROM {{image}}\nCOPY nonce /\n")}
	var before []string // reported before the environment was created
	var said []string
	s.emit = func(e event.Event) {
		if e.Kind == event.Progress {
			said = append(said, e.Message)
		}
	}
	s.hooks.before = func(_ context.Context, c call) error {
		switch c.op {
		case "build":
			c.build.Progress("pushing")
		case "create":
			before = slices.Clone(said)
			c.create.Waiting("waits for a node")
			c.create.Waiting("")
		}
		return nil
	}
	if o := fakePlace.run(t, s); o.Trial.Error != nil {
		t.Fatalf("the trial failed: %+v", o.Trial.Error)
	}
	if n := len(before); n < 2 || before[n-1] != "" {
		t.Errorf("before the environment was created, progress was %q: it has no end", before)
	}
	if after := said[len(before):]; !slices.Equal(after, []string{"waits for a node", ""}) {
		t.Errorf("while the environment was created, progress was %q", after)
	}
}
