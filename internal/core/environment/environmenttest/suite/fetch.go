package suite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
)

// Fetched is the result of a CopyFrom.
type Fetched struct {
	environment.Extracted
	Dst string
	Err error
}

// Fetch copies src out and checks that only plain files and directories arrived, all within the
// destination.
func (b *Env) Fetch(src string, opts environment.ExtractOptions) Fetched {
	s := b.Scene
	s.Helper()
	around := s.TempDir()
	f := Fetched{Dst: filepath.Join(around, "dst")}
	canary := filepath.Join(around, "canary")
	if err := errors.Join(os.Mkdir(f.Dst, 0o755), os.WriteFile(canary, []byte("untouched"), 0o600)); err != nil {
		s.Fatal(err)
	}
	s.Within("CopyFrom", func() { f.Extracted, f.Err = b.CopyFrom(s.Ctx, src, f.Dst, opts) })

	entries, err := os.ReadDir(around)
	if err != nil || len(entries) != 2 {
		s.Errorf("next to the destination: %v, %v", entries, err)
	}
	if data, err := os.ReadFile(canary); err != nil || string(data) != "untouched" {
		s.Errorf("the file next to the destination: %q, %v", data, err)
	}
	f.check(s)
	return f
}

// check walks the destination: it must contain no links and no devices, and the counts must be
// right.
func (f Fetched) check(s *Scene) {
	s.Helper()
	var bytes int64
	var plain, all int
	err := filepath.WalkDir(f.Dst, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == f.Dst {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		all++
		switch {
		case info.Mode().IsRegular():
			plain++
			bytes += info.Size()
			if n := hardLinks(info); n != 1 {
				s.Errorf("%s has %d hard links", path, n)
			}
		case !info.IsDir():
			s.Errorf("%s is a %v", path, info.Mode().Type())
		}
		return nil
	})
	if err != nil {
		s.Errorf("walking what was copied: %v", err)
	}
	if f.Files < plain || f.Files > all {
		s.Errorf("Files = %d; %d files and %d directories were written", f.Files, plain, all-plain)
	}
	if len(f.Omitted) > 100 || len(f.Renamed) > 100 {
		s.Errorf("lists are not cut at 100: %d omitted, %d renamed", len(f.Omitted), len(f.Renamed))
	}
}

// Text returns the content of a file that was copied out.
func (f Fetched) Text(s *Scene, name string) string {
	s.Helper()
	data, err := os.ReadFile(filepath.Join(f.Dst, filepath.FromSlash(name)))
	if err != nil {
		s.Errorf("copied out: %v", err)
	}
	return string(data)
}

// Tree lists the destination; directories end with a slash.
func (f Fetched) Tree(s *Scene) string {
	s.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS(f.Dst), ".", func(path string, d fs.DirEntry, err error) error {
		if d.IsDir() {
			path += "/"
		}
		names = append(names, path)
		return err
	})
	if err != nil {
		s.Errorf("walking what was copied: %v", err)
	}
	return strings.Join(names[1:], " ")
}

// OK ends the check if the copy failed.
func (f Fetched) OK(s *Scene) Fetched {
	s.Helper()
	if f.Err != nil {
		s.Fatalf("CopyFrom: %v", f.Err)
	}
	return f
}
