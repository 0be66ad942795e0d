package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/cache"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/trial"
	"github.com/org/rollout-action/providers"
)

// opened is the third stage of a job: its provider answers, and its directory exists and is locked.
type opened struct {
	*planned
	provider environment.Provider
	tree     *job.Tree
	todo     []trial.Spec                // remaining trials
	named    map[result.Key]bool         // trials that --rerun names, which are not taken from other jobs
	earlier  []result.Trial              // results that exist
	carried  map[result.Key]result.USD   // cost of the trials of which only the judges run
	again    map[result.Key]bool         // confirmation attempts that may be made again
	ended    result.Job                  // once the trials have run
	runner   func(job.Runner) job.Runner // wraps the runner of the trials; nil: no wrapper
	began    time.Time                   // when this run began its trials; zero: it did not
	confirm  *confirmer                  // chooses confirmation attempts; nil: there are none
	// rounds is job.Options.Confirm of a job in a pair; nil: confirm decides.
	rounds func(context.Context, *job.Tree, event.Sink, []result.Trial) ([]trial.Spec, error)
}

// warn reports the warnings about a job before it begins.
func (p *planned) warn() {
	if logLevel(p.Job.LogLevel) <= slog.LevelWarn {
		p.host.Output.Warnings(p.Warnings)
	}
}

// connect opens the job's provider, with retries, and removes what killed runs left there. A job
// that is cancelled meanwhile leaves no directory. resumption is the command that resumes the job;
// "" before it has begun.
func (p *planned) connect(ctx context.Context, resumption string) (environment.Provider, error) {
	h := p.host
	if err := p.openAgentFiles(ctx); err != nil && ctx.Err() == nil {
		return nil, err
	}
	entry, _ := h.Providers.Find(p.Job.Environment.Type) // config.Load has checked the name
	var provider environment.Provider
	var err, refused error
	p.showing(func(progress func(string)) {
		provider, err = Connect(ctx, h.Hard, entry, p.settings, providers.Host{Hide: p.hidden(), Version: h.Version, Progress: progress})
	})
	if err == nil {
		var never diag.List
		if never, refused = p.ask(ctx, provider, resumption); len(never) > 0 {
			h.Output.Warnings(never)
		}
		if refused == nil { // it takes long
			p.showing(func(progress func(string)) { refused = p.proveNetworks(ctx, provider, progress) })
		}
		sweep(ctx, provider, h.Output, job.Leftovers)
	}
	if ctx.Err() != nil {
		if err == nil {
			_ = provider.Close()
		}
		if p.into != "" {
			return nil, cancelled("cancelled before the job was resumed: nothing was run, and nothing changed")
		}
		return nil, cancelled("cancelled before the job began: it has no directory, nothing was run")
	}
	if err == nil {
		if err = cmp.Or(refused, p.checkDisk(provider, resumption)); err != nil {
			_ = provider.Close()
		}
	}
	if err != nil {
		return nil, err
	}
	cfg := p.Job.Retry
	return environment.Retry(provider, environment.RetryPolicy{
		MaxAttempts: cfg.MaxAttempts,
		Initial:     time.Duration(cfg.InitialDelayMs) * time.Millisecond,
		Max:         time.Duration(cfg.MaxDelayMs) * time.Millisecond,
		Multiplier:  cfg.Multiplier,
	}), nil
}

// showing runs do and shows the messages that the provider sends to progress.
func (p *planned) showing(do func(progress func(string))) {
	secrets := redact.New(p.Secrets)
	show, endView := p.host.Output.View(View{Level: logLevel(p.Job.LogLevel)})
	defer endView()
	do(func(line string) {
		show(event.Event{Time: p.host.Now().UTC(), Kind: event.Notice, Message: secrets.String(line)})
	})
}

