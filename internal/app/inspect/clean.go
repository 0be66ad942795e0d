package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/providers"
)

// CleanRequest is the request of Clean.
type CleanRequest struct {
	Provider string // its name; "": all available ones
	Kept     bool   // also environments that were kept on purpose
	Others   bool   // also environments of other machines, whether their run has ended or not
	// Images also selects images: those unused for Age.
	Images bool
	Age    time.Duration
	DryRun bool // remove nothing, only return what would be removed
}

// Cleaned holds what Clean removed, or with DryRun would remove.
type Cleaned struct {
	Environments []environment.Listed
	Images       *CleanedImages // nil: they were not looked at
}

// CleanedImages are images that were removed.
type CleanedImages struct {
	Removed []environment.Image
	Recent  int // those that Age selects but a run may need, which stayed
}

// connectLimit bounds how long Clean waits for each provider if none is named: few machines have
// all of them.
const connectLimit = 15 * time.Second

// Clean removes what killed runs left at one provider, or at all available ones: environments, and
// images if requested. With an error, it returns what was removed before; nil: nothing was
// examined.
func Clean(ctx context.Context, h *host.Host, req CleanRequest) (*Cleaned, error) {
	if req.Provider == "" {
		return req.everywhere(ctx, h)
	}
	entry, ok := h.Providers.Find(req.Provider)
	if !ok {
		return nil, host.Usagef("--env-type %s: there is no such provider (there are: %s)", req.Provider, strings.Join(h.Providers.Names(), ", "))
	}
	return req.at(ctx, ctx, h, entry)
}

// everywhere cleans up at all available providers, and reports those that are not available. It is
// an error if none is.
func (r CleanRequest) everywhere(ctx context.Context, h *host.Host) (*Cleaned, error) {
	var all *Cleaned
	var failed, absent []error
	for _, entry := range h.Providers {
		if ctx.Err() != nil {
			break
		}
		connecting, cancel := context.WithTimeout(ctx, connectLimit)
		request := r
		request.Others = r.Others && !entry.Remote // whose trials may run there
		cleaned, err := request.at(ctx, connecting, h, entry)
		cancel()
		switch {
		case cleaned != nil:
			all = all.plus(*cleaned)
			if r.Others && entry.Remote {
				host.Linef(h.Output, "%s: environments of other machines stay, as their trials may run; --env-type %s --others removes them", entry.Name, entry.Name)
			}
		case err != nil && ctx.Err() == nil:
			why := err
			if known := new(environment.Error); errors.As(err, &known) {
				if known.Unconfigured {
					continue
				}
				why = known.Err // without the advice: not everyone wants every provider
			}
			host.Linef(h.Output, "not cleaned up: %s", host.Clean(fmt.Sprintf("%s: %v", entry.Name, why)))
			absent = append(absent, fmt.Errorf("%s: %w", entry.Name, err))
			continue
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", entry.Name, err))
		}
	}
	if all == nil && ctx.Err() == nil {
		failed = append(failed, fmt.Errorf("no provider is here: %w", cmp.Or(errors.Join(absent...), errors.New("none is configured"))))
	}
	return all, errors.Join(append(failed, ctx.Err())...)
}

// plus returns the sum of c, which may be nil, and more.
func (c *Cleaned) plus(more Cleaned) *Cleaned {
	if c == nil {
		return &more
	}
	sum := Cleaned{Environments: slices.Concat(c.Environments, more.Environments), Images: c.Images}
	if more.Images != nil {
		sum.Images = more.Images
		if c.Images != nil {
			sum.Images = &CleanedImages{Removed: slices.Concat(c.Images.Removed, more.Images.Removed), Recent: c.Images.Recent + more.Images.Recent}
		}
	}
	return &sum
}

// at cleans up at one provider, which must answer before connecting ends. It returns nil if the
// provider is not available.
func (r CleanRequest) at(ctx, connecting context.Context, h *host.Host, entry providers.Entry) (*Cleaned, error) {
	provider, err := host.Connect(connecting, h.Hard, entry, nil, providers.Host{
		Progress: func(line string) { h.Output.Line(host.Clean(line)) }, Clean: true,
	})
	if err != nil {
		return nil, err
	}
	defer provider.Close()
	listed, err := provider.List(connecting)
	if err != nil {
		return nil, err
	}
	cleaned := &Cleaned{Environments: r.selects(listed)}
	if !r.DryRun {
		cleaned.Environments, err = job.RemoveEnvironments(ctx, provider, cleaned.Environments)
	}
	if r.Images && ctx.Err() == nil {
		var imagesErr error
		cleaned.Images, imagesErr = r.cleanImages(ctx, provider, h.Now())
		err = errors.Join(err, imagesErr)
	}
	return cleaned, err
}

// selects returns the environments to remove. Those with a live owner are never among them.
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

// cleanImages removes the images unused for r.Age. It returns nil if a provider that was not named
// keeps none.
func (r CleanRequest) cleanImages(ctx context.Context, provider environment.Provider, now time.Time) (*CleanedImages, error) {
	store, ok := environment.As[environment.ImageStore](provider)
	if !ok && r.Provider == "" {
		return nil, nil
	}
	if !ok {
		return nil, host.Usagef("--images: the provider %s keeps no images that Rollout could list and remove", provider.Name())
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
