package cgroup

import (
	"path/filepath"
	"slices"
)

// openSplit looks for a place for l in the hierarchies of version 1, each with separate
// controllers.
func (t *Tree) openSplit(l limit, mounts []mount, self process) {
	for _, m := range mounts {
		if !slices.Contains(m.controllers, l.controller) {
			continue
		}
		for _, base := range candidateDirs(m, self.own[l.controller], "") {
			err := t.tryBase(base, func(top string) error {
				_, err := t.files.read(filepath.Join(top, limitFile(l.name)))
				return err
			})
			if err == nil {
				t.places[l.name] = place{base: base}
				return
			}
			t.noteMissing(l.name, base, self, false, err)
		}
	}
}