// Connect connects to a provider, unless ctx ends meanwhile. When hard ends, it stops waiting for
// the provider.
func Connect(ctx, hard context.Context, entry providers.Entry, cfg map[string]any, host providers.Host) (environment.Provider, error) {
	type connection struct {
		provider environment.Provider
		err      error
	}
	made := make(chan connection, 1)
	go func() {
		provider, err := entry.New(ctx, cfg, host)
		made <- connection{provider, err}
	}()
	select {
	case c := <-made:
		if ctx.Err() == nil {
			return c.provider, c.err
		}
		if c.err == nil {
			_ = c.provider.Close()
		}
	case <-hard.Done():
	}
	return nil, fmt.Errorf("connect to %s: %w", entry.Name, context.Canceled)
}

// sweep removes the environments of killed runs, as selected by left. A failure is only a warning.
func sweep(ctx context.Context, provider environment.Provider, out Output, left func([]environment.Listed) []environment.Listed) {
	listed, err := provider.List(ctx)
	if err == nil {
		var gone []environment.Listed
		gone, err = job.RemoveEnvironments(ctx, provider, left(listed))
		if len(gone) > 0 {
			linef(out, "removed %s left by a run that was killed", plural.Count(len(gone), "environment"))
		}
	}
	if err != nil && ctx.Err() == nil {
		warnf(out, "leftovers of earlier runs could not be removed: %v", err)
	}
}

// hidden returns the files and directories of this machine that no environment of a job may show;
// see providers.Host. Tasks are listed in addition to their datasets, which may consist of links.
func (p *planned) hidden() []string {
	paths := slices.Concat([]string{".", p.Job.JobsDir, filepath.Join(p.Job.JobsDir, p.Job.Name)}, p.DatasetDirs, p.TaskDirs, p.taskDirs)
	if root, err := cache.Root(p.host.Getenv); err == nil {
		paths = append(paths, filepath.Join(root, cache.DirsName)) // tasks that other jobs use; not the whole cache, which may contain a provider's files
	}
	if p.path != "-" {
		paths = append(paths, p.path)
	}
	var hidden []string
	for _, path := range paths {
		abs, err := filepath.Abs(p.host.Path(path))
		if err != nil {
			continue // no current directory, so relative paths lead nowhere
		}
		hidden = append(hidden, abs, resolved(abs))
	}
	slices.Sort(hidden)
	return slices.Compact(hidden)
}

// resolved follows the links in an absolute path as far as it exists.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(resolved(parent), filepath.Base(path))
}

// checkDisk returns an error with advice if the disks of the machine are too full for another trial
// of a job. resumption is the command that resumes the job; "" before it has begun.
func (p *planned) checkDisk(provider environment.Provider, resumption string) error {
	err := p.lowDisk(provider)
	if low := new(job.LowDiskError); errors.As(err, &low) {
		again := ""
		if resumption != "" {
			again = ", then run " + resumption
		}
		return fmt.Errorf("%w (make room, for example with rollout clean --images --env-type %s%s; environment.min_free_disk: 0 continues regardless)",
			err, clean(p.Job.Environment.Type), again)
	}
	return err
}

// lowDisk returns a *job.LowDiskError if a disk of this machine is too full.
func (p *planned) lowDisk(provider environment.Provider) error {
	disks := []job.Disk{{What: "results", Dir: p.host.Path(p.dir())}}
	if dir := environment.Disk(provider); dir != "" {
		disks = append(disks, job.Disk{What: "images and environments", Dir: dir})
	}
	return job.Watermark{Min: int64(p.Job.Environment.MinFreeDisk), Disks: disks, Free: p.host.FreeDisk}.Check()
}

