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

	"github.com/org/rollout-action/internal/awake"
	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/event"
	"github.com/org/rollout-action/internal/redact"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/trial"
)

// Runner runs one trial; see trial.Runner. Run is called by many goroutines, returns soon after ctx
// ends, and reports everything, its own panics aside, in the outcome.
type Runner interface {
	Run(ctx context.Context, spec trial.Spec, dir string) trial.Outcome
}

// Options are what Run needs besides the trials.
type Options struct {
	Tree    *Tree
	Runner  Runner
	Workers int
	Emit    event.Sink // safe for many goroutines
	Now     func() time.Time
	// Grace is how long running trials may take to end after a cancel. Whatever is not over then is
	// recorded as cancelled without waiting for it. 0: DefaultGrace.
	Grace time.Duration
	// Hard, when it ends, ends the grace too. nil: never.
	Hard context.Context
	// Redactor hides secrets in the tasks' instructions, which outputs.jsonl has. nil: nothing is hidden.
	Redactor *redact.Redactor
	// Prompt gives the tasks' instructions for outputs.jsonl. nil: those of the trials that are run, without the Redactor's secrets.
	Prompt func(dataset, task string) []result.Message
	// CheckDisk is called before each trial whether the machine has room for it. After an error no more trials start, those that
	// run go on to their end, and Run returns the error. nil: there always is.
	CheckDisk func() error
	// Earlier are the results that were in the folder before. Those of trials that are run again count until they
	// begin, the others to the end.
	Earlier []result.Trial
	// Reconfirm are the confirmation attempts among Earlier that are made again if Confirm asks for them: they have no line in
	// outputs.jsonl.
	Reconfirm map[result.Key]bool
	// Confirm returns confirmation attempts (result.Trial.Confirmation) that are to be made. It is asked with all results when nothing is
	// left to run, and again when those have ended, until it returns none. It is not asked any more after a cancel. nil: none.
	Confirm func(ctx context.Context, trials []result.Trial) ([]trial.Spec, error)
}

// DefaultGrace leaves half a second of the 5 s that a cancelled job may take for its last writes.
const DefaultGrace = 4500 * time.Millisecond

// Run runs the trials and writes each one's result as it ends, then the job's. When ctx ends, no
// further trial starts, running ones are stopped, and the result says so.
//
// It fails only for what is no trial's fault: when results cannot be written (full disk, a folder
// that vanished), it starts no more trials, ends those that run, tries the writing again at the end,
// and names in the error whatever could not be kept. Nor is Options.CheckDisk any trial's fault, nor what this machine lacked while
// a trial ran (trial.Outcome.MachineFault): the other trials are run, and the error says how many it has ended.
func Run(ctx context.Context, specs []trial.Spec, opts Options) (result.Job, error) {
	if opts.Grace == 0 {
		opts.Grace = DefaultGrace
	}
	if opts.Hard == nil {
		opts.Hard = context.Background()
	}
	r := &run{Options: opts, running: map[result.Key]time.Time{}, begun: map[result.Key]bool{}, confirms: map[result.Key]bool{}}
	if r.Prompt == nil {
		r.Prompt = Instructions(specs, opts.Redactor)
	}
	r.Tree.outputs.from(r.Prompt)
	r.writeMetadata()
	planned := keySet(specs)
	maps.Copy(planned, opts.Reconfirm)
	kept := slices.DeleteFunc(without(opts.Earlier, planned), func(t result.Trial) bool { return t.Confirmation })
	if len(kept) == 0 {
		kept = nil
	}
	if kept == nil && opts.Tree.resumed {
		kept = []result.Trial{}
	}
	r.emit(event.Event{Kind: event.JobStarted, Total: len(kept) + len(specs), Kept: kept, Message: opts.Tree.Dir})
	if len(specs) > 0 {
		r.work(ctx, specs)
	}
	r.confirm(ctx)
	for _, failed := range r.unwritten {
		if err := r.Tree.WriteTrial(failed); err != nil {
			r.lost = append(r.lost, fmt.Errorf("%s (%s): %w", failed.Trial.Key, describe(failed.Trial), err))
		}
	}
	for _, t := range without(opts.Earlier, r.begun) {
		if !planned[t.Key] {
			continue // its line is there
		}
		if err := r.Tree.outputs.add(t); err != nil {
			r.lost = append(r.lost, fmt.Errorf("the line of %s in %s: %w", t.Key, result.OutputsFile, err))
		}
	}
	job := result.Summarize(r.Tree.Plan, r.counted())
	if err := r.Tree.WriteJob(job); err != nil {
		r.lost = append(r.lost, err)
	}
	r.emit(event.Event{Kind: event.JobEnded, Job: &job})
	return job, r.err(len(specs))
}

