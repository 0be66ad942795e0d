package sources

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/org/rollout-action/providers/sandbox/internal/machine"
)

// Tree is a source of files for COPY: the context, or an image's root (a machine.Root is a tree).
type Tree interface {
	Stat(ctx context.Context, path string) (machine.Info, error)
	Get(ctx context.Context, path string, w io.Writer) error
}

// Match is a file or directory matched by a source.
type Match struct {
	Name string // absolute, links unresolved; the last element names the copy
	machine.Info
}

// Glob returns the matches of a pattern, in order. A pattern without wildcards matches itself, if
// it exists.
func Glob(ctx context.Context, t Tree, pattern string) ([]Match, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("%s: %w", pattern, err)
	}
	matches := []string{"/"}
	for part := range strings.SplitSeq(strings.Trim(pattern, "/"), "/") {
		if part == "" {
			continue
		}
		var next []string
		for _, dir := range matches {
			names, err := matching(ctx, t, dir, part)
			if err != nil {
				return nil, err
			}
			next = append(next, names...)
		}
		matches = next
	}
	var all []Match
	for _, name := range matches {
		info, err := t.Stat(ctx, name)
		if err != nil {
			return nil, err
		}
		if info.Exists {
			all = append(all, Match{Name: name, Info: info})
		}
	}
	return all, nil
}

// matching returns the entries of a directory that match a pattern without slashes.
func matching(ctx context.Context, t Tree, dir, part string) ([]string, error) {
	if !HasWildcard(part) {
		return []string{path.Join(dir, part)}, nil
	}
	in, err := t.Stat(ctx, dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range in.Names {
		if ok, err := path.Match(part, name); err == nil && ok {
			names = append(names, path.Join(dir, name))
		}
	}
	return names, nil
}

// HasWildcard reports whether a pattern may match anything but itself.
func HasWildcard(pattern string) bool {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '*', '?', '[':
			return true
		case '\\':
			i++
		}
	}
	return false
}

// Each calls visit for each entry of the file or directory at a path. Names are relative to it; "."
// is itself.
func Each(ctx context.Context, t Tree, name string, visit func(*tar.Header, io.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := t.Get(ctx, name, w)
		w.CloseWithError(err)
		sent <- err
	}()
	err := entries(r, visit)
	if err == nil {
		_, err = io.Copy(io.Discard, r) // data after the end of the archive
	}
	r.CloseWithError(ErrStopped)
	cancel()
	if from := <-sent; err == nil && from != nil && !errors.Is(from, ErrStopped) {
		err = from
	}
	return err
}

// ErrStopped ends a stream that is not read to its end. It is no failure of the tree.
var ErrStopped = errors.New("no more is read")

// entries calls visit for each entry of an archive.
func entries(r io.Reader, visit func(*tar.Header, io.Reader) error) error {
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		header.Name = Relative(header.Name)
		if err := visit(header, archive); err != nil {
			return err
		}
	}
}

// Relative returns an entry's name as a relative path that cannot lead outside.
func Relative(name string) string {
	if name = strings.TrimPrefix(path.Clean("/"+name), "/"); name == "" {
		return "."
	}
	return name
}
