package app

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/event"
	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/providers"
)

// CleanRequest is what Clean takes.
type CleanRequest struct {
	Provider string // its name
	Kept     bool   // also environments that were kept on purpose
	Others   bool   // also environments of other machines, whether their run has ended or not
	// Images asks for images, too: those that were not used for Age.
	Images bool
	Age    time.Duration
	DryRun bool // remove nothing, only return what would be removed
}

// Cleaned is what Clean removed, or with DryRun would remove.
type Cleaned struct {
	Environments []environment.Listed
	Images       *CleanedImages // nil: they were not looked at
}

// CleanedImages are images that were removed.
type CleanedImages struct {
	Removed []environment.Image
	Recent  int // those that stayed although Age selects them, because a run may need them
}

// Clean removes what killed runs left at a provider: environments, and images if they are asked for. With an error, the value is
// what was removed before; nil: nothing was looked at.
func Clean(ctx context.Context, h *Host, req CleanRequest) (*Cleaned, error) {
	entry, ok := h.Providers.Find(req.Provider)
	if !ok {
		return nil, usage("--env-type %s: there is no such provider (there are: %s)", req.Provider, strings.Join(h.Providers.Names(), ", "))
	}
	provider, err := Connect(ctx, h.Hard, entry, nil, providers.Host{
		Progress: func(line string) { h.Output.Line(clean(line)) }, Clean: true,
	})
	if err != nil {
		return nil, err
	}
	defer provider.Close()
	listed, err := provider.List(ctx)
	if err != nil {
		return nil, err
	}
	cleaned := &Cleaned{Environments: req.selects(listed)}
	if !req.DryRun {
		cleaned.Environments, err = job.RemoveEnvironments(ctx, provider, cleaned.Environments)
	}
	if req.Images && ctx.Err() == nil {
		var imagesErr error
		cleaned.Images, imagesErr = req.cleanImages(ctx, provider, h.Now())
		err = errors.Join(err, imagesErr)
	}
	return cleaned, err
}

// selects returns the environments to remove. Those of a live owner are never among them.
func (r CleanRequest) selects(listed []environment.Listed) []environment.Listed {
	var doomed []environment.Listed
	for _, l := range listed {
		alive := l.Labels.Owner.Alive()
		switch {
		case l.Kept:
			if r.Kept && (alive != environment.Unknown || r.Others) {
				doomed = append(doomed, l)
			}
		case alive == environment.Dead, alive == environment.Unknown && r.Others:
			doomed = append(doomed, l)
		}
	}
	return doomed
}

// cleanImages removes the images that were not used for r.Age.
func (r CleanRequest) cleanImages(ctx context.Context, provider environment.Provider, now time.Time) (*CleanedImages, error) {
	store, ok := environment.As[environment.ImageStore](provider)
	if !ok {
		return nil, usage("--images: the provider %s keeps no images that Rollout could list and remove", provider.Name())
	}
	work := event.Begin(ctx, "Listing images", 0)
	images, err := store.Images(ctx)
	work.End()
	if err != nil {
		return nil, err
	}
	doomed := job.Prunable(images, now.Add(-max(r.Age, job.MinImageAge)))
	cleaned := &CleanedImages{}
	if r.Age < job.MinImageAge {
		cleaned.Recent = len(job.Prunable(images, now.Add(-r.Age))) - len(doomed)
	}
	cleaned.Removed = doomed
	if !r.DryRun {
		cleaned.Removed, err = job.RemoveImages(ctx, store, doomed)
	}
	return cleaned, err
}