// err is what went wrong that is no trial's fault. wanted is how many trials were to be run.
func (r *run) err(wanted int) error {
	cut := len(r.trials) < wanted || slices.ContainsFunc(r.trials, func(t result.Trial) bool {
		return t.Error != nil && t.Error.Type == result.InternalError
	})
	var errs []error
	switch {
	case len(r.lost) > 0:
		errs = append(errs, fmt.Errorf("results could not be written below %s: %w", r.Tree.Dir, errors.Join(r.lost...)))
	case r.stopped != nil && cut:
		errs = append(errs, fmt.Errorf("the job was stopped, because a result could not be written at first: %w", r.stopped))
	}
	if n := r.machines; n > 0 {
		what := "1 trial"
		if n > 1 {
			what = fmt.Sprintf("%d trials", n)
		}
		errs = append(errs, fmt.Errorf("this machine ended %s; the first: %w", what, r.machine))
	}
	return errors.Join(append(errs, r.diskErr)...)
}

// run is one run of a job. Only the goroutine in collect touches trials, unwritten, lost and nextMetadata.
//
// Every trial has one outcome, because one goroutine takes it out of running: its worker when it is
// over, or collect when it is given up. Workers write their results themselves, side by side: one
// after the other they would all wait for the disk.
type run struct {
	Options
	trials    []result.Trial
	unwritten []trial.Outcome
	lost      []error
	stopped   error // the first result that could not be written, and stopped the job
	machine   error // what of this machine ended the first of machines trials
	machines  int
	// nextMetadata is when metadata.json is to be written again.
	nextMetadata time.Time

	mu       sync.Mutex
	running  map[result.Key]time.Time // since when; nil once what runs was given up
	begun    map[result.Key]bool      // whose earlier result does not count any more
	confirms map[result.Key]bool      // which trials are confirmation attempts
	writing  int                      // workers on their way from running to collect
	diskErr  error                    // of CheckDisk
}

// mayStart reports whether another trial may start. Once there was no room, none may.
func (r *run) mayStart() bool {
	if r.CheckDisk == nil {
		return true
	}
	r.mu.Lock()
	before := r.diskErr
	if before == nil {
		r.diskErr = r.CheckDisk()
	}
	now := r.diskErr
	r.mu.Unlock()
	if before == nil && now != nil {
		r.emit(event.Event{Kind: event.Notice, Message: now.Error()})
	}
	return now == nil
}

// blame notes in the result of a trial that the infrastructure ended whether its provider does not answer any more.
func (r *run) blame(ctx context.Context, t *result.Trial) {
	if t.Error == nil || !t.Error.Type.Infrastructure() || t.Error.Type == result.Cancelled || ctx.Err() != nil || r.mayStart() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Error.Unreachable = environment.KindOf(r.diskErr) == environment.KindUnavailable
}

// written is an outcome after the attempt to write it.
type written struct {
	trial.Outcome
	err    error
	notRun bool // err kept the trial from beginning: there is no outcome
}

// without are the trials that are not among keys.
func without(trials []result.Trial, keys map[result.Key]bool) []result.Trial {
	return slices.DeleteFunc(slices.Clone(trials), func(t result.Trial) bool { return keys[t.Key] })
}

func keySet(specs []trial.Spec) map[result.Key]bool {
	keys := make(map[result.Key]bool, len(specs))
	for _, s := range specs {
		keys[s.Key] = true
	}
	return keys
}

// confirm makes the confirmation attempts that are asked for.
func (r *run) confirm(ctx context.Context) {
	for r.Confirm != nil && ctx.Err() == nil && r.diskErr == nil && len(r.unwritten)+len(r.lost) == 0 {
		specs, err := r.Confirm(ctx, r.counted())
		if err != nil {
			r.lost = append(r.lost, err)
		}
		if err != nil || len(specs) == 0 {
			return
		}
		r.mu.Lock()
		for _, s := range specs {
			r.confirms[s.Key] = true
		}
		r.mu.Unlock()
		r.work(ctx, specs)
	}
}

