package job

import (
	"context"
	"sync"
	"testing"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial"
)

// Four trials run when one of them fails. They end, and no other begins.
func TestFailFastStartsNoMoreTrials(t *testing.T) {
	list := specs(20)
	tree, rec := newTree(t, list), &recorder{}
	var begun sync.WaitGroup
	begun.Add(4) // one trial for each worker
	failed := make(chan struct{})
	runner := runnerFunc(func(_ context.Context, spec trial.Spec) trial.Outcome {
		begun.Done()
		if spec.Key.Task == "t02" {
			begun.Wait()
			return trial.Outcome{Trial: result.Trial{Key: spec.Key, Reward: new(0.0)}}
		}
		<-failed
		return passed(spec.Key)
	})
	opts := options(tree, runner, rec)
	asked := 0
	opts.FailFast = func(t result.Trial) bool {
		asked++
		close(failed)
		return !t.Passed()
	}
	opts.Confirm = func(context.Context, []result.Trial) ([]trial.Spec, error) {
		t.Error("confirmation attempts are asked for")
		return nil, nil
	}
	job, err := Run(t.Context(), list, opts)
	if err != nil {
		t.Fatal(err)
	}
	if job.CompletedTrials != 4 || job.SkippedTrials != 16 || asked != 1 || rec.count(event.Notice) != 1 {
		t.Errorf("%d completed, %d skipped, asked %d times, %d notices; want 4, 16, 1, 1", job.CompletedTrials, job.SkippedTrials, asked, rec.count(event.Notice))
	}
}
