package fake

import (
	"context"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/org/rollout-action/internal/core/environment"
)

// Changes implements environment.ChangeReporter.
func (e *Environment) Changes(ctx context.Context, opts environment.ChangeOptions) (out environment.Changes, err error) {
	end, err := e.begin(ctx, "Changes", running)
	if err != nil {
		return out, err
	}
	defer end()
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[string]environment.Change{}
	compare("/", e.image.root, e.root, opts.Text, all)
	var chosen []string
	chosen, out.More = opts.Choose(environment.Leaves(slices.Collect(maps.Keys(all))))
	for _, name := range chosen {
		out.Files = append(out.Files, all[name])
	}
	return out, ctx.Err()
}

// compare adds the differences of two trees to all.
func compare(name string, before, after *node, text int64, all map[string]environment.Change) {
	c := environment.Change{Path: name, Before: before.state(text), After: after.state(text)}
	if !c.Before.Same(c.After) {
		all[name] = c
	}
	if after == nil { // everything below it is also gone
		return
	}
	names := map[string]bool{}
	for _, n := range []*node{before, after} {
		if n != nil && after.children != nil {
			for child := range n.children {
				names[child] = true
			}
		}
	}
	for child := range names {
		compare(path.Join(name, child), before.child(child), after.child(child), text, all)
	}
}

func (n *node) child(name string) *node {
	if n == nil {
		return nil
	}
	return n.children[name]
}

// state describes a file; nil for a nil node.
func (n *node) state(text int64) *environment.FileState {
	if n == nil {
		return nil
	}
	s := &environment.FileState{Mode: fs.FileMode(n.mode)}
	switch {
	case n.children != nil:
		s.Mode |= fs.ModeDir
	case n.target != "":
		s.Mode, s.Link = fs.ModeSymlink|0o777, n.target
	default:
		if s.Size = int64(len(n.data)); s.Size <= text {
			s.Text = append([]byte{}, n.data...)
		}
	}
	return s
}