// work hands the specs to the workers and takes in their outcomes.
func (r *run) work(ctx context.Context, specs []trial.Spec) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	workers := max(1, min(r.Workers, len(specs)))
	queue := make(chan trial.Spec)
	// After a cancel a worker sends at most one more outcome, so that none blocks when collect has given up.
	outcomes := make(chan written, workers)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for spec := range queue {
				now := r.Now()
				if ctx.Err() != nil || !r.mayStart() {
					continue
				}
				began, err := r.begin(spec.Key, now)
				if err != nil {
					outcomes <- written{Outcome: trial.Outcome{Trial: result.Trial{Key: spec.Key}}, err: err, notRun: true}
				}
				if !began {
					continue
				}
				outcome := r.one(ctx, spec, now)
				r.blame(ctx, &outcome.Trial)
				if r.end(spec.Key) {
					outcomes <- r.write(outcome)
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
				stop(&trial.AbortError{Err: outcome.err})
			}
		case <-cancelled:
			cancelled = nil
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

// counted are the results that count by now.
func (r *run) counted() []result.Trial {
	if len(r.Earlier) == 0 {
		return r.trials
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(slices.Clone(r.trials), without(r.Earlier, r.begun)...)
}

// take notes an outcome and tells the watchers.
func (r *run) take(w written) {
	if w.notRun {
		r.lost = append(r.lost, fmt.Errorf("%s was not run again, and its earlier result stays: %w", w.Trial.Key, w.err))
		r.emit(event.Event{Kind: event.Notice, Message: fmt.Sprintf("the folder of %s cannot be moved away, so no more trials are started: %v", w.Trial.Key, w.err)})
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

// abandon records the trials that are still running as cancelled, and takes the outcomes that are on
// their way.
func (r *run) abandon(ctx context.Context, why string, outcomes <-chan written) {
	kind, what := result.Cancelled, "the job was cancelled"
	if stop := (*trial.AbortError)(nil); errors.As(context.Cause(ctx), &stop) {
		kind, what = result.InternalError, "rollout stopped all trials ("+stop.Error()+")"
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
			what+", and the trial given up because "+why+": rollout clean removes its environment")))
	}
}

// begin notes that a trial runs, once what an earlier run left of it is out of the way, and reports false if it may not run:
// because nothing may any more, or because of an error, which is on its way to collect then.
func (r *run) begin(key result.Key, now time.Time) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running == nil {
		return false, nil
	}
	// Under the mutex, so that nothing is moved any more when what runs was given up and the job is counted.
	if err := r.Tree.supersede(key); err != nil {
		r.writing++
		return false, err
	}
	r.begun[key] = true
	r.running[key] = now
	return true, nil
}

// end notes that a trial's outcome is about to be written, and reports false if it was given up.
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

// received notes that an outcome has arrived.
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

// one runs one trial; a panic becomes its result.
func (r *run) one(ctx context.Context, spec trial.Spec, began time.Time) (outcome trial.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			outcome = r.unfinished(spec.Key, began, result.InternalError,
				fmt.Sprintf("rollout itself failed (%v): please report this, with the trial's error.txt", p))
			outcome.Detail = string(debug.Stack())
		}
	}()
	r.emit(event.Event{Kind: event.TrialStarted, Key: &spec.Key})
	dir := r.Tree.TrialDir(spec.Key)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		err = environment.MarkMachineError(err)
		outcome := r.unfinished(spec.Key, began, result.InternalError, "the trial's folder cannot be made: "+err.Error())
		if fault := environment.MachineFault(err); fault != nil {
			outcome.MachineFault = fault
		}
		return outcome
	}
	return r.Runner.Run(ctx, spec, dir)
}

// unfinished is the outcome of a trial whose runner gave none.
func (r *run) unfinished(key result.Key, began time.Time, kind result.ErrorType, message string) trial.Outcome {
	end := r.Now()
	t := result.Trial{Key: key, Error: &result.Error{Type: kind, Message: message}}
	t.Timestamps.StartedAt, t.Timestamps.EndedAt = result.Stamp(began), result.Stamp(end)
	t.Durations.TotalSec = result.Seconds(end.Sub(began))
	return trial.Outcome{Trial: t}
}

func (r *run) emit(e event.Event) {
	e.Time = r.Now().UTC()
	r.Emit(e)
}

// describe is a result in a few words, for when it cannot be written.
func describe(t result.Trial) string {
	switch {
	case t.Reward != nil:
		return fmt.Sprintf("reward %g", *t.Reward)
	case t.Error != nil:
		return string(t.Error.Type)
	}
	return "not verified"
}
