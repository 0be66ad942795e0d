package job

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
)

// MinImageAge is the time after its last use in which an image counts as in use. A run notes the
// use when it builds or pulls an image and again when it creates an environment from it; a build
// between the two may take this long.
const MinImageAge = time.Hour

// Prunable returns the images that may be removed: they were last used before the given time, are
// not in use, and no image that stays needs them. Each comes before the images that it needs.
// images is not changed.
func Prunable(images []environment.Image, before time.Time) []environment.Image {
	byID := map[string]environment.Image{}
	for _, img := range images {
		byID[img.ID] = img
	}
	stays := map[string]bool{}
	var stay func(img environment.Image)
	stay = func(img environment.Image) {
		if stays[img.ID] {
			return
		}
		stays[img.ID] = true
		for _, id := range img.Needs {
			if under, ok := byID[id]; ok {
				stay(under)
			}
		}
	}
	for _, img := range images {
		if img.InUse || !img.Used.Before(before) {
			stay(img)
		}
	}
	return dependentsFirst(slices.DeleteFunc(slices.Clone(images), func(img environment.Image) bool { return stays[img.ID] }))
}

// dependentsFirst sorts images so that each comes before the images that it needs, and otherwise
// the oldest first.
func dependentsFirst(images []environment.Image) []environment.Image {
	slices.SortFunc(images, func(a, b environment.Image) int {
		return cmp.Or(a.Used.Compare(b.Used), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	needing := map[string][]environment.Image{}
	for _, img := range images {
		for _, id := range img.Needs {
			needing[id] = append(needing[id], img)
		}
	}
	var sorted []environment.Image
	done := map[string]bool{}
	var visit func(img environment.Image)
	visit = func(img environment.Image) {
		if done[img.ID] {
			return
		}
		done[img.ID] = true
		for _, above := range needing[img.ID] {
			visit(above)
		}
		sorted = append(sorted, img)
	}
	for _, img := range images {
		visit(img)
	}
	return sorted
}

// RemoveImages removes images in their order and returns those that it removed. It stops when ctx
// ends.
func RemoveImages(ctx context.Context, store environment.ImageStore, images []environment.Image) ([]environment.Image, error) {
	var gone []environment.Image
	var errs []error
	work := event.Begin(ctx, "Removing images", len(images))
	defer work.End()
	for _, img := range images {
		if err := ctx.Err(); err != nil {
			return gone, errors.Join(append(errs, err)...)
		}
		err := store.RemoveImage(ctx, img.ID)
		work.Step()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		gone = append(gone, img)
	}
	return gone, errors.Join(errs...)
}
