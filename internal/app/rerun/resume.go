// Package rerun runs what is left of a job, and trials again: it resumes a job, runs the tests of
// its trials again, and has its judges judge again.
package rerun

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

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/app/stages"
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
	"github.com/org/rollout-action/internal/run/trial/experiment"
	"github.com/org/rollout-action/internal/run/trial/judging"
)

// Resume runs the pending trials of a job, and reports on it. The Finished is as in Run.
func Resume(ctx context.Context, h *host.Host, req stages.ResumeRequest) (*host.Finished, error) {
	policy, err := req.Rerun.Policy()
	if err != nil {
		return nil, err
	}
	if req.Report, err = req.Report.CheckedEarly(ctx, reporting.FinderOf(h)); err != nil {
		return nil, err
	}
	lock, err := takeLock(h.Paths, h.Output, h.Now(), req.Dir)
	if err != nil {
		return nil, err
	}
	defer lock.Release() //nolint:errcheck // only a file that means nothing is left
	stored, err := OpenStored(h.Paths, req.Dir)
	if errors.Is(err, resume.ErrNotBegun) {
		return nil, host.Usagef("%w (give the directory of a job, such as jobs/nightly; a job that was killed before it began is begun by rollout run JOB_FILE --resume)", err)
	}
	if err != nil {
		return nil, err
	}
	if stored.Plan.Beside != nil && !stored.Plan.Rounds.Ended() {
		return nil, host.Usagef("%s makes its attempts in rounds together with the other job (gate.stop): continue both with: %s", host.Clean(req.Dir), reporting.PairResumption(h.Paths, req.Dir, stored.Plan, reporting.ReportOptions{}))
	}
	if req.Report.Baseline == "" {
		req.Report.Baseline = reporting.BaselineDir(h.Paths, req.Dir, stored.Plan)
	}
	p, err := PlanStored(ctx, h, stored, req)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	p.Into, p.Orders = req.Dir, req.Orders()
	return RunRest(ctx, p, stored, lock, policy, nil)
}

// takeLock takes the lock of a job's directory.
func takeLock(paths host.Paths, out host.Output, now time.Time, dir string) (*job.Lock, error) {
	if err := paths.CheckJobDir(dir); err != nil {
		return nil, err
	}
	lock, err := job.TakeLock(paths.Path(dir), now)
	var busy *job.LockedError
	if errors.As(err, &busy) {
		busy.Dir = host.Clean(dir)
		return nil, host.Usagef("%w", busy)
	}
	if err == nil && lock.Unguarded != nil {
		host.Warnf(out, "nothing keeps two runs of this job apart: the file system of %s has no locks (%v)", dir, lock.Unguarded)
	}
	return lock, err
}

// OpenStored reads the files of a job.
func OpenStored(paths host.Paths, dir string) (resume.Job, error) {
	stored, err := resume.Load(paths.Path(dir))
	var refusal job.Refusal
	if errors.As(err, &refusal) {
		return stored, host.Usagef("%s cannot be resumed: %w", host.Clean(dir), err)
	}
	return stored, err
}

// PlanStored plans the job in a directory, or a job file in its place.
func PlanStored(ctx context.Context, h *host.Host, stored resume.Job, req stages.ResumeRequest) (*stages.Planned, error) {
	again := req.Job.Gated(req.Report)
	again.Name = stored.Plan.JobName
	if req.JobFile != "" {
		again.File, again.Agents = req.JobFile, nil
		for _, agent := range stored.Config.Agents {
			again.Agents = append(again.Agents, agent.Name)
		}
		return stages.LoadPlan(ctx, h, again)
	}
	from, err := stored.PathsFrom()
	if err != nil {
		return nil, err
	}
	again.File = filepath.Join(stored.Dir, result.ConfigFile)
	if b := stored.Plan.Beside; b != nil && b.Baseline && !host.IsDir(from) {
		return nil, host.Usagef("%s: the files of commit %s, from which this baseline ran, are no longer there: they are kept in the cache, if it can be written and was not cleaned. Continue it with its job: %s",
			host.Clean(again.File), host.ShortCommit(b.Commit), reporting.PairResumption(h.Paths, stored.Dir, stored.Plan, reporting.ReportOptions{}))
	}
	if !host.IsDir(from) {
		return nil, host.Usagef("%s: its paths cannot be followed, as it is not known where its job file was, or that directory is gone: give the job file with --job-file", host.Clean(again.File))
	}
	again.PathsFrom = from
	p, err := stages.LoadPlan(ctx, h, again)
	if problems := (diag.List{}); errors.As(err, &problems) {
		host.Linef(h.Output, "note: paths of this job begin at %s, where its job file was; if something was moved since, give the job file with --job-file", host.Clean(from))
	}
	return p, err
}

