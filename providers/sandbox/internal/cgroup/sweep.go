package cgroup

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// Sweep removes the groups in the top group for whose id alive returns false. It kills nothing: a
// group that still has processes is an error and stays. alive is called once or more for an id, and
// not concurrently. Sweep does not find groups that a run made in another delegated group.
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

// bases returns the directories that may contain top groups, sorted, each once.
func (t *Tree) bases() []string {
	var out []string
	for _, p := range t.places {
		out = append(out, p.base)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
