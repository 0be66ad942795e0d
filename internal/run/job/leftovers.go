package job

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
)

// Leftovers returns the environments whose owner is certainly dead: its process ended on this
// machine, or it belonged to an earlier attempt of this workflow run. Environments of running jobs,
// of other hosts and those kept on purpose are not among them.
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

// LeftoversOf returns the environments of the job whose plan has this id that other processes made
// and did not keep. The holder of the directory's lock knows that these processes are dead, on this
// machine or another.
func LeftoversOf(listed []environment.Listed, id string) []environment.Listed {
	self := environment.Self()
	var left []environment.Listed
	for _, l := range listed {
		if id != "" && !l.Kept && l.Labels.Run == id && l.Labels.Owner != self && l.Labels.Owner.Alive() != environment.Alive {
			left = append(left, l)
		}
	}
	return left
}

// OwnLeftovers returns the environments that this process made for a job and did not keep. After
// the job there should be none, but an engine that went down while it made one may have finished it
// later.
func OwnLeftovers(listed []environment.Listed, job string) []environment.Listed {
	return slices.DeleteFunc(OwnedBy(listed, environment.Self()), func(l environment.Listed) bool { return l.Labels.Job != job })
}

// OwnOutcomes returns the outcomes that this process kept of a job's environments before their
// tests ran.
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

// removals limits the environments that are removed at the same time. A job that is told to stop at
// once has requested all removals before it ends.
const removals = 64

// RemoveEnvironments destroys environments, many at a time, and returns those that it destroyed. It
// tries all of them; the error joins all failures.
func RemoveEnvironments(ctx context.Context, provider environment.Provider, listed []environment.Listed) ([]environment.Listed, error) {
	errs := make([]error, len(listed))
	work := event.Begin(ctx, "Removing environments", len(listed))
	defer work.End()
	var group errgroup.Group
	group.SetLimit(removals)
	for i, l := range listed {
		group.Go(func() error {
			if err := provider.Remove(ctx, l.ID); err != nil {
				errs[i] = fmt.Errorf("remove %s (%s): %w", l.ID, l.Labels.Trial, err)
			}
			work.Step()
			return nil
		})
	}
	_ = group.Wait() // the functions return nil
	var gone []environment.Listed
	for i, l := range listed {
		if errs[i] == nil {
			gone = append(gone, l)
		}
	}
	return gone, errors.Join(errs...)
}
