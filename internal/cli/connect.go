package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/event"
	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/redact"
	"github.com/org/rollout-action/internal/ui"
	"github.com/org/rollout-action/providers"
)

// connect opens the job's provider, with retries, and removes what dead runs left there. A job that is
// cancelled meanwhile leaves no directory.
func (a *app) connect(ctx context.Context, p *session, look ui.Options) (environment.Provider, error) {
	entry, _ := a.Providers.Find(p.Job.Environment.Type) // config.Load has checked the name
	secrets := redact.New(p.Secrets)
	show, endView := ui.New(look) // writes nothing unless the provider has something to say
	provider, err := a.open(ctx, entry, p.Job.Environment.ProviderConfig, providers.Host{
		Hide: a.hidden(p),
		Progress: func(line string) {
			show(event.Event{Time: a.Now().UTC(), Kind: event.Notice, Message: secrets.String(line)})
		},
	})
	endView()
	if err == nil {
		a.sweep(ctx, provider)
	}
	if ctx.Err() != nil {
		if err == nil {
			_ = provider.Close()
		}
		if p.into != "" {
			return nil, &failure{code: exitCancelled, err: errors.New("cancelled before the job went on: it is as it was, nothing was run")}
		}
		return nil, &failure{code: exitCancelled, err: errors.New("cancelled before the job began: it has no directory, nothing was run")}
	}
	if err == nil {
		if err = a.checkDisk(p, provider, p.command); err != nil {
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

// open connects to a provider, unless ctx ends meanwhile. When the hard context ends it does not wait for
// the provider any more.
func (a *app) open(ctx context.Context, entry providers.Entry, cfg map[string]any, host providers.Host) (environment.Provider, error) {
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
	case <-a.hard.Done():
	}
	return nil, fmt.Errorf("connect to %s: %w", entry.Name, context.Canceled)
}

// sweep removes what killed runs left behind. A failure is only a warning.
func (a *app) sweep(ctx context.Context, provider environment.Provider) {
	listed, err := provider.List(ctx)
	if err == nil {
		var gone []environment.Listed
		gone, err = job.RemoveEnvironments(ctx, provider, job.Leftovers(listed))
		if len(gone) > 0 {
			fmt.Fprintf(a.Stderr, "removed %s left by a run that was killed\n", plural.Count(len(gone), "environment"))
		}
	}
	if err != nil && ctx.Err() == nil {
		a.warnf("leftovers of earlier runs could not be removed: %v", err)
	}
}
