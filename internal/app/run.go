package app

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/resume"
	"github.com/org/rollout-action/internal/run/job/reuse"
)

// loadRun checks and completes a request, and returns the plan of its job and the policy for
// running trials again. Callers close the plan.
func loadRun(ctx context.Context, h *Host, req *RunRequest) (*planned, resume.RerunPolicy, error) {
	var none resume.RerunPolicy
	if !req.Resume && !req.Rerun.empty() {
		return nil, none, usage("--retry-errors, --only-failed and --rerun say what is run again of a job that is there: they need --resume")
	}
	policy, err := req.Rerun.policy()
	if err != nil {
		return nil, none, err
	}
	if req.Report, err = req.Report.checkedEarly(ctx, h.finder()); err != nil {
		return nil, none, err
	}
	p, err := loadPlan(ctx, h, req.Job.gated(req.Report))
	return p, policy, err
}

// Run runs a job, or a shard of it, and reports on it. With an error, the Finished is partial, or
// nil.
func Run(ctx context.Context, h *Host, req RunRequest) (*Finished, error) {
	p, policy, err := loadRun(ctx, h, &req)
	if err != nil {
		return nil, err
	}
	defer p.close()
	if err := p.save(req.SaveJob); err != nil {
		return nil, err
	}
	p.report, p.rerun = req.Report, req.Rerun.flags()+req.Job.envFlags()+flag("log-format", req.LogFormat)
	p.failFast = req.FailFast
	if err := p.split(req.Shard, req.Timings); err != nil {
		return nil, err
	}
	sources, err := reuseSources(h.Paths, req.Reuse, p.dir())
	if err != nil {
		return nil, err
	}
	if req.besides() {
		return p.runBeside(ctx, req, policy, sources)
	}
	var lock *job.Lock
	if req.Resume {
		existing, err := p.existing()
		if err != nil {
			return nil, err
		}
		defer existing.lock.Release() //nolint:errcheck // only a file that means nothing is left
		if existing.begun {
			p.into = p.dir()
			return p.resume(ctx, existing.stored, existing.lock, policy, sources)
		}
		lock = existing.lock
	}
	p.warn()
	provider, err := p.connect(ctx, "")
	if err != nil {
		return nil, err
	}
	defer provider.Close()
	o, err := p.open(ctx, provider, lock)
	if err != nil {
		return nil, err
	}
	o.confirm = p.confirmer(nil)
	return o.run(ctx, sources)
}

// existing is the existing directory of a job.
type existing struct {
	lock   *job.Lock // nil: there is no directory
	begun  bool
	stored resume.Job // if it has begun
}

// checkResumable refuses Resume for a job whose name is not known in advance.
func (p *planned) checkResumable() error {
	if p.Unnamed {
		return usage("%s: --resume needs a job with a name, by which its directory is found: add name: to the file, or --name", clean(p.File))
	}
	if p.Numbered != nil {
		return usage("%s: --resume finds a job's directory by its name, and {run} in name makes a new one with each run: give its --name, or use rollout resume JOB_DIR", clean(p.File))
	}
	return nil
}

// existing opens the directory of a job that is run with Resume.
func (p *planned) existing() (e existing, err error) {
	h, dir := p.host, p.dir()
	if err := p.checkResumable(); err != nil {
		return e, err
	}
	if _, err := os.Lstat(h.Path(dir)); errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if e.lock, err = takeLock(h.Paths, h.Output, h.Now(), dir); err != nil {
		return existing{}, err
	}
	e.stored, err = openStored(h.Paths, dir)
	if errors.Is(err, resume.ErrNotBegun) {
		if empty, emptyErr := job.NotBegun(h.Path(dir)); emptyErr == nil && empty {
			return e, nil
		}
		err = usage("%w: choose another --name, or remove the directory", err)
	}
	if err != nil {
		_ = e.lock.Release() // only the lock file is left, which has no meaning by itself
		return existing{}, err
	}
	e.begun = true
	return e, nil
}

// run runs the trials of an opened job, and reports on it.
func (o *opened) run(ctx context.Context, sources []reuse.Source) (*Finished, error) {
	h := o.host
	if o.tree.Lock.Unguarded != nil {
		warnf(h.Output, "nothing keeps two runs of this job apart: the file system of %s has no locks (%v)", o.dir(), o.tree.Lock.Unguarded)
	}
	ended := o.announced(ctx)
	err := o.reuse(ctx, sources)
	if err == nil {
		err = o.execute(ctx)
	}
	o.close(ctx)
	end := ending{ran: true, baseline: o.confirm.found()}
	stopped := len(o.ended.Stopped) > 0
	if note := o.uncounted(o.ended); note != "" {
		end.notes = append(end.notes, note)
	}
	// Trials that were left out on purpose do not make the run a cancelled one.
	end.cancelled = err == nil && (o.into == "" && o.reverifies == "" && !stopped || ctx.Err() != nil)
	finished, reportErr := finish(ctx, h, o.dir(), o.report, end)
	if err == nil && o.reverifies == "" && (ctx.Err() != nil || stopped) {
		if finished == nil { // an error of the reports must not hide how to resume
			linef(h.Output, "Resume it with: %s", o.resumption()+moreBudget(o.ended.Stopped))
		} else {
			finished.ResumeWith = o.resumption() + moreBudget(o.ended.Stopped)
		}
	}
	if finished != nil && h.Finished != nil {
		h.Finished(finished)
	}
	ended(cmp.Or(err, reportErr))
	return finished, cmp.Or(err, reportErr)
}
