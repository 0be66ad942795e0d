package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/resume"
	"github.com/org/rollout-action/internal/run/job/reuse"
	"github.com/org/rollout-action/internal/run/trial"
	"github.com/org/rollout-action/internal/run/trial/judging"
)

// Resume runs the pending trials of a job, and reports on it. The Finished is as in Run.
func Resume(ctx context.Context, h *Host, req ResumeRequest) (*Finished, error) {
	policy, err := req.Rerun.policy()
	if err != nil {
		return nil, err
	}
	if req.Report, err = req.Report.checkedEarly(ctx, h.finder()); err != nil {
		return nil, err
	}
	lock, err := takeLock(h.Paths, h.Output, h.Now(), req.Dir)
	if err != nil {
		return nil, err
	}
	defer lock.Release() //nolint:errcheck // only a file that means nothing is left
	stored, err := openStored(h.Paths, req.Dir)
	if errors.Is(err, resume.ErrNotBegun) {
		return nil, usage("%w (give the directory of a job, such as jobs/nightly; a job that was killed before it began is begun by rollout run JOB_FILE --resume)", err)
	}
	if err != nil {
		return nil, err
	}
	if req.Report.Baseline == "" {
		req.Report.Baseline = besideDir(h.Paths, req.Dir, stored.Plan)
	}
	p, err := planStored(ctx, h, stored, req)
	if err != nil {
		return nil, err
	}
	defer p.close()
	p.failFast = req.FailFast
	p.into, p.report, p.rerun = req.Dir, req.Report, req.Rerun.flags()+req.Job.envFlags()+flag("log-format", req.LogFormat)
	return p.resume(ctx, stored, lock, policy, nil)
}

// takeLock takes the lock of a job's directory.
func takeLock(paths Paths, out Output, now time.Time, dir string) (*job.Lock, error) {
	if err := paths.checkJobDir(dir); err != nil {
		return nil, err
	}
	lock, err := job.TakeLock(paths.Path(dir), now)
	var busy *job.LockedError
	if errors.As(err, &busy) {
		busy.Dir = clean(dir)
		return nil, usage("%w", busy)
	}
	if err == nil && lock.Unguarded != nil {
		warnf(out, "nothing keeps two runs of this job apart: the file system of %s has no locks (%v)", dir, lock.Unguarded)
	}
	return lock, err
}

// openStored reads the files of a job.
func openStored(paths Paths, dir string) (resume.Job, error) {
	stored, err := resume.Load(paths.Path(dir))
	var refusal job.Refusal
	if errors.As(err, &refusal) {
		return stored, usage("%s cannot be resumed: %w", clean(dir), err)
	}
	return stored, err
}

// planStored plans the job in a directory, or a job file in its place.
func planStored(ctx context.Context, h *Host, stored resume.Job, req ResumeRequest) (*planned, error) {
	again := req.Job.gated(req.Report)
	again.name = stored.Plan.JobName
	if req.JobFile != "" {
		again.File, again.Agents = req.JobFile, nil
		for _, agent := range stored.Config.Agents {
			again.Agents = append(again.Agents, agent.Name)
		}
		return loadPlan(ctx, h, again)
	}
	from, err := stored.PathsFrom()
	if err != nil {
		return nil, err
	}
	again.File = filepath.Join(stored.Dir, result.ConfigFile)
	if b := stored.Plan.Beside; b != nil && b.Baseline && !isDir(from) {
		return nil, usage("%s: the files of commit %s, from which this baseline ran, are no longer there: they are kept in the cache, if it can be written and was not cleaned. Continue it with its job: %s",
			clean(again.File), ShortCommit(b.Commit), besideResumption(stored.Plan, ReportOptions{}))
	}
	if !isDir(from) {
		return nil, usage("%s: its paths cannot be followed, as it is not known where its job file was, or that directory is gone: give the job file with --job-file", clean(again.File))
	}
	again.pathsFrom = from
	p, err := loadPlan(ctx, h, again)
	if problems := (diag.List{}); errors.As(err, &problems) {
		linef(h.Output, "note: paths of this job begin at %s, where its job file was; if something was moved since, give the job file with --job-file", clean(from))
	}
	return p, err
}

