package action

import (
	"context"
	"fmt"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/providers"
)

// postLimit bounds the duration of the step after the job: a cancelled job is given five minutes
// for all such steps.
const postLimit = time.Minute

// Post removes the environments that the step left when it was killed. Usually the step's own
// clean-up has been done by then. Failures are only warnings, and do not fail the job.
func Post(ctx context.Context, h *host.Host) {
	ctx, cancel := context.WithTimeout(ctx, postLimit)
	defer cancel()
	if err := removeLeft(ctx, h); err != nil {
		h.Output.Warn(fmt.Sprintf("environments of this job may be left: %v", err))
	}
	var written []string
	if state(h, stateWritten, &written) {
		handOver(h, written)
	}
}

// removeLeft removes the step's environments. It connects to the provider with the Action's default
// settings.
func removeLeft(ctx context.Context, h *host.Host) error {
	var name string
	var owner environment.Owner
	if !state(h, stateProvider, &name) || !state(h, stateOwner, &owner) {
		return nil // it did not get far enough to create any
	}
	entry, ok := h.Providers.Find(name)
	if !ok {
		return fmt.Errorf("there is no provider %q", name)
	}
	provider, err := host.Connect(ctx, h.Hard, entry, nil, providers.Host{Clean: true})
	if err != nil {
		return err
	}
	defer provider.Close()
	listed, err := provider.List(ctx)
	if err != nil {
		return err
	}
	gone, err := job.RemoveEnvironments(ctx, provider, job.OwnedBy(listed, owner))
	if len(gone) > 0 {
		h.Output.Line(fmt.Sprintf("removed %s that the step left", plural.Count(len(gone), "environment")))
	}
	return err
}
