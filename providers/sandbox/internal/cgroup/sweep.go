package cgroup

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// Sweep removes the groups that killed processes left in the top group: all for whose id alive is false.
// One that still holds processes is an error, and stays; nothing is killed. alive is asked once or more for
// an id, and not at the same time. A run that was in another delegated group is not seen.
func (t *Tree) Sweep(alive func(id string) bool) error {
	var errs []error
	for _, base := range t.bases() {
		top := filepath.Join(base, t.top)
		ids, err := t.files.list(top)
		if gone(err) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("look for cgroups of dead runs: %w", err))
		}
		for _, id := range ids {
			if alive(id) {
				continue
			}
			if err := t.files.rmdir(filepath.Join(top, id)); err != nil && !gone(err) {
				errs = append(errs, fmt.Errorf("remove a dead run's cgroup: %w", err))
			}
		}
		t.files.rmdir(top) //nolint:errcheck // other groups may be in it
	}
	return errors.Join(errs...)
}

// bases is where top groups may be, sorted, each once.
func (t *Tree) bases() []string {
	var out []string
	for _, p := range t.places {
		out = append(out, p.base)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
