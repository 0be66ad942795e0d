package flytest

import (
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/imagestest"
)

// Images stand in for a registry, and for the builders of its images.
type Images = imagestest.Images

// NewImages returns Images that a provider builds, and has, with a base image that sets nothing.
func NewImages(runs environment.Provider, base string) *Images { return imagestest.New(runs, base) }
