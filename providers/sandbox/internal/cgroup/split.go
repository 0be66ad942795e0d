package cgroup

import (
	"path/filepath"
	"slices"
)

// openSplit looks for a place for l among the hierarchies of version 1, which have controllers of their
// own each.
func (t *Tree) openSplit(l limit, mounts []mount, self process) {
	for _, m := range mounts {
		if !slices.Contains(m.controllers, l.controller) {
			continue
		}
		for _, base := range candidates(m, self.own[l.controller], "") {
			err := t.trial(base, func(top string) error {
				_, err := t.files.read(filepath.Join(top, probe(l.name)))
				return err
			})
			if err == nil {
				t.places[l.name] = place{base: base}
				return
			}
			t.fails(l.name, base, self, false, err)
		}
	}
}
