package apple

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/buildkit"
	"github.com/org/rollout-action/providers/internal/hosted"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// image is an image of this machine.
type image struct {
	digest   string // of the manifest
	settings registryimage.Settings
}

// find returns an image that is there for the platform. ErrNoImage is in the chain of its error if
// none is.
func (p *Provider) find(ctx context.Context, ref string) (image, error) {
	v, err := p.variant(ctx, ref)
	if err != nil {
		return image{}, err
	}
	of := v.Config.Config
	i := image{digest: v.Digest, settings: registryimage.Settings{User: of.User, Env: of.Env, WorkingDir: of.WorkingDir, Entrypoint: of.Entrypoint}}
	if v.needsConfig() {
		err = p.complete(ctx, ref, &i)
	}
	return i, err
}

// variant returns the description of an image for the platform.
func (p *Provider) variant(ctx context.Context, ref string) (variant, error) {
	resource, err := p.command.inspect(ctx, ref)
	if errors.As(err, new(*commandError)) && p.command.serving(ctx) {
		err = fmt.Errorf("%w: %w", environment.ErrNoImage, err)
		return variant{}, &environment.Error{Kind: environment.KindStart, Err: err}
	}
	if err != nil {
		return variant{}, err
	}
	for _, v := range resource.Variants {
		if v.Platform.OS+"/"+v.Platform.Architecture == p.config.platform {
			return v, nil
		}
	}
	return variant{}, &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("%w for %s", environment.ErrNoImage, p.config.platform)}
}

// needsConfig reports whether an image has settings that the command does not show: its history
// tells.
func (v variant) needsConfig() bool {
	for _, step := range v.Config.History {
		for _, word := range []string{"HEALTHCHECK", "VOLUME"} {
			if strings.Contains(step.CreatedBy, word) {
				return true
			}
		}
	}
	return false
}

// PullImage implements environment.Provider.
func (p *Provider) PullImage(ctx context.Context, ref string, progress func(string)) error {
	_, err := p.variant(ctx, ref)
	if err == nil {
		return nil
	}
	if !errors.Is(err, environment.ErrNoImage) {
		return p.failed(ctx, environment.KindPull, "look for image "+ref, err)
	}
	return p.flights.Do(ctx, "pull "+ref, progress, func(ctx context.Context, tell func(string)) error {
		lines := &buildkit.Lines{Progress: func(line string) { tell(hosted.OneLine(line)) }}
		_, err := p.command.run(ctx, 2, lineWriter{lines}, "image", "pull", "--progress", "plain", "--platform", p.config.platform, ref)
		lines.End()
		if err = p.failed(ctx, environment.KindPull, "pull image "+ref, err); err == nil {
			return nil
		}
		// The command has no codes that tell a missing image from a registry that does not answer.
		if known := new(environment.Error); errors.As(err, &known) && known.Kind == environment.KindPull {
			known.Transient = true
			known.Hint = "for a private image, log in with `container registry login`"
		}
		return err
	})
}

// lineWriter is an io.Writer in front of Lines.
type lineWriter struct{ lines *buildkit.Lines }

// Write implements io.Writer.
func (w lineWriter) Write(p []byte) (int, error) {
	w.lines.Text(string(p))
	return len(p), nil
}

// ImageID implements environment.ImageIdentifier.
func (p *Provider) ImageID(ctx context.Context, ref string) (string, error) {
	v, err := p.variant(ctx, ref)
	return v.Digest, p.failed(ctx, environment.KindUnavailable, "look for image "+ref, err)
}

// CheckPull implements environment.ImageChecker: only a pull tells whether an image is there.
func (p *Provider) CheckPull(context.Context, string) error { return nil }
