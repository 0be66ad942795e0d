package app

import (
	"context"
	"errors"
	"slices"

	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/keys"
	"github.com/org/rollout-action/internal/task"
	"github.com/org/rollout-action/internal/trial"
	"github.com/org/rollout-action/providers"
)

// askProvider returns, as warnings, what a remote provider lacks for the trials: another machine may have it. No environment is created.
func (p *planned) askProvider(ctx context.Context) diag.List {
	entry, _ := p.host.Providers.Find(p.Job.Environment.Type) // config.Load has checked the name
	if !entry.Remote {
		return nil
	}
	provider, err := Connect(ctx, p.host.Hard, entry, p.Job.Environment.ProviderConfig, providers.Host{Hide: p.hidden(), Version: p.host.Version})
	if err != nil {
		at := p.At(keys.Path{"environment", "type"})
		return diag.List{warningOf(diag.Diagnostic{File: at.File, Line: at.Line, Column: at.Column}, err)}
	}
	defer provider.Close()
	return p.neverCreated(ctx, provider)
}

// neverCreated returns a warning for each task whose environment the provider can never create.
func (p *planned) neverCreated(ctx context.Context, provider environment.Provider) diag.List {
	var problems diag.List
	seen := map[*task.Task]bool{}
	for _, s := range p.own() {
		if seen[s.Task] || s.Task.Missing || s.Task.Err() != nil {
			continue
		}
		seen[s.Task] = true
		if err := checkCreation(ctx, provider, s.Limits(p.Job), s.Networks(p.Job)); err != nil && ctx.Err() == nil {
			problems = append(problems, warningOf(diag.Diagnostic{File: p.host.Paths.shownTask(s.Task, "task.toml")}, err))
		}
	}
	return problems
}

func checkCreation(ctx context.Context, provider environment.Provider, l environment.Limits, n task.Networks) error {
	for _, network := range []environment.Network{n.Install, n.Agent, n.Verify} {
		if err := environment.CheckCreation(ctx, provider, l, network); err != nil {
			return err
		}
	}
	return nil
}

// proveNetworks returns the error of a provider that does not restrict the networks of environments, if a trial needs that.
func (p *planned) proveNetworks(ctx context.Context, provider environment.Provider, progress func(string)) error {
	restricted := func(s trial.Spec) bool {
		n := s.Networks(p.Job)
		return !n.Install.Public() || !n.Agent.Public() || !n.Verify.Public()
	}
	if !slices.ContainsFunc(p.own(), restricted) {
		return nil
	}
	return environment.ProveNetworks(ctx, provider, progress)
}

// warningOf returns a provider's error as a warning at a place.
func warningOf(d diag.Diagnostic, err error) diag.Diagnostic {
	d.Severity, d.Message = diag.Warning, err.Error()
	if known := new(environment.Error); errors.As(err, &known) {
		d.Message, d.Hint = known.Err.Error(), known.Hint
	}
	d.File, d.Message, d.Hint = clean(d.File), clean(d.Message), clean(d.Hint)
	return d
}