// open creates the directory of a new job, unless ctx ends first. lock is the lock of an existing
// empty directory, or nil.
func (p *planned) open(ctx context.Context, provider environment.Provider, lock *job.Lock) (*opened, error) {
	tree, err := p.create(ctx, lock)
	name := p.Job.Name
	for n := 2; errors.Is(err, job.ErrExists) && n < 100 && p.rename(n, name); n++ {
		tree, err = p.create(ctx, lock)
	}
	if errors.Is(err, job.ErrExists) {
		return nil, p.errExists(err)
	}
	if err != nil {
		return nil, err
	}
	return &opened{planned: p, provider: provider, tree: tree, todo: slices.Clone(p.own())}, nil
}

// errExists adds the advice about a job's directory that already exists.
func (p *planned) errExists(err error) error {
	if p.reverifies != "" {
		return usage("%w: a job is never written over; choose another --name, or remove the directory", err)
	}
	return usage("%w: a job is never written over; choose another --name, resume it (--resume), or remove the directory, or write a placeholder in the name for a directory of each run ({date}, {commit} or {run}), as in %s", err,
		clean(p.Job.Name+"-{date}"))
}

func (p *planned) create(ctx context.Context, lock *job.Lock) (*job.Tree, error) {
	plan, err := p.record(ctx)
	if err != nil {
		return nil, err
	}
	var tree *job.Tree
	if lock != nil {
		tree, err = job.Begin(p.host.Path(p.dir()), lock, p.Job, plan)
	} else {
		tree, err = job.Create(p.host.Path(p.dir()), p.Job, plan)
	}
	if err != nil && !errors.Is(err, job.ErrExists) {
		err = fmt.Errorf("make the job's directory: %w", err)
	}
	return tree, err
}

// execute runs the trials with the live view.
func (o *opened) execute(ctx context.Context) error {
	show, endView := o.view()
	defer endView()
	budget, err := o.budget(o.earlier, o.tree.Plan.ConfirmationKeys())
	if err != nil {
		return err
	}
	return o.trials(ctx, show, budget, nil)
}

// view returns the live view of the job.
func (o *opened) view() (show event.Sink, end func()) {
	view := View{Level: logLevel(o.Job.LogLevel), Concurrency: o.Job.NConcurrentTrials}
	for _, m := range o.Job.Metrics {
		view.Metrics = append(view.Metrics, m.Type)
	}
	return o.host.Output.View(view)
}

// trials runs the trials. turn is job.Options.Turn.
func (o *opened) trials(ctx context.Context, show event.Sink, budget job.Budget, turn func(result.Key) job.Wait) error {
	h := o.host
	var mu sync.Mutex
	sinks := event.Tee(o.tree.Sink, show)
	emit := func(e event.Event) {
		mu.Lock()
		defer mu.Unlock()
		sinks(e)
	}
	redactor := redact.New(o.Secrets)
	next := o.rounds
	if next == nil && o.confirm != nil {
		next = o.confirm.next
	}
	var confirm func(context.Context, []result.Trial) ([]trial.Spec, error)
	if next != nil {
		confirm = func(ctx context.Context, trials []result.Trial) ([]trial.Spec, error) {
			return next(ctx, o.tree, emit, trials)
		}
	}
	var stops func(result.Trial) bool
	if o.failFast {
		stops = o.failsFast
	}
	models, err := o.models(true)
	if err != nil {
		return err
	}
	o.began = h.Now()
	budget.Carried = o.carried
	var allowance trial.Budget
	if budget.CostUSD > 0 {
		budget.Running = &job.RunningCost{}
		allowance = budget
	}
	id := o.tree.Plan.ID()
	if len(o.tree.Plan.Resumed) > 0 { // also what a process on another machine left, which would take the room of these trials
		sweep(ctx, o.provider, h.Output, func(listed []environment.Listed) []environment.Listed { return job.LeftoversOf(listed, id) })
	}
	digests := trial.DigestsOf(o.Job, o.inputs())
	runs := trial.NewRunner(trial.Options{
		Budget: allowance, Run: id,
		Models: models, Provider: o.provider, Job: o.Job, Digests: digests, Redactor: redactor, Emit: emit, Now: h.Now, Hard: h.Hard, Patience: h.Patience,
		Disk: func() error { return o.lowDisk(o.provider) },
	})
	var runner job.Runner = runs
	if o.runner != nil {
		runner = o.runner(runner)
	}
	o.ended, err = job.Run(ctx, o.todo, job.Options{
		FailFast:  stops,
		Budget:    budget,
		Turn:      turn,
		Earlier:   o.earlier,
		Tree:      o.tree,
		Workers:   o.Job.NConcurrentTrials,
		Emit:      emit,
		Now:       h.Now,
		Hard:      h.Hard,
		Grace:     job.DefaultGrace * time.Duration(max(1, h.Patience)),
		Redactor:  redactor,
		CheckDisk: func() error { return o.checkMachine(ctx) },
		Reconfirm: o.again,
		Confirm:   confirm,
		Rank:      o.ranks(runs, digests, emit),
		Prompt:    job.Instructions(o.own(), redactor),
		Runner:    runner,
	})
	return err
}

