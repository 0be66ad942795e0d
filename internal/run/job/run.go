package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/job/spending"
	"github.com/org/rollout-action/internal/run/trial"
)

// Runner runs one trial; see trial.Runner. Many goroutines call Run. It returns soon after ctx
// ends. All errors are in the outcome; panics are not.
type Runner interface {
	Run(ctx context.Context, spec trial.Spec, dir string) trial.Outcome
}

// Wait waits until a trial may start, and returns a function to call when it has ended. ok is false
// if ctx ended first.
type Wait func(ctx context.Context) (done func(), ok bool)

// Options configure Run.
type Options struct {
	Tree    *Tree
	Runner  Runner
	Workers int
	Emit    event.Sink // safe for many goroutines
	Now     func() time.Time
	// Grace limits the time that running trials may take to end after a cancel. Run then records
	// the rest as cancelled and does not wait for them. 0: DefaultGrace.
	Grace time.Duration
	// Hard ends the grace early when it ends. nil: it never ends.
	Hard context.Context //nolint:containedctx // outlives that of calls
	// Redactor hides secrets in the tasks' instructions, which are in outputs.jsonl. nil: nothing
	// is hidden.
	Redactor *redact.Redactor
	// Prompt returns the tasks' instructions for outputs.jsonl. nil: Instructions of the specs and
	// the Redactor.
	Prompt func(dataset, task string) []result.Message
	// CheckDisk is called before each trial and returns an error if the machine has no room for it.
	// After an error no more trials start, those that run go on to their end, and Run returns the
	// error. nil: there is always room.
	CheckDisk func() error
	// FailFast is called with the result of each trial that Run ran, one at a time, before its
	// worker takes another. Once it has returned true, it is not called again, no more trials or
	// confirmation attempts start, and running trials go on to their end. nil: all run.
	FailFast func(result.Trial) bool
	// Turn registers a trial that waits for its turn. It is called in the order of the specs. The
	// caller calls the returned Wait. nil: trials start at once.
	Turn func(key result.Key) Wait
	// Budget limits the cost and the duration of the job.
	Budget spending.Budget
	// Earlier holds the results of earlier runs in the directory. The result of a trial that is run
	// again counts until the trial begins, the others count to the end.
	Earlier []result.Trial
	// NextRound returns the trials of the next round, of those that Run got. Run calls it with all
	// results before the first round and after each, until it returns none or the run was cancelled
	// or stopped. The others are not run. nil: all trials run at once.
	NextRound func(ctx context.Context, trials []result.Trial) ([]trial.Spec, error)
	// Reconfirm holds the confirmation attempts among Earlier that are made again if Confirm
	// returns them. They have no line in outputs.jsonl yet.
	Reconfirm map[result.Key]bool
	// Confirm returns the confirmation attempts (result.Trial.Confirmation) to make. Run calls it
	// with all results when all trials have ended, and again when those attempts have ended, until
	// it returns none. Run does not call it after a cancel. nil: there are none.
	Confirm func(ctx context.Context, trials []result.Trial) ([]trial.Spec, error)
	// Rank is called with all results when all trials have ended, unless the run was cancelled or
	// stopped. It compares trials with each other, and passes changed results to write, which many
	// goroutines may call. nil: nothing is compared.
	Rank func(ctx context.Context, trials []result.Trial, write func([]result.Trial))
}

// DefaultGrace leaves half a second of the 5 s that a cancelled job may take for its last writes.
const DefaultGrace = 4500 * time.Millisecond

