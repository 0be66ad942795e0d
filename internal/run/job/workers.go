package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/internal/run/trial"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/judging"
)

// written is an outcome after the attempt to write it.
type written struct {
	trial.Outcome
	err    error
	notRun bool // the trial did not begin because of err, so there is no outcome
}

// work passes the specs to the workers and collects their outcomes.
func (r *run) work(ctx context.Context, specs []trial.Spec) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	workers := max(1, min(r.Workers, len(specs)))
	queue := make(chan trial.Spec)
	// After a cancel each worker sends at most one more outcome, so none blocks when collect no
	// longer reads.
	outcomes := make(chan written, workers)
	var group sync.WaitGroup
	var taking sync.Mutex // so that trials wait for their turns in the order of the queue
	take := func() (spec trial.Spec, wait Wait, ok bool) {
		taking.Lock()
		defer taking.Unlock()
		if spec, ok = <-queue; !ok {
			return spec, nil, false
		}
		return spec, r.turn(spec.Key), true
	}
	for range workers {
		group.Go(func() {
			for spec, wait, ok := take(); ok; spec, wait, ok = take() {
				if done, ok := wait(ctx); ok {
					r.next(ctx, spec, outcomes)
					done()
				}
			}
		})
	}
	go func() {
		defer close(outcomes)
		defer group.Wait()
		defer close(queue)
		for _, spec := range specs {
			select {
			case queue <- spec:
			case <-ctx.Done():
				return
			}
		}
	}()
	r.collect(ctx, stop, outcomes)
}

// turn registers a trial that waits for its turn.
func (r *run) turn(key result.Key) Wait {
	if r.Turn == nil {
		return func(context.Context) (func(), bool) { return func() {}, true }
	}
	return r.Turn(key)
}

// next runs a trial, unless no more trials may start.
func (r *run) next(ctx context.Context, spec trial.Spec, outcomes chan<- written) {
	now := r.Now()
	r.stop(r.costs) // trials of another job may have used up the budget
	if ctx.Err() != nil || r.stops() || !r.mayStart() {
		return
	}
	began, err := r.begin(spec, now)
	if err != nil {
		outcomes <- written{Outcome: trial.Outcome{Trial: result.Trial{Key: spec.Key}}, err: err, notRun: true}
	}
	if !began {
		return
	}
	outcome := r.one(ctx, spec, now)
	r.blame(ctx, &outcome.Trial)
	r.ended(outcome.Trial)
	if r.end(spec.Key) {
		outcomes <- r.write(outcome)
	}
}

// collect takes outcomes until there are no more, or until the grace after a cancel is over.
func (r *run) collect(ctx context.Context, stop func(cause error), outcomes <-chan written) {
	cancelled := ctx.Done()
	hard := r.Hard.Done()
	var grace <-chan struct{}
	for {
		select {
		case outcome, ok := <-outcomes:
			if !ok {
				return
			}
			r.received()
			r.take(outcome)
			if outcome.err != nil {
				stop(&failure.AbortError{Err: outcome.err})
			}
		case <-cancelled:
			cancelled = nil
			r.checkTime(ctx)
			grace = awake.After(context.WithoutCancel(ctx), r.Grace)
			r.emit(event.Event{Kind: event.Cancelling, Total: r.inFlight(), Message: "no more trials are started, running ones are stopped"})
		case <-grace:
			r.abandon(ctx, "it did not stop in time", outcomes)
			return
		case <-hard:
			r.abandon(ctx, "rollout was told to stop at once", outcomes)
			return
		}
	}
}

// take adds an outcome to the results and emits an event.
func (r *run) take(w written) {
	if w.notRun {
		r.lost = append(r.lost, fmt.Errorf("%s was not run again, and its earlier result stays: %w", w.Trial.Key, w.err))
		r.emit(event.Event{Kind: event.Notice, Message: fmt.Sprintf("the directory of %s cannot be moved to %s/, so no more trials are started: %v", w.Trial.Key, result.SupersededDir, w.err)})
		return
	}
	if w.err != nil {
		r.unwritten = append(r.unwritten, w.Outcome)
		r.stopped = cmp.Or(r.stopped, w.err)
		r.emit(event.Event{Kind: event.Notice, Message: fmt.Sprintf("the result of %s cannot be written, so no more trials are started: %v", w.Trial.Key, w.err)})
	}
	if w.MachineFault != nil {
		r.machine = cmp.Or(r.machine, w.MachineFault)
		r.machines++
	}
	r.trials = append(r.trials, w.Trial)
	r.writeMetadata()
	r.emit(event.Event{Kind: event.TrialEnded, Key: &w.Trial.Key, Trial: &w.Trial, Message: r.Tree.TrialDir(w.Trial.Key)})
}

