package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// runnerFunc is a Runner that calls a function of the test.
type runnerFunc func(ctx context.Context, spec trial.Spec) trial.Outcome

func (f runnerFunc) Run(ctx context.Context, spec trial.Spec, _ string) trial.Outcome {
	return f(ctx, spec)
}

func passed(key result.Key) trial.Outcome {
	one := 1.0
	return trial.Outcome{Trial: result.Trial{Key: key, Reward: &one}}
}

func stopped(key result.Key) trial.Outcome {
	return trial.Outcome{Trial: result.Trial{Key: key, Error: &result.Error{Type: result.Cancelled, Message: "stopped"}}}
}

func specs(n int) []trial.Spec {
	list := make([]trial.Spec, n)
	for i := range list {
		list[i] = trial.Spec{
			Key:   result.Key{Agent: "a", Dataset: "d", Task: fmt.Sprintf("t%02d", i), Attempt: 1},
			Task:  &task.Task{},
			Agent: agent.Agent{Name: "a"},
		}
	}
	return list
}

// recorder collects events.
type recorder struct {
	mu     sync.Mutex
	events []event.Event
}

func (r *recorder) sink(e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) count(kind event.Kind) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, e := range r.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func newTree(t *testing.T, list []trial.Spec) *Tree {
	t.Helper()
	tree, err := Create(filepath.Join(t.TempDir(), "jobs", "j"), config.Job{Name: "j"}, result.Plan{JobName: "j", Trials: result.KeysOf(Keys(list)...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	return tree
}

func options(tree *Tree, runner Runner, r *recorder) Options {
	return Options{Tree: tree, Runner: runner, Workers: 4, Emit: r.sink, Now: time.Now}
}

func TestRunWritesEveryResult(t *testing.T) {
	list := specs(20)
	tree, rec := newTree(t, list), &recorder{}
	var atOnce, most atomic.Int32
	runner := runnerFunc(func(_ context.Context, spec trial.Spec) trial.Outcome {
		now := atOnce.Add(1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
		}
		defer atOnce.Add(-1)
		return passed(spec.Key)
	})

	job, err := Run(t.Context(), list, options(tree, runner, rec))
	if err != nil {
		t.Fatal(err)
	}
	if job.CompletedTrials != 20 || job.PassRate != 1 || job.Cancelled {
		t.Errorf("the job is %+v", job.Summary)
	}
	if most.Load() > 4 {
		t.Errorf("%d trials ran at a time, 4 were allowed", most.Load())
	}
	onDisk, err := result.ReadTree(tree.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if again := result.Summarize(onDisk.Plan, onDisk.Trials); !reflect.DeepEqual(again, job) {
		t.Errorf("the tree says %+v, the run said %+v", again, job)
	}
	if rec.count(event.TrialStarted) != 20 || rec.count(event.TrialEnded) != 20 || rec.count(event.JobEnded) != 1 {
		t.Error("events are missing")
	}
}

func TestPanicFailsOneTrial(t *testing.T) {
	list := specs(5)
	tree := newTree(t, list)
	runner := runnerFunc(func(_ context.Context, spec trial.Spec) trial.Outcome {
		if spec.Key.Task == "t02" {
			panic("boom")
		}
		return passed(spec.Key)
	})
	job, err := Run(t.Context(), list, options(tree, runner, &recorder{}))
	if err != nil {
		t.Fatal(err)
	}
	if job.CompletedTrials != 4 || job.Errors[result.InternalError] != 1 {
		t.Errorf("the job is %+v with errors %v", job.Summary, job.Errors)
	}
	text, err := os.ReadFile(filepath.Join(tree.TrialDir(list[2].Key), result.ErrorFile))
	if err != nil || !slices.Contains([]byte(text), '\n') {
		t.Errorf("error.txt is %q, %v", text, err)
	}
}

func TestCancelStopsRunningTrialsAndSkipsTheRest(t *testing.T) {
	list := specs(10)
	tree, rec := newTree(t, list), &recorder{}
	ctx, cancel := context.WithCancel(t.Context())
	var started atomic.Int32
	runner := runnerFunc(func(ctx context.Context, spec trial.Spec) trial.Outcome {
		if started.Add(1) == 4 {
			cancel()
		}
		<-ctx.Done()
		return stopped(spec.Key)
	})
	job, err := Run(ctx, list, options(tree, runner, rec))
	if err != nil {
		t.Fatal(err)
	}
	if !job.Cancelled || job.FailedTrials != 4 || job.SkippedTrials != 6 || len(job.Skipped) != 6 {
		t.Errorf("the job is %+v, skipped %v", job.Summary, job.Skipped)
	}
	if rec.count(event.Cancelling) != 1 {
		t.Error("nobody was told")
	}
}

func TestTrialThatDoesNotStopIsAbandoned(t *testing.T) {
	dir := newTree(t, nil).Dir // outside the bubble: it touches the disk only
	synctest.Test(t, func(t *testing.T) {
		list := specs(3)
		tree := &Tree{Dir: dir, Plan: result.Plan{JobName: "j", Trials: result.KeysOf(Keys(list)...)}}
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		var started atomic.Int32
		runner := runnerFunc(func(_ context.Context, spec trial.Spec) trial.Outcome {
			if started.Add(1) == 3 {
				cancel()
			}
			<-release
			return passed(spec.Key)
		})
		begin := time.Now()
		job, err := Run(ctx, list, options(tree, runner, &recorder{}))
		took := time.Since(begin)
		close(release)
		if err != nil {
			t.Fatal(err)
		}
		if took != DefaultGrace {
			t.Errorf("it took %s", took)
		}
		if !job.Cancelled || job.Errors[result.Cancelled] != 3 {
			t.Errorf("the job is %+v with errors %v", job.Summary, job.Errors)
		}
	})
}

func TestTheSecondSignalEndsTheGrace(t *testing.T) {
	list := specs(2)
	tree := newTree(t, list)
	ctx, cancel := context.WithCancel(t.Context())
	hard, abort := context.WithCancel(t.Context())
	release := make(chan struct{})
	defer close(release)
	runner := runnerFunc(func(_ context.Context, spec trial.Spec) trial.Outcome {
		cancel()
		abort()
		<-release
		return passed(spec.Key)
	})
	opts := options(tree, runner, &recorder{})
	opts.Hard, opts.Workers = hard, 1
	job, err := Run(ctx, list, opts)
	if err != nil {
		t.Fatal(err)
	}
	if !job.Cancelled || job.Errors[result.Cancelled] != 1 || job.SkippedTrials != 1 {
		t.Errorf("the job is %+v with errors %v", job.Summary, job.Errors)
	}
}

func TestResultBeingWrittenIsKeptWhenTrialsAreAbandoned(t *testing.T) {
	for range 8 { // the order of events is random
		list := specs(2)
		tree := newTree(t, list)
		ctx, cancel := context.WithCancel(t.Context())
		hard, abort := context.WithCancel(t.Context())
		started, release := make(chan struct{}), make(chan struct{})
		defer close(release)
		runner := runnerFunc(func(ctx context.Context, spec trial.Spec) trial.Outcome {
			if spec.Key == list[0].Key {
				close(started)
				<-ctx.Done()
				return passed(spec.Key)
			}
			<-started
			cancel()
			<-release
			return stopped(spec.Key)
		})
		opts := options(tree, runner, &recorder{})
		opts.Hard = hard
		opts.Emit = func(e event.Event) {
			if e.Kind != event.Cancelling {
				return
			}
			for { // nothing is taken in meanwhile
				if _, err := os.Stat(filepath.Join(tree.TrialDir(list[0].Key), result.ResultFile)); err == nil {
					break
				}
				runtime.Gosched()
			}
			abort()
		}
		job, err := Run(ctx, list, opts)
		if err != nil {
			t.Fatal(err)
		}
		if job.CompletedTrials != 1 || job.Errors[result.Cancelled] != 1 {
			t.Fatalf("the job is %+v with errors %v", job.Summary, job.Errors)
		}
	}
}

func TestUnwritableResultEndsTheJobAndIsWrittenAtTheEnd(t *testing.T) {
	list := specs(10)
	tree := newTree(t, list)
	blocker := tree.TrialDir(list[0].Key)
	block := func() { // a file stands where the trial's directory must be
		if err := os.MkdirAll(filepath.Dir(blocker), 0o755); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(blocker, nil, 0o644); err != nil {
			t.Error(err)
		}
	}
	runner := runnerFunc(func(_ context.Context, spec trial.Spec) trial.Outcome { return passed(spec.Key) })

	t.Run("for as long as the job runs", func(t *testing.T) {
		block()
		opts := options(tree, runner, &recorder{})
		opts.Workers = 1
		job, err := Run(t.Context(), list, opts)
		if err == nil {
			t.Fatal("no error was returned")
		}
		if job.SkippedTrials == 0 {
			t.Error("further trials were started")
		}
	})
	t.Run("written after all when it can be at the end", func(t *testing.T) {
		tree := newTree(t, list)
		blocker = tree.TrialDir(list[0].Key)
		block()
		rec := &recorder{}
		opts := options(tree, runner, rec)
		opts.Workers = 1
		opts.Emit = func(e event.Event) {
			rec.sink(e)
			if e.Kind == event.TrialEnded && e.Key.Task == "t00" {
				if err := os.Remove(blocker); err != nil {
					t.Error(err)
				}
			}
		}
		job, err := Run(t.Context(), list, opts)
		if err == nil || errors.Is(err, context.Canceled) || job.SkippedTrials == 0 {
			t.Errorf("the job ended with %v, and skipped %d", err, job.SkippedTrials)
		}
		onDisk, err := result.ReadTree(tree.Dir)
		if err != nil || len(onDisk.Trials) == 0 || onDisk.Trials[0].Key != list[0].Key {
			t.Errorf("the tree holds %v, %v", onDisk.Trials, err)
		}
	})
}

// TestJobStoppedByTheDiskIsNotCancelled: stopped trials count as failures of the infrastructure,
// and the job has the reason.
func TestJobStoppedByTheDiskIsNotCancelled(t *testing.T) {
	list := specs(3)
	tree := newTree(t, list)
	blocker := tree.TrialDir(list[0].Key)
	if err := errors.Join(os.MkdirAll(filepath.Dir(blocker), 0o755), os.WriteFile(blocker, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	begun, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	runner := runnerFunc(func(ctx context.Context, spec trial.Spec) trial.Outcome {
		if spec.Key == list[1].Key {
			close(begun)
			<-ctx.Done()
			stop := new(failure.AbortError)
			if !errors.As(context.Cause(ctx), &stop) {
				t.Errorf("the cause is %v", context.Cause(ctx))
			}
			return passed(spec.Key)
		}
		if spec.Key == list[2].Key {
			<-ctx.Done()
			<-over // never stops
		}
		<-begun
		return passed(spec.Key)
	})
	opts := options(tree, runner, &recorder{})
	opts.Workers, opts.Grace = 3, time.Second
	opts.Emit = func(e event.Event) {
		if e.Kind == event.Cancelling {
			if err := os.Remove(blocker); err != nil {
				t.Error(err)
			}
		}
	}
	job, err := Run(t.Context(), list, opts)
	if err == nil || job.Errors[result.Cancelled] != 0 || job.Errors[result.InternalError] == 0 {
		t.Errorf("the job ended with %v, errors %v", err, job.Errors)
	}
}

func TestMachineFaultsAreReported(t *testing.T) {
	list := specs(4)
	fault := &environment.MachineError{Err: syscall.EMFILE}
	runner := runnerFunc(func(_ context.Context, spec trial.Spec) trial.Outcome {
		if spec.Key == list[1].Key || spec.Key == list[2].Key {
			o := passed(spec.Key)
			o.Trial.Reward, o.Trial.Error, o.MachineFault = nil, &result.Error{Type: result.InternalError}, fault
			return o
		}
		return passed(spec.Key)
	})
	job, err := Run(t.Context(), list, options(newTree(t, list), runner, &recorder{}))
	if !errors.Is(err, syscall.EMFILE) || !strings.Contains(err.Error(), "this machine ended 2 trials") || job.CompletedTrials != 2 {
		t.Errorf("the job ended with %v, and %d trials completed", err, job.CompletedTrials)
	}
}

func TestCreateNeverOverwrites(t *testing.T) {
	tree := newTree(t, nil)
	if _, err := Create(tree.Dir, config.Job{}, result.Plan{}); err == nil {
		t.Error("a second job was made in the same directory")
	}
}
