package cli

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/providers"
)

// mortal is a provider whose backend dies when it has been asked about often enough.
type mortal struct {
	*tried
	left atomic.Int32
}

func (m *mortal) Reachable(context.Context) error {
	if m.left.Add(-1) >= 0 {
		return nil
	}
	return &environment.Error{Kind: environment.KindUnavailable, Err: errors.New("the engine at nowhere does not answer"), Hint: "start it"}
}

// TestADeadEngine: the job ends with one sentence, and what has not run is left for a resume.
func TestADeadEngine(t *testing.T) {
	dir := jobDir(t)
	p := &mortal{tried: newTried()}
	withProvider(t, func(context.Context, map[string]any, providers.Host) (environment.Provider, error) { return p, nil })
	p.left.Store(2)
	o := rollout(t, t.Context(), nil, dir, "job.yaml", "--n-attempts", "20", "--n-concurrent", "1", "--baseline", "github:main")
	o.check(t, command.ExitFailed, "rollout: the engine at nowhere does not answer (start it); the remaining trials are pending; resume the job with: rollout resume jobs/nightly --baseline 'github:main'")
	tree, err := result.ReadTree(dir + "/jobs/nightly")
	if err != nil || len(tree.Trials) != 2 {
		t.Fatalf("%d results, want 2: %v", len(tree.Trials), err)
	}
	p.left.Store(1000)
	rollout(t, t.Context(), nil, dir, "resume", "jobs/nightly").check(t, command.ExitGate)
	rollout(t, t.Context(), nil, dir, "resume", "jobs/nightly", "--baseline", "none").check(t, command.ExitOK)
	if tree, err = result.ReadTree(dir + "/jobs/nightly"); err != nil || len(tree.Trials) != 20 {
		t.Errorf("%d results after resuming, want 20: %v", len(tree.Trials), err)
	}
}
