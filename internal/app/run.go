package app

import (
	"context"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/app/rerun"
	"github.com/org/rollout-action/internal/app/sidebyside"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/run/job/resume"
	"github.com/org/rollout-action/internal/run/job/reuse"
)

// loadRun checks and completes a request, and returns the plan of its job and the policy for
// running trials again. Callers close the plan.
func loadRun(ctx context.Context, h *host.Host, req *stages.RunRequest) (*stages.Planned, resume.RerunPolicy, error) {
	var none resume.RerunPolicy
	if !req.Resume && !req.Rerun.Empty() {
		return nil, none, host.Usagef("--retry-errors, --only-failed and --rerun choose trials of an existing job to run again: add --resume")
	}
	policy, err := req.Rerun.Policy()
	if err != nil {
		return nil, none, err
	}
	if req.Report, err = req.Report.CheckedEarly(ctx, reporting.FinderOf(h)); err != nil {
		return nil, none, err
	}
	job := req.Job.Gated(req.Report)
	p, err := stages.LoadPlan(ctx, h, job)
	if err != nil && job.Changed != "" {
		if nothing := nothingAffected(ctx, h, job); nothing != nil {
			return nothing, policy, nil
		}
	}
	return p, policy, err
}

// nothingAffected returns the plan of a job without trials, if what changed can affect none of
// them. Such a job needs no values of variables, which a fork does not have. Otherwise it returns
// nil.
func nothingAffected(ctx context.Context, h *host.Host, req stages.JobRequest) *stages.Planned {
	req.Unused, req.Unrun = true, true
	p, err := stages.LoadPlan(ctx, h, req)
	if err != nil {
		return nil
	}
	if !p.NothingAffected() {
		p.Close()
		return nil
	}
	return p
}

// Run runs a job, or a shard of it, and reports on it. With an error, the Finished is partial, or
// nil.
func Run(ctx context.Context, h *host.Host, req stages.RunRequest) (*host.Finished, error) {
	p, policy, err := loadRun(ctx, h, &req)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if req.Round > 1 {
		req.Resume = true // what the shard has made in earlier rounds
	}
	if err := p.Save(req.SaveJob); err != nil {
		return nil, err
	}
	p.Report.Ran = host.PublicArguments(p.Report.Ran, h.SecretsOf(p.Secrets))
	p.Orders = req.Orders()
	if err := p.Split(req.Shard, req.Timings); err != nil {
		return nil, err
	}
	if err := p.PlanInRounds(req.Against != "", req.Round); err != nil {
		return nil, err
	}
	dirs, fromBaseline := stages.SplitReuse(req.Reuse)
	sources, err := stages.ReuseSources(h.Paths, dirs, p.Dir())
	if err != nil {
		return nil, err
	}
	if p.NothingAffected() && !req.Resume {
		return p.ReportNothing(ctx, nil)
	}
	if sidebyside.Besides(req) {
		if fromBaseline {
			p.RunsAllAsUsual("the baseline runs with the job")
		}
		return sidebyside.RunBeside(ctx, p, req, policy, sources)
	}
	return runAlone(ctx, p, req, policy, sources, fromBaseline)
}

// runAlone runs a job whose baseline does not run with it. With Resume, it continues the job's
// directory if there is one. fromBaseline: trials of the stored baseline are reused, too.
func runAlone(ctx context.Context, p *stages.Planned, req stages.RunRequest, policy resume.RerunPolicy, sources []reuse.Source, fromBaseline bool) (_ *host.Finished, err error) {
	var existing rerun.Existing
	if req.Resume {
		if existing, err = rerun.OpenExisting(p); err != nil {
			return nil, err
		}
		defer existing.Lock.Release() //nolint:errcheck // only a file that means nothing is left
	}
	if fromBaseline {
		base, err := p.FindBaseline(ctx, existing.Plan())
		if err != nil {
			return nil, err
		}
		sources = append(base, sources...)
	}
	if err := p.PinBaseline(ctx, existing.Plan()); err != nil {
		return nil, err
	}
	if existing.Begun {
		p.Into = p.Dir()
		return rerun.RunRest(ctx, p, existing.Stored, existing.Lock, policy, sources)
	}
	lock := existing.Lock
	if p.NothingAffected() {
		return p.ReportNothing(ctx, lock)
	}
	if fromBaseline {
		if unchanged, err := p.Unchanged(ctx, sources); err != nil || unchanged {
			if err != nil {
				return nil, err
			}
			return p.ReportUnchanged(ctx, sources, lock)
		}
	}
	p.Warn()
	provider, err := p.Connect(ctx, "")
	if err != nil {
		return nil, err
	}
	defer provider.Close()
	o, err := p.Open(ctx, provider, lock)
	if err != nil {
		return nil, err
	}
	o.Confirm = p.Confirmer(nil)
	return o.RunAndReport(ctx, sources)
}
