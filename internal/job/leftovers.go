package job

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/event"
)

// Leftovers returns the environments whose owner is certainly dead: its process ended on this machine, or it belonged to an earlier
// attempt of this workflow run. Environments of running jobs, of other hosts and those kept on purpose are not among them.
func Leftovers(listed []environment.Listed) []environment.Listed {
	self := environment.Self().Workflow
	var left []environment.Listed
	for _, l := range listed {
		owner := l.Labels.Owner
		if !l.Kept && (owner.Alive() == environment.Dead || self.RunsAfter(owner.Workflow)) {
			left = append(left, l)
		}
	}
	return left
}

// OwnLeftovers returns the environments that this process made for a job and did not keep. After the job there should be none, but
// an engine that went down while it made one may have finished it later.
func OwnLeftovers(listed []environment.Listed, job string) []environment.Listed {
	return slices.DeleteFunc(OwnedBy(listed, environment.Self()), func(l environment.Listed) bool { return l.Labels.Job != job })
}

// OwnOutcomes returns what this process kept of the environments of a job before their tests ran.
func OwnOutcomes(listed []environment.Listed, job string) []environment.Listed {
	self := environment.Self()
	return slices.DeleteFunc(slices.Clone(listed), func(l environment.Listed) bool {
		return !l.Kept || l.Size <= 0 || l.Labels.Owner != self || l.Labels.Job != job
	})
}

// OwnedBy returns the environments that owner made and did not keep.
func OwnedBy(listed []environment.Listed, owner environment.Owner) []environment.Listed {
	var own []environment.Listed
	for _, l := range listed {
		if !l.Kept && l.Labels.Owner == owner {
			own = append(own, l)
		}
	}
	return own
}

// RemoveEnvironments destroys environments and returns those that it destroyed. It tries all of them; the error joins all failures.
func RemoveEnvironments(ctx context.Context, provider environment.Provider, listed []environment.Listed) ([]environment.Listed, error) {
	var gone []environment.Listed
	var errs []error
	work := event.Begin(ctx, "Removing environments", len(listed))
	defer work.End()
	for _, l := range listed {
		err := provider.Remove(ctx, l.ID)
		work.Step()
		if err != nil {
			errs = append(errs, fmt.Errorf("remove %s (%s): %w", l.ID, l.Labels.Trial, err))
			continue
		}
		gone = append(gone, l)
	}
	return gone, errors.Join(errs...)
}
