package dockerfile

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// tree is a source of files for COPY: the context, or an image's root (a Box is a tree).
type tree interface {
	Stat(ctx context.Context, path string) (Info, error)
	Get(ctx context.Context, path string, w io.Writer) error
}

// match is a file or directory matched by a source.
type match struct {
	name string // absolute, links unresolved; the last element names the copy
	Info
}

// glob returns the matches of a pattern, in order. A pattern without wildcards matches itself, if
// it exists.
func glob(ctx context.Context, t tree, pattern string) ([]match, error) {
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
	var all []match
	for _, name := range matches {
		info, err := t.Stat(ctx, name)
		if err != nil {
			return nil, err
		}
		if info.Exists {
			all = append(all, match{name: name, Info: info})
		}
	}
	return all, nil
}

// matching returns the entries of a directory that match a pattern without slashes.
func matching(ctx context.Context, t tree, dir, part string) ([]string, error) {
	if !hasWildcard(part) {
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

// hasWildcard reports whether a pattern may match anything but itself.
func hasWildcard(pattern string) bool {
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

// each calls visit for each entry of the file or directory at a path. Names are relative to it; "."
// is itself.
func each(ctx context.Context, t tree, name string, visit func(*tar.Header, io.Reader) error) error {
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
	r.CloseWithError(errStopped)
	cancel()
	if from := <-sent; err == nil && from != nil && !errors.Is(from, errStopped) {
		err = from
	}
	return err
}

var errStopped = errors.New("no more is read")

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
		header.Name = relative(header.Name)
		if err := visit(header, archive); err != nil {
			return err
		}
	}
}

// relative returns an entry's name as a relative path that cannot lead outside.
func relative(name string) string {
	if name = strings.TrimPrefix(path.Clean("/"+name), "/"); name == "" {
		return "."
	}
	return name
}
