package environment

import (
	"bytes"
	"cmp"
	"context"
	"io/fs"
	"slices"
	"strings"
)

// ChangeReporter is an Environment that can report the files that differ from its image. Without
// it, judges are not shown the agent's changes.
type ChangeReporter interface {
	// Changes returns the files that were added, changed and deleted since the environment began
	// with its image, also by CopyTo. Mounts do not count. Processes may run meanwhile. Directories
	// count only if they are empty, or if their content is gone.
	Changes(ctx context.Context, opts ChangeOptions) (Changes, error)
}

// ChangeOptions bound the result of Changes.
type ChangeOptions struct {
	// Skip reports whether a path is left out. nil: none is.
	Skip func(path string) bool
	// First is a directory whose files come first; "" if there is none.
	First string
	Files int   // most files that are described
	Text  int64 // bytes; larger files have no Text
}

// Changes lists the files of an environment that differ from its image.
type Changes struct {
	Files []Change // those below ChangeOptions.First first, then by path
	// More counts changes that are not in Files.
	More int
	// Unnamed counts changes whose names the provider cannot tell, such as names that are no UTF-8.
	// They are not in Files.
	Unnamed int
}

// Change is a file that differs.
type Change struct {
	Path string // absolute
	// Before is the file in the image, and After the file now. nil: it is not there.
	Before, After *FileState
	// Emptied: the path is a directory that replaced another one, whose content in the image is
	// gone without being listed.
	Emptied bool
}

// FileState describes a file.
type FileState struct {
	Mode fs.FileMode // with the type
	Size int64       // bytes, of a plain file
	Link string      // where a symbolic link leads
	Text []byte      // content of a plain file; nil if it is larger than ChangeOptions.Text or could not be read
}

// Same reports whether two states are equal as far as Changes compares them.
func (s *FileState) Same(o *FileState) bool {
	if s == nil || o == nil {
		return s == o
	}
	known := !s.Mode.IsRegular() || s.Text != nil && o.Text != nil
	return known && s.Mode == o.Mode && s.Size == o.Size && s.Link == o.Link && bytes.Equal(s.Text, o.Text)
}

// ChangesOf returns env's Changes. errors.ErrUnsupported is in the chain if env is no
// ChangeReporter.
func ChangesOf(ctx context.Context, env Environment, opts ChangeOptions) (Changes, error) {
	c, ok := As[ChangeReporter](env)
	if !ok {
		return Changes{}, unsupported("tell which files of an environment have changed")
	}
	return c.Changes(ctx, opts)
}

// Choose returns the paths that Changes describes, in their order, and the number of the others.
// paths may have duplicates.
func (o ChangeOptions) Choose(paths []string) (chosen []string, more int) {
	if o.Skip != nil {
		paths = slices.DeleteFunc(slices.Clone(paths), o.Skip)
	}
	paths = slices.Compact(slices.Sorted(slices.Values(paths)))
	if o.First != "" {
		slices.SortStableFunc(paths, func(a, b string) int { return cmp.Compare(o.rank(a), o.rank(b)) })
	}
	n := min(len(paths), o.Files)
	return paths[:n], len(paths) - n
}

func (o ChangeOptions) rank(path string) int {
	if path == o.First || strings.HasPrefix(path, strings.TrimSuffix(o.First, "/")+"/") {
		return 0
	}
	return 1
}

// Leaves returns the paths that have no other path below them.
func Leaves(paths []string) []string {
	sorted := slices.SortedFunc(slices.Values(paths), func(a, b string) int { // a directory directly before the paths below it
		return strings.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
	})
	var out []string
	for i, path := range sorted {
		if i+1 < len(sorted) && strings.HasPrefix(sorted[i+1], strings.TrimSuffix(path, "/")+"/") {
			continue
		}
		out = append(out, path)
	}
	return out
}