// Run runs the trials. It writes the result of each when the trial ends, and the job's result at
// the end. When ctx ends, no further trial starts, running ones are stopped, and the result says
// so.
//
// It returns an error only for faults that no trial caused. If a result cannot be written (the disk
// is full, the directory is gone), it starts no more trials, ends the running ones, writes again at
// the end, and names the results that could not be written in the error. It also returns the error
// of Options.CheckDisk. If this machine ended a trial (trial.Outcome.MachineFault), the other
// trials are run, and the error says how many the machine ended.
func Run(ctx context.Context, specs []trial.Spec, opts Options) (result.Job, error) {
	if opts.Grace == 0 {
		opts.Grace = DefaultGrace
	}
	if opts.Budget.Spent == nil {
		opts.Budget.Spent = &spending.Spending{}
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
	r.emit(event.Event{Kind: event.JobStarted, Total: len(kept) + len(specs), AtMost: opts.NextRound != nil, Kept: kept, Message: opts.Tree.Dir})
	ctx, endTime := r.withinTime(ctx)
	defer endTime()
	r.checkTime(ctx)
	r.stop(r.costs)
	r.main(ctx, specs)
	r.confirm(ctx)
	r.rank(ctx)
	r.checkTime(ctx)
	for _, failed := range r.unwritten {
		if err := r.Tree.WriteTrial(failed); err != nil {
			r.lost = append(r.lost, fmt.Errorf("%s (%s): %w", failed.Trial.Key, describe(failed.Trial), err))
		}
	}
	for _, t := range without(opts.Earlier, r.begun) {
		if !planned[t.Key] {
			continue // outputs.jsonl has its line
		}
		if err := r.Tree.outputs.add(t); err != nil {
			r.lost = append(r.lost, fmt.Errorf("the line of %s in %s: %w", t.Key, result.OutputsFile, err))
		}
	}
	if r.ranked {
		if err := r.Tree.rewriteOutputs(r.counted(), r.Prompt); err != nil {
			r.lost = append(r.lost, fmt.Errorf("the scores of rankings in %s: %w", result.OutputsFile, err))
		}
	}
	r.noteStop()
	job := result.Summarize(r.Tree.Plan, r.counted())
	if err := r.Tree.WriteJob(job); err != nil {
		r.lost = append(r.lost, err)
	}
	r.emit(event.Event{Kind: event.JobEnded, Job: &job})
	return job, r.err(len(specs))
}

// err returns the faults that no trial caused. wanted is the number of trials that were to run.
func (r *run) err(wanted int) error {
	cut := len(r.trials) < wanted || slices.ContainsFunc(r.trials, func(t result.Trial) bool {
		return t.Error != nil && t.Error.Type == result.InternalError
	})
	var errs []error
	switch {
	case len(r.lost) > 0:
		errs = append(errs, fmt.Errorf("results could not be written below %s: %w", r.Tree.Dir, errors.Join(r.lost...)))
	case r.stopped != nil && cut:
		errs = append(errs, fmt.Errorf("the job was stopped because a result could not be written at first: %w", r.stopped))
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

// run is one run of a job. Only the goroutine in collect touches trials, unwritten, lost and
// nextMetadata.
//
// Every trial has one outcome, because one goroutine removes it from running: its worker when the
// trial is over, or collect when the trial is abandoned. Workers write their results themselves, at
// the same time: one after the other they would all wait for the disk.
type run struct {
	Options
	trials    []result.Trial
	unwritten []trial.Outcome
	lost      []error
	stopped   error // of the first result that could not be written, which stopped the job
	machine   error // the fault of this machine that ended the first of machines trials
	machines  int
	ranked    bool // results have changed after their trials ended
	// nextMetadata is when metadata.json is written next.
	nextMetadata time.Time

	mu       sync.Mutex
	running  map[result.Key]time.Time // by start time; nil after the running trials were abandoned
	begun    map[result.Key]bool      // their earlier results no longer count
	confirms map[result.Key]bool      // these trials are confirmation attempts
	writing  int                      // outcomes that were removed from running and are not yet in collect
	diskErr  error                    // of CheckDisk
	stopping *result.Stop             // the reason why no more trials may start; nil: they may
}

// mayStart reports whether another trial may start. After the first error of CheckDisk none may.
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

// blame marks the error of a trial as unreachable if the infrastructure ended it and the provider
// no longer answers.
func (r *run) blame(ctx context.Context, t *result.Trial) {
	if t.Error == nil || !t.Error.Type.Infrastructure() || t.Error.Type == result.Cancelled || ctx.Err() != nil || r.mayStart() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Error.Unreachable = environment.KindOf(r.diskErr) == environment.KindUnavailable
}

// without returns the trials that are not among keys.
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

// main runs the planned trials, all at once or in rounds.
func (r *run) main(ctx context.Context, specs []trial.Spec) {
	if r.NextRound == nil {
		if len(specs) > 0 {
			r.work(ctx, specs)
		}
		return
	}
	for r.goesOn(ctx) {
		next, err := r.NextRound(ctx, r.counted())
		if err != nil {
			r.lost = append(r.lost, err)
		}
		if err != nil || len(next) == 0 {
			return
		}
		r.work(ctx, next)
	}
}

// goesOn reports whether further trials may follow those that have ended.
func (r *run) goesOn(ctx context.Context) bool {
	return ctx.Err() == nil && !r.stops() && r.diskErr == nil && len(r.unwritten)+len(r.lost) == 0
}

// confirm makes the confirmation attempts that Options.Confirm returns.
func (r *run) confirm(ctx context.Context) {
	for r.Confirm != nil && r.goesOn(ctx) {
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

// rank calls Options.Rank and writes the results that change.
func (r *run) rank(ctx context.Context) {
	if r.Rank == nil || !r.goesOn(ctx) {
		return
	}
	r.Earlier = slices.Clone(r.Earlier) // the caller shares it
	at := map[result.Key]*result.Trial{}
	for _, list := range [][]result.Trial{r.Earlier, r.trials} { // later results replace earlier ones
		for i := range list {
			at[list[i].Key] = &list[i]
		}
	}
	var mu sync.Mutex
	r.Rank(ctx, r.counted(), func(trials []result.Trial) {
		mu.Lock()
		defer mu.Unlock()
		for _, t := range trials {
			if err := r.Tree.rewriteTrial(t); err != nil {
				r.lost = append(r.lost, fmt.Errorf("the scores of %s: %w", t.Key, err))
				continue
			}
			before := at[t.Key]
			r.Budget.Settle(*before, t)
			if unranked, ok := r.Budget.Unranked[t.Key]; ok {
				r.Budget.Spent.Add(-unranked.Amount())
				delete(r.Budget.Unranked, t.Key)
			}
			*before, r.ranked = t, true
		}
	})
}

// counted returns the results that count now.
func (r *run) counted() []result.Trial {
	if len(r.Earlier) == 0 {
		return r.trials
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(slices.Clone(r.trials), without(r.Earlier, r.begun)...)
}

func (r *run) emit(e event.Event) {
	e.Time = r.Now().UTC()
	r.Emit(e)
}

// describe returns a result in a few words, for errors.
func describe(t result.Trial) string {
	switch {
	case t.Reward != nil:
		return fmt.Sprintf("reward %g", *t.Reward)
	case t.Error != nil:
		return string(t.Error.Type)
	}
	return "not verified"
}