// Continuation holds an existing job and its trials that still have to run.
type Continuation struct {
	*stages.Planned
	Stored   resume.Job
	now      result.Plan
	Pending  resume.Pending
	prompt   func(dataset, task string) []result.Message
	confirm  *stages.Confirmer
	judgings func(result.Key) *judging.Pending // the judgings that a trial's judges continue with; nil: the trial starts over
}

// RunRest runs the pending trials of the job, which is p today and was stored before.
func RunRest(ctx context.Context, p *stages.Planned, stored resume.Job, lock *job.Lock, policy resume.RerunPolicy, sources []reuse.Source) (*host.Finished, error) {
	c, err := Continue(ctx, p, stored, policy)
	if err != nil {
		return nil, err
	}
	if rounds := stored.Plan.Rounds; !rounds.Ended() && rounds.Upto == 0 && p.Beside == nil && !p.Report.Compares() {
		return nil, host.Usagef("%s makes its attempts in rounds, and looks at its baseline after each (gate.stop): resume it with the same --baseline", host.Clean(p.Dir()))
	}
	p.Warn()
	if !c.Left(ctx) {
		if err := c.Finish(); err != nil {
			return nil, err
		}
		return reporting.Finish(ctx, p.Host, p.Dir(), p.Report, reporting.Ending{Ran: true, Baseline: c.confirm.Found()})
	}
	if err := c.CheckVariables(); err != nil {
		return nil, err
	}
	provider, err := p.Connect(ctx, reporting.Resumption(p.Host.Paths, p.Dir(), stored.Plan, p.Report)+p.Rerun)
	if err != nil {
		return nil, err
	}
	defer provider.Close()
	if note := reporting.OtherRules("this job began with", stored.Plan.RolloutVersion, "and is resumed with", p.Host.Build); note != "" {
		host.Linef(p.Host.Output, "note: %s", note)
	}
	o, err := c.Reopen(lock, provider)
	if err != nil {
		return nil, err
	}
	return o.RunAndReport(ctx, sources)
}

// Continue returns the rest of the job, which is p today and was stored before. It refuses a
// job with different work.
func Continue(ctx context.Context, p *stages.Planned, stored resume.Job, policy resume.RerunPolicy) (*Continuation, error) {
	p.LeaveOutLike(stored.Plan)
	p.DivideLike(stored.Plan)
	if !stored.Plan.Rounds.Follows(p.Rounds) {
		p.Rounds = stored.Plan.Rounds
	}
	if p.Rounds != nil && len(p.Specs) != stored.Plan.Trials.Len() {
		return nil, host.Usagef("%s cannot be resumed with another number of attempts: it makes them in rounds (gate.stop), which its verdict depends on", host.Clean(p.Dir()))
	}
	if p.Beside == nil {
		p.Beside = stored.Plan.Beside
	}
	if err := refuseOtherGate(p, stored); err != nil {
		return nil, err
	}
	now, err := p.Record(ctx)
	if err != nil {
		return nil, err
	}
	changes, err := stored.Drift(p.Job, now)
	if err == nil {
		err = refuseDrift(p, changes)
	}
	if err != nil {
		return nil, err
	}
	judgings := pendingJudgings(p)
	policy.JudgesOnly = func(key result.Key) bool { return judgings(key) != nil }
	pending, err := stored.Pending(now, policy)
	var refusal job.Refusal
	if errors.As(err, &refusal) {
		return nil, host.Usagef("%s cannot be resumed: %w", host.Clean(p.Dir()), err)
	}
	if err != nil {
		return nil, err
	}
	c := &Continuation{Planned: p, Stored: stored, now: now, Pending: pending, judgings: judgings, prompt: job.Instructions(p.Own(), redact.New(p.Secrets))}
	if p.Beside == nil { // the attempts of a pair are made together
		c.confirm = p.Confirmer(maps.Clone(pending.Confirmations))
	}
	return c, nil
}

// pendingJudgings returns a function that returns the judging that a trial's judges continue with,
// or nil if the trial starts over. The function caches its results, because the directory changes
// when trials begin.
func pendingJudgings(p *stages.Planned) func(result.Key) *judging.Pending {
	specs := map[result.Key]trial.Spec{}
	for _, s := range p.Own() {
		if len(s.Judges) > 0 {
			specs[s.Key] = s
		}
	}
	digests := sync.OnceValue(func() experiment.Digests { return experiment.DigestsOf(p.Job, p.Inputs()) })
	known := map[result.Key]*judging.Pending{}
	return func(key result.Key) *judging.Pending {
		spec, ok := specs[key]
		if !ok {
			return nil
		}
		if _, ok := known[key]; !ok {
			known[key], _ = trial.PendingJudging(spec, digests(), p.TrialDir(key))
		}
		return known[key]
	}
}

// Left reports whether anything remains to be run.
func (c *Continuation) Left(ctx context.Context) bool {
	if n := c.Pending.Missing; n > 0 {
		host.Linef(c.Host.Output, "note: %s without a whole result left as they are (--only-failed)", plural.Count(n, "trial"))
	}
	return len(c.Pending.Keys) > 0 || c.confirm.Left(ctx, c.Stored.Plan, c.Pending.Earlier) || c.unranked()
}

