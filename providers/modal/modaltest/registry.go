package modaltest

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// Images are the names of images that set nothing, in a registry that has no others and builds
// none.
type Images []string

// Config returns the description of an image.
func (i Images) Config(_ context.Context, ref string) (registryimage.Image, error) {
	if !slices.Contains(i, ref) {
		return registryimage.Image{}, &environment.Error{Kind: environment.KindPull, Err: fmt.Errorf("look for %s: %w", ref, os.ErrNotExist)}
	}
	return registryimage.Image{Ref: ref, Digest: "sha256:" + ref}, nil
}

// Build fails.
func (Images) Build(context.Context, environment.BuildOptions) (string, error) {
	return "", &environment.Error{Kind: environment.KindBuild, Err: io.EOF}
}

// CheckBuild reports no problems.
func (Images) CheckBuild(context.Context, environment.BuildOptions) error { return nil }

// Close does nothing.
func (Images) Close() error { return nil }
