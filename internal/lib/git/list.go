package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/lib/diag"
)

// maxArgs is the maximum size in bytes of the paths that one git command gets; systems allow
// megabytes.
const maxArgs = 100 << 10

// list reads the entries of the directories from the commit.
func (e *export) list(ctx context.Context) error {
	byPath := map[string][]*directory{}
	var paths []string
	for i := range e.directories {
		f := &e.directories[i]
		f.Missing = true
		if byPath[f.path] == nil {
			paths = append(paths, f.path)
		}
		byPath[f.path] = append(byPath[f.path], f)
	}
	if byPath[""] != nil {
		return e.listPart(ctx, nil, byPath) // list everything
	}
	for len(paths) > 0 {
		n, size := 0, 0
		for n < len(paths) && (n == 0 || size < maxArgs) {
			size += len(paths[n]) + 1
			n++
		}
		if err := e.listPart(ctx, paths[:n], byPath); err != nil {
			return err
		}
		paths = paths[n:]
	}
	return nil
}

func (e *export) listPart(ctx context.Context, paths []string, byPath map[string][]*directory) error {
	out, err := e.git(ctx, nil, append([]string{"ls-tree", "-r", "-z", "--full-tree", e.id, "--"}, paths...)...)
	if errors.Is(err, errTooMuch) {
		return fmt.Errorf("%s: the directories have too many files: %w", e.remote.shown, errTooMuch)
	}
	if err != nil {
		return err
	}
	var asked map[string]bool // nil: all
	if paths != nil {
		asked = make(map[string]bool, len(paths))
		for _, p := range paths {
			asked[p] = true
		}
	}
	for len(out) > 0 {
		record, rest, found := bytes.Cut(out, []byte{0})
		out = rest
		head, name, tabbed := strings.Cut(string(record), "\t")
		words := strings.Fields(head)
		if !found || !tabbed || len(words) != 3 || !IsID(words[2]) {
			return fmt.Errorf("%s: git lists something that cannot be read: %s", e.remote.shown, safe(head))
		}
		e.assign(entry{mode: words[0], blob: words[2]}, name, asked, byPath)
	}
	return nil
}

// assign adds an entry of the commit to the directories that contain it, among those in asked:
// entries of other directories are listed again by their own call.
func (e *export) assign(found entry, name string, asked map[string]bool, byPath map[string][]*directory) {
	give := func(dir, below string) {
		if asked != nil && !asked[dir] {
			return
		}
		for _, f := range byPath[dir] {
			f.Missing = false
			if below == "" {
				f.problem("is a file in the commit, not a directory")
				continue
			}
			found.name = below
			f.entries = append(f.entries, found)
		}
	}
	give("", name)
	give(name, "")
	for i, c := range name {
		if c == '/' {
			give(name[:i], name[i+1:])
		}
	}
}

// maxDirectories bounds the search for similar names.
const maxDirectories = 200_000

// nearest sets Nearest for the directories that are missing.
func (e *export) nearest(ctx context.Context) error {
	if !slices.ContainsFunc(e.directories, func(f directory) bool { return f.Missing }) {
		return nil
	}
	out, err := e.git(ctx, nil, "ls-tree", "-r", "-d", "-z", "--name-only", "--full-tree", e.id)
	if err != nil {
		return ctx.Err() // not fatal: it is only a hint
	}
	var all []string
	byBase, byParent := map[string]string{}, map[string][]string{}
	for name := range strings.SplitSeq(string(out), "\x00") {
		if clean, err := CleanPath(name); name == "" || err != nil || clean != name || len(all) == maxDirectories {
			continue
		}
		all = append(all, name)
		if _, taken := byBase[path.Base(name)]; !taken {
			byBase[path.Base(name)] = name
		}
		byParent[path.Dir(name)] = append(byParent[path.Dir(name)], path.Base(name))
	}
	for i := range e.directories {
		f := &e.directories[i]
		if !f.Missing {
			continue
		}
		dir, base := path.Dir(f.path), path.Base(f.path)
		if moved, ok := byBase[base]; ok {
			f.Nearest = safe(moved)
		} else if near := diag.Nearest(base, byParent[dir]); near != "" {
			f.Nearest = safe(path.Join(dir, near))
		}
	}
	return nil
}