// checkMachine returns an error if this machine cannot run another trial.
func (o *opened) checkMachine(ctx context.Context) error {
	resumption := o.resumption()
	if err := environment.Reachable(ctx, o.provider); err != nil {
		return fmt.Errorf("%w; what has not run stays pending; resume it with: %s", err, resumption)
	}
	return o.checkDisk(o.provider, resumption)
}

// resumption returns the command that resumes the job.
func (o *opened) resumption() string {
	return resumption(o.host.Paths, o.dir(), o.tree.Plan, o.report) + o.rerun
}

// How long a job waits at its end for environments to be removed: usually, after a cancel, and
// after a second signal.
const (
	closeTime     = time.Minute
	cancelledTime = 400 * time.Millisecond
	abortedTime   = 3 * time.Second
)

// close closes the job's files before the reports, which may take long, and removes the
// environments that trials could not remove because the engine was down. A cancelled job has only
// time to check. After a second signal, trials remove nothing: all environments are removed here,
// at the same time.
func (o *opened) close(ctx context.Context) {
	h := o.host
	if err := o.tree.Close(); err != nil {
		warnf(h.Output, "end the job's files: %v", err)
	}
	o.sendSpans(ctx)
	limit, hard := closeTime, h.Hard
	if ctx.Err() != nil {
		limit = cancelledTime
	}
	if h.Hard.Err() != nil {
		limit, hard = abortedTime, context.WithoutCancel(h.Hard)
	}
	ctx, cancel := context.WithTimeout(hard, limit)
	defer cancel()
	listed, err := o.provider.List(ctx)
	if err == nil {
		left := append(job.OwnLeftovers(listed, o.Job.Name), o.unnamed(job.OwnOutcomes(listed, o.Job.Name))...)
		_, err = job.RemoveEnvironments(ctx, o.provider, left)
	}
	switch {
	case err == nil:
	case h.Hard.Err() != nil:
		warnf(h.Output, "environments may be left: the next run removes them, or %s", environment.CleanCommand(o.Job.Environment.Type))
	default:
		warnf(h.Output, "environments of this job may be left, the next run removes them: %v", err)
	}
}

// unnamed returns the outcomes that no result names: an engine may have kept them after the trial
// gave up. If a result cannot be read, it returns none.
func (o *opened) unnamed(outcomes []environment.Listed) []environment.Listed {
	if len(outcomes) == 0 {
		return nil
	}
	tree, err := result.ReadTree(o.host.Path(o.dir()))
	if err != nil || len(tree.Unreadable) > 0 {
		return nil
	}
	named := map[string]bool{}
	for _, t := range slices.Concat(tree.Trials, tree.Confirmations) {
		if e := t.Environment; e != nil && e.Outcome != nil {
			named[e.Outcome.ID] = true
		}
	}
	return slices.DeleteFunc(outcomes, func(l environment.Listed) bool { return named[l.ID] })
}