// abandon takes the outcomes that are being written, and records the running trials as cancelled.
func (r *run) abandon(ctx context.Context, why string, outcomes <-chan written) {
	kind, what := result.Cancelled, "the job was cancelled"
	if stop := (*failure.AbortError)(nil); errors.As(context.Cause(ctx), &stop) {
		kind, what = result.InternalError, "rollout stopped all trials ("+stop.Error()+")"
	}
	if errors.Is(context.Cause(ctx), failure.ErrOutOfTime) {
		what = failure.ErrOutOfTime.Error()
	}
	r.mu.Lock()
	left, coming := r.running, r.writing
	r.running = nil
	r.mu.Unlock()
	for range coming {
		r.take(<-outcomes)
	}
	for _, key := range slices.SortedFunc(maps.Keys(left), result.Key.Compare) {
		r.take(r.write(r.unfinished(key, left[key], kind,
			what+", and the trial was abandoned because "+why+": rollout clean removes its environment")))
	}
}

// begin moves the files that an earlier run left of a trial away, and notes that the trial runs. It
// reports false if the trial may not run. If that is because of an error, the caller sends it to
// collect.
func (r *run) begin(spec trial.Spec, now time.Time) (bool, error) {
	key, makeWay := spec.Key, r.Tree.Supersede
	if spec.Judging != nil {
		makeWay = r.Tree.Unjudge
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running == nil {
		return false, nil
	}
	// With the mutex held, so that nothing is moved after the running trials were abandoned and
	// while the job is counted.
	if err := makeWay(key); err != nil {
		r.writing++
		return false, err
	}
	r.begun[key] = true
	r.running[key] = now
	return true, nil
}

// end notes that a trial's outcome is about to be written. It reports false if the trial was
// abandoned.
func (r *run) end(key result.Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running == nil {
		return false
	}
	delete(r.running, key)
	r.writing++
	return true
}

// received notes that an outcome was received.
func (r *run) received() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writing--
}

func (r *run) write(outcome trial.Outcome) written {
	r.mu.Lock()
	outcome.Trial.Confirmation = r.confirms[outcome.Trial.Key]
	r.mu.Unlock()
	return written{Outcome: outcome, err: r.Tree.WriteTrial(outcome)}
}

func (r *run) inFlight() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.running)
}

// one runs one trial. A panic becomes the trial's error.
func (r *run) one(ctx context.Context, spec trial.Spec, began time.Time) (outcome trial.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			outcome = r.unfinished(spec.Key, began, result.InternalError,
				fmt.Sprintf("rollout itself failed (%v): please report this, with the trial's %s", p, result.ErrorFile))
			outcome.Detail = string(debug.Stack())
		}
	}()
	r.emit(event.Event{Kind: event.TrialStarted, Key: &spec.Key})
	dir := r.Tree.TrialDir(spec.Key)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		err = environment.MarkMachineError(err)
		outcome := r.unfinished(spec.Key, began, result.InternalError, "the trial's directory cannot be created: "+err.Error())
		if fault := environment.MachineFault(err); fault != nil {
			outcome.MachineFault = fault
		}
		return outcome
	}
	return r.Runner.Run(ctx, spec, dir)
}

// unfinished returns the outcome of a trial whose runner returned none. The cost of its models so
// far comes from the records of its calls; a running trial may cost more.
func (r *run) unfinished(key result.Key, began time.Time, kind result.ErrorType, message string) trial.Outcome {
	end := r.Now()
	t := result.Trial{Key: key, Error: &result.Error{Type: kind, Message: message}}
	t.Timestamps.StartedAt, t.Timestamps.EndedAt = result.Stamp(began), result.Stamp(end)
	t.Durations.TotalSec = result.Seconds(end.Sub(began))
	if t.Costs, t.Usage = judging.RecordedCosts(r.Tree.TrialDir(key)); t.Usage != nil {
		t.Costs.Model = t.Costs.Model.LowerBound()
	}
	result.SumCosts(&t)
	return trial.Outcome{Trial: t}
}
