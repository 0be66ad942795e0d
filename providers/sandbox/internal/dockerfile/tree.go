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

// tree is what COPY takes files from: the context, or the root of an image (a Box is one).
type tree interface {
	Look(ctx context.Context, path string) (Info, error)
	Get(ctx context.Context, path string, w io.Writer) error
}

// found is a file or folder that a source names.
type found struct {
	name string // absolute, as it was asked for: its last element is what the copy is called
	Info
}

// glob gives what a pattern matches, in order; a pattern without wildcards matches itself, if it is there.
func glob(ctx context.Context, t tree, pattern string) ([]found, error) {
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
	var all []found
	for _, name := range matches {
		info, err := t.Look(ctx, name)
		if err != nil {
			return nil, err
		}
		if info.Exists {
			all = append(all, found{name: name, Info: info})
		}
	}
	return all, nil
}

// matching gives what is in a folder by a pattern without slashes.
func matching(ctx context.Context, t tree, dir, part string) ([]string, error) {
	if !wild(part) {
		return []string{path.Join(dir, part)}, nil
	}
	in, err := t.Look(ctx, dir)
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

// wild tells whether a pattern may match more than itself.
func wild(pattern string) bool {
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

// each gives every entry of what is at a path: names are relative to it, and "." is itself.
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
		_, err = io.Copy(io.Discard, r) // what follows the end of the archive
	}
	r.CloseWithError(errStopped)
	cancel()
	if from := <-sent; err == nil && from != nil && !errors.Is(from, errStopped) {
		err = from
	}
	return err
}

var errStopped = errors.New("no more is read")

// entries reads an archive.
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

// relative is an entry's name without anything that could lead out of where it belongs.
func relative(name string) string {
	if name = strings.TrimPrefix(path.Clean("/"+name), "/"); name == "" {
		return "."
	}
	return name
}