// continuation is the rest of an existing job.
type continuation struct {
	*planned
	stored  resume.Job
	now     result.Plan
	pending resume.Pending
	prompt  func(dataset, task string) []result.Message
	confirm *confirmer
	owed    func(result.Key) *judging.Pending // the judgings that a trial's judges continue with; nil: the trial starts over
}

// resume runs the pending trials of the job, which is p today and was stored before.
func (p *planned) resume(ctx context.Context, stored resume.Job, lock *job.Lock, policy resume.RerunPolicy, sources []reuse.Source) (*Finished, error) {
	c, err := p.continuation(ctx, stored, policy)
	if err != nil {
		return nil, err
	}
	p.warn()
	if !c.left(ctx) {
		if err := c.finish(); err != nil {
			return nil, err
		}
		return finish(ctx, p.host, p.dir(), p.report, ending{ran: true, baseline: c.confirm.found()})
	}
	if err := c.checkVariables(); err != nil {
		return nil, err
	}
	provider, err := p.connect(ctx, resumption(p.host.Paths, p.dir(), stored.Plan, p.report)+p.rerun)
	if err != nil {
		return nil, err
	}
	defer provider.Close()
	if note := otherRules("this job began with", stored.Plan.RolloutVersion, "and is resumed with", p.host.Build); note != "" {
		linef(p.host.Output, "note: %s", note)
	}
	o, err := c.reopen(lock, provider)
	if err != nil {
		return nil, err
	}
	return o.run(ctx, sources)
}

// continuation returns the rest of the job, which is p today and was stored before. It refuses a
// job with different work.
func (p *planned) continuation(ctx context.Context, stored resume.Job, policy resume.RerunPolicy) (*continuation, error) {
	p.divideLike(stored.Plan)
	if p.beside == nil {
		p.beside = stored.Plan.Beside
	}
	now, err := p.record(ctx)
	if err != nil {
		return nil, err
	}
	changes, err := stored.Drift(p.Job, now)
	if err == nil {
		err = p.refuseDrift(changes)
	}
	if err != nil {
		return nil, err
	}
	owed := p.owedJudgings()
	policy.Owed = func(key result.Key) bool { return owed(key) != nil }
	pending, err := stored.Pending(now, policy)
	var refusal job.Refusal
	if errors.As(err, &refusal) {
		return nil, usage("%s cannot be resumed: %w", clean(p.dir()), err)
	}
	if err != nil {
		return nil, err
	}
	c := &continuation{planned: p, stored: stored, now: now, pending: pending, owed: owed, prompt: job.Instructions(p.own(), redact.New(p.Secrets))}
	if p.beside == nil { // the attempts of a pair are made together
		c.confirm = p.confirmer(maps.Clone(pending.Confirmations))
	}
	return c, nil
}

// owedJudgings returns a function that returns the judging that a trial's judges continue with, or
// nil if the trial starts over. The function caches its results, because the directory changes when
// trials begin.
func (p *planned) owedJudgings() func(result.Key) *judging.Pending {
	specs := map[result.Key]trial.Spec{}
	for _, s := range p.own() {
		if len(s.Judges) > 0 {
			specs[s.Key] = s
		}
	}
	digests := sync.OnceValue(func() trial.Digests { return trial.DigestsOf(p.Job, p.inputs()) })
	known := map[result.Key]*judging.Pending{}
	return func(key result.Key) *judging.Pending {
		spec, ok := specs[key]
		if !ok {
			return nil
		}
		if _, ok := known[key]; !ok {
			known[key], _ = trial.OwedJudging(spec, digests(), p.trialDir(key))
		}
		return known[key]
	}
}

