package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/providers"
)

// postLimit is how long the step after the job may take: a cancelled job is given five minutes for all such steps.
const postLimit = time.Minute

// actionPost removes what the step left when it was killed. The step's own clean-up is done by then, so there is
// nothing to do as a rule; what goes wrong is only a warning, and does not fail the job.
func (v *invocation) actionPost(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, postLimit)
	defer cancel()
	if err := v.removeLeft(ctx); err != nil {
		v.warnf("environments of this job may be left: %v", err)
	}
	var written []string
	if v.state(stateWritten, &written) {
		v.handOver(written)
	}
}

// removeLeft removes the step's environments. Its provider is reached as the Action reaches it by default.
func (v *invocation) removeLeft(ctx context.Context) error {
	var name string
	var owner environment.Owner
	if !v.state(stateProvider, &name) || !v.state(stateOwner, &owner) {
		return nil // it has not come so far as to make any
	}
	entry, ok := v.Providers.Find(name)
	if !ok {
		return fmt.Errorf("there is no provider %q", name)
	}
	provider, err := v.host().Connect(ctx, entry, nil, providers.Host{})
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
		fmt.Fprintf(v.Stderr, "removed %s that the step left\n", plural.Count(len(gone), "environment"))
	}
	return err
}