// unranked reports whether a judge still has to rank trials that have ended.
func (c *Continuation) unranked() bool {
	if reporting.UnrankedPlan(c.Stored.Plan) || !slices.ContainsFunc(c.Own(), func(s trial.Spec) bool { return len(s.GroupJudges) > 0 }) {
		return false
	}
	return len(trial.GroupsOf(c.Own(), c.Pending.Earlier, experiment.DigestsOf(c.Job, c.Inputs()), c.TrialDir)) > 0
}

// Finish writes the files of a job with nothing left to run.
func (c *Continuation) Finish() error {
	total := c.now.Own().Len()
	host.Linef(c.Host.Output, "Nothing to run: %d of %s in %s %s done", c.Pending.Kept, plural.Count(total, "trial"), host.Clean(c.Dir()), plural.Are(total))
	if err := c.Stored.Finish(c.Job, c.now, c.Pending.Earlier, c.prompt); err != nil {
		return fmt.Errorf("write the job's files: %w", err)
	}
	return nil
}

// CheckVariables refuses results that were produced with other values of variables.
func (c *Continuation) CheckVariables() error {
	tasks := map[result.Key]*task.Task{}
	for _, s := range c.Specs {
		tasks[result.Key{Dataset: s.Key.Dataset, Task: s.Key.Task}] = s.Task
	}
	taskOf := func(key result.Key) *task.Task {
		return cmp.Or(tasks[result.Key{Dataset: key.Dataset, Task: key.Task}], &task.Task{})
	}
	return refuseDrift(c.Planned, c.Stored.VariableDrift(c.Pending, c.Job, c.Inputs(), taskOf))
}

// Reopen prepares the job to run the rest.
func (c *Continuation) Reopen(lock *job.Lock, provider environment.Provider) (*stages.Opened, error) {
	tree, err := c.Stored.Reopen(lock, c.Job, c.now, c.Pending, c.prompt, c.Host.Now())
	if err != nil {
		return nil, fmt.Errorf("write the job's files: %w", err)
	}
	todo := slices.DeleteFunc(slices.Clone(c.Own()), func(s trial.Spec) bool { return !c.Pending.Keys[s.Key] })
	before := map[result.Key]result.USD{}
	for _, t := range c.Pending.Earlier {
		before[t.Key] = t.Spent().Total()
	}
	carried := map[result.Key]result.USD{}
	for i, s := range todo {
		if !c.Pending.Named[s.Key] {
			todo[i].Judging = c.judgings(s.Key)
		}
		if todo[i].Judging != nil {
			cost, ended := before[s.Key]
			if !ended {
				cost = c.RecordedCost(s.Key)
			}
			carried[s.Key] = cost
		}
	}
	if len(carried) > 0 {
		host.Linef(c.Host.Output, "note: of %s only the judges run that have given no verdict: agents and tests have ended", plural.Count(len(carried), "trial"))
	}
	return &stages.Opened{
		Planned: c.Planned, Provider: provider, Tree: tree, Earlier: c.Pending.Earlier, Named: c.Pending.Named, Again: c.Pending.Confirmations, Confirm: c.confirm,
		Todo: todo, Carried: carried,
	}, nil
}

// refuseOtherGate returns an error if a job that makes its attempts in rounds would go on with
// another gate than it began with. The baseline of a pair has no looks at its own gate.
func refuseOtherGate(p *stages.Planned, stored resume.Job) error {
	if b := stored.Plan.Beside; stored.Plan.Rounds.Ended() || b != nil && b.Baseline {
		return nil
	}
	changes, err := resume.OtherGate(stored.Config.Gate, p.Job.Gate)
	if err != nil || changes == "" {
		return err
	}
	return host.Usagef("%s cannot be continued with another gate (%s): it makes its attempts in rounds (gate.stop), and its first look has set how the chance of a false alarm is spent. Give the limits that it began with, or begin a new job with another --name",
		host.Clean(p.Dir()), host.Clean(changes))
}

// refuseDrift reports the changes to a job that mean different work than when it began, and returns
// an error; nil without changes.
func refuseDrift(p *stages.Planned, changes []resume.Change) error {
	if len(changes) == 0 {
		return nil
	}
	secrets := redact.New(p.Secrets)
	for _, c := range changes {
		line := c.Message
		if c.Key != "" {
			line = c.Key + ": " + line
		}
		host.Linef(p.Host.Output, "%s: %s", host.Clean(p.File), host.Clean(secrets.String(line)))
	}
	return host.Usagef("%s cannot be resumed, because it is no longer the same work as when it began (%s): undo that, give the flags and variables that it began with, or begin a new job with another --name",
		host.Clean(p.Dir()), plural.Count(len(changes), "difference"))
}