// left reports whether anything remains to be run.
func (c *continuation) left(ctx context.Context) bool {
	if n := c.pending.Missing; n > 0 {
		linef(c.host.Output, "note: %s without a whole result left as they are (--only-failed)", plural.Count(n, "trial"))
	}
	return len(c.pending.Keys) > 0 || c.confirm.left(ctx, c.stored.Plan, c.pending.Earlier) || c.unranked()
}

// unranked reports whether a judge still has to rank trials that have ended.
func (c *continuation) unranked() bool {
	if unrankedPlan(c.stored.Plan) || !slices.ContainsFunc(c.own(), func(s trial.Spec) bool { return len(s.GroupJudges) > 0 }) {
		return false
	}
	return len(trial.GroupsOf(c.own(), c.pending.Earlier, trial.DigestsOf(c.Job, c.inputs()), c.trialDir)) > 0
}

// finish writes the files of a job with nothing left to run.
func (c *continuation) finish() error {
	total := len(c.now.Own())
	linef(c.host.Output, "Nothing to run: %d of %s in %s %s done", c.pending.Kept, plural.Count(total, "trial"), clean(c.dir()), plural.Are(total))
	if err := c.stored.Finish(c.Job, c.now, c.pending.Earlier, c.prompt); err != nil {
		return fmt.Errorf("write the job's files: %w", err)
	}
	return nil
}

// checkVariables refuses results that were produced with other values of variables.
func (c *continuation) checkVariables() error {
	tasks := map[result.Key]*task.Task{}
	for _, s := range c.specs {
		tasks[result.Key{Dataset: s.Key.Dataset, Task: s.Key.Task}] = s.Task
	}
	taskOf := func(key result.Key) *task.Task {
		return cmp.Or(tasks[result.Key{Dataset: key.Dataset, Task: key.Task}], &task.Task{})
	}
	return c.refuseDrift(c.stored.VariableDrift(c.pending, c.Job, c.inputs(), taskOf))
}

// reopen prepares the job to run the rest.
func (c *continuation) reopen(lock *job.Lock, provider environment.Provider) (*opened, error) {
	tree, err := c.stored.Reopen(lock, c.Job, c.now, c.pending, c.prompt, c.host.Now())
	if err != nil {
		return nil, fmt.Errorf("write the job's files: %w", err)
	}
	todo := slices.DeleteFunc(slices.Clone(c.own()), func(s trial.Spec) bool { return !c.pending.Keys[s.Key] })
	before := map[result.Key]result.USD{}
	for _, t := range c.pending.Earlier {
		before[t.Key] = t.Spent().Total()
	}
	carried := map[result.Key]result.USD{}
	for i, s := range todo {
		if !c.pending.Named[s.Key] {
			todo[i].Judging = c.owed(s.Key)
		}
		if todo[i].Judging != nil {
			cost, ended := before[s.Key]
			if !ended {
				cost = c.recordedCost(s.Key)
			}
			carried[s.Key] = cost
		}
	}
	if len(carried) > 0 {
		linef(c.host.Output, "note: of %s only the judges run that have given no verdict: agents and tests have ended", plural.Count(len(carried), "trial"))
	}
	return &opened{
		planned: c.planned, provider: provider, tree: tree, earlier: c.pending.Earlier, named: c.pending.Named, again: c.pending.Confirmations, confirm: c.confirm,
		todo: todo, carried: carried,
	}, nil
}

// refuseDrift reports the changes to a job that mean different work than when it began, and returns
// an error; nil without changes.
func (p *planned) refuseDrift(changes []resume.Change) error {
	if len(changes) == 0 {
		return nil
	}
	secrets := redact.New(p.Secrets)
	for _, c := range changes {
		line := c.Message
		if c.Key != "" {
			line = c.Key + ": " + line
		}
		linef(p.host.Output, "%s: %s", clean(p.File), clean(secrets.String(line)))
	}
	return usage("%s cannot be resumed, because it is no longer the same work as when it began (%s): undo that, give the flags and variables that it began with, or begin a new job with another --name",
		clean(p.dir()), plural.Count(len(changes), "difference"))
}
