package kubernetes

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/initwire"
)

// Changes implements environment.ChangeReporter.
func (e *podEnv) Changes(ctx context.Context, opts environment.ChangeOptions) (out environment.Changes, err error) {
	err = e.withOriginal(ctx, func(original inContainer) (err error) {
		out, err = changes(ctx, original, e, opts)
		return err
	})
	if err != nil {
		return environment.Changes{}, wrapped(environment.KindCopy, "list the changed files of pod "+e.name, err)
	}
	return out, nil
}

// changed is a file in two states, of which one may be nil.
type changed struct{ before, after *initwire.File }

func changes(ctx context.Context, original, now inContainer, opts environment.ChangeOptions) (out environment.Changes, err error) {
	found := map[string]changed{}
	err = compare(ctx, original, now, func(before, after *initwire.File) error {
		switch {
		case !differs(before, after), isDir(before) && isDir(after) && before.Mode == after.Mode:
			return nil
		case len(found) >= maxChanges:
			return errManyChanges
		}
		file := after
		if file == nil {
			file = before
		}
		if !utf8.Valid(file.Path) {
			out.Unnamed++
			return nil
		}
		found["/"+string(file.Path)] = changed{before, after}
		return nil
	})
	if err != nil {
		return out, err
	}
	paths := make([]string, 0, len(found))
	for path := range found {
		paths = append(paths, path)
	}
	chosen, more := opts.Choose(environment.Leaves(paths))
	out.More = more
	before, err := texts(ctx, original, chosen, opts.Text, func(path string) *initwire.File { return found[path].before })
	if err != nil {
		return out, fmt.Errorf("read the files of its image: %w", err)
	}
	after, err := texts(ctx, now, chosen, opts.Text, func(path string) *initwire.File { return found[path].after })
	if err != nil {
		return out, err
	}
	for _, path := range chosen {
		if c := (environment.Change{Path: path, Before: before[path], After: after[path]}); !c.Before.Same(c.After) {
			out.Files = append(out.Files, c)
		}
	}
	return out, nil
}

// texts describes the files of an environment at paths, as far as they are there, with the content
// of plain files up to so many bytes.
func texts(ctx context.Context, from inContainer, paths []string, most int64, listed func(path string) *initwire.File) (map[string]*environment.FileState, error) {
	states := map[string]*environment.FileState{}
	var wanted []string
	for _, path := range paths {
		f := listed(path)
		if f == nil {
			continue
		}
		s := &environment.FileState{Mode: fileMode(f)}
		if s.Mode.IsRegular() {
			s.Size = f.Size
		}
		states[path] = s
		if s.Mode.IsRegular() && s.Size <= most || s.Mode&fs.ModeSymlink != 0 {
			wanted = append(wanted, path[1:])
		}
	}
	if len(wanted) == 0 {
		return states, nil
	}
	return states, from.PackFiles(ctx, slices.Values(wanted), func(packed io.Reader) error {
		for files := tar.NewReader(packed); ; {
			header, err := files.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			s := states["/"+strings.TrimSuffix(header.Name, "/")]
			switch {
			case s == nil:
			case header.Typeflag == tar.TypeSymlink:
				s.Link = header.Linkname
			case header.Typeflag == tar.TypeReg && header.Size <= most: // it may have grown
				s.Size = header.Size
				if s.Text, err = io.ReadAll(files); err != nil {
					return err
				}
			case header.Typeflag == tar.TypeLink: // another name of one that came before
				if first := states["/"+header.Linkname]; first != nil {
					s.Size, s.Text = first.Size, first.Text
				}
			}
		}
	})
}

// fileMode returns the mode of a file in the form of package fs.
func fileMode(f *initwire.File) fs.FileMode {
	mode := kindOfFile(f) | fs.FileMode(f.Mode&0o777)
	for bit, set := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if f.Mode&bit != 0 {
			mode |= set
		}
	}
	return mode
}
