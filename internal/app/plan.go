package app

import (
	"context"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/run/job"
)

// Plan lists the trials of a job.
type Plan struct {
	Job      config.Job
	Trials   []result.Key     // in the order in which they start
	Affected *stages.Affected // why each of Trials runs; nil without --changed
	AtMost   bool             // the job may end before all of Trials (gate.stop)
	Warnings diag.List
}

// PlanJob returns the trials that a job would run. It contacts no provider.
func PlanJob(ctx context.Context, h *host.Host, req stages.JobRequest) (Plan, error) {
	req.Unused, req.Unrun = true, true
	p, err := stages.LoadPlan(ctx, h, req)
	if err != nil {
		return Plan{}, err
	}
	defer p.Close()
	return Plan{Job: p.Job, Trials: job.Keys(p.Specs), Affected: p.Affected, AtMost: p.MayEndEarly(), Warnings: p.Warnings}, nil
}
