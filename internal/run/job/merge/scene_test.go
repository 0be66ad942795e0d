package merge

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/test/jobtest"
)

// merge merges the paths in the scene into the directory jobs.
func (s *scene) merge(paths ...string) (Result, error) {
	if len(paths) == 0 {
		paths = []string{"shards"}
	}
	return Run(s.Context(), Options{Paths: paths, Parent: "jobs", Base: s.Dir})
}

func (s *scene) mustMerge(paths ...string) Result {
	s.Helper()
	merged, err := s.merge(paths...)
	s.Check(err)
	return merged
}

// refused merges, and expects a refusal with all of the texts and nothing written.
func (s *scene) refused(paths []string, want ...string) {
	s.Helper()
	_, err := s.merge(paths...)
	var refusal job.Refusal
	if !errors.As(err, &refusal) {
		s.Fatalf("got %v, want a refusal", err)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			s.Errorf("the refusal does not say %q: %s", w, err)
		}
	}
	s.nothingLeft()
}

// nothingLeft checks that no drafts are left.
func (s *scene) nothingLeft() {
	s.Helper()
	drafts, err := filepath.Glob(s.In("jobs", ".*"))
	if err != nil || len(drafts) > 0 {
		s.Errorf("left behind: %v %v", drafts, err)
	}
}

// says expects one of the sentences to contain all of the texts.
func (s *scene) says(sentences []string, want ...string) {
	s.Helper()
	for _, sentence := range sentences {
		if !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(sentence, w) }) {
			return
		}
	}
	s.Errorf("none of these says %q:\n%s", want, strings.Join(sentences, "\n"))
}

// mergeInto merges the paths in the scene into output.
func (s *scene) mergeInto(output string, move bool, paths ...string) (Result, error) {
	return Run(s.Context(), Options{Paths: paths, Output: output, Base: s.Dir, Move: move})
}

// refusedInto expects a refusal with this reason, and all files unchanged.
func (s *scene) refusedInto(output string, move bool, why string, paths ...string) {
	s.Helper()
	before := s.Content(s.Dir)
	_, err := s.mergeInto(output, move, paths...)
	var refusal job.Refusal
	if !errors.As(err, &refusal) || !strings.Contains(err.Error(), why) {
		s.Errorf("%v into %s: got %v, want a refusal that says %q", paths, output, err, why)
	}
	if !maps.Equal(before, s.Content(s.Dir)) {
		s.Errorf("%v into %s: files were changed", paths, output)
	}
}

// tarred returns a directory as a tar, with its entries below prefix.
func (s *scene) tarred(dir, prefix string) []byte {
	s.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	s.Check(filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		below, err := filepath.Rel(dir, path)
		s.Check(err)
		text := s.Read(path)
		s.Check(w.WriteHeader(&tar.Header{Name: prefix + filepath.ToSlash(below), Mode: 0o600, Size: int64(len(text)), Typeflag: tar.TypeReg}))
		_, err = io.WriteString(w, text)
		return err
	}))
	s.Check(w.Close())
	return b.Bytes()
}

func gzipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data) // into memory
	_ = w.Close()
	return b.Bytes()
}

func (s *scene) zipped(files map[string]string) []byte {
	s.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := w.Create(name)
		s.Check(err)
		_, err = io.WriteString(f, files[name])
		s.Check(err)
	}
	s.Check(w.Close())
	return b.Bytes()
}

// scene is a jobtest.Scene whose contents can be merged.
type scene struct{ *jobtest.Scene }

func newScene(t *testing.T) *scene { return &scene{jobtest.New(t)} }
