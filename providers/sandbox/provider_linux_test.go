package sandbox

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestHidden(t *testing.T) {
	for _, tc := range []struct {
		name       string
		hide, want []string
	}{
		{"what is not shown anyway need not be hidden", []string{"/home/u/tasks", "/work", "/tmp/x", "/"}, nil},
		{"what lies below shown folders is hidden", []string{"/usr/src/app", "/opt/tasks"}, []string{"/opt/tasks", "/usr/src/app"}},
		{"what lies in hidden folders is hidden with them", []string{"/opt/a/b", "/opt/a", "/opt/ab"}, []string{"/opt/a", "/opt/ab"}},
		{"what programs need is shown all the same", []string{"/usr", "/usr/bin", "/usr/local", "/opt", "/usr/lib/x"}, []string{"/usr/lib/x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := hidden(tc.hide); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWhiteouts(t *testing.T) {
	got := whiteouts([]string{"/opt/tasks", "/usr/src/app", "/usrx/y"}, hostPart{At: "/usr", Host: "/usr"})
	if !slices.Equal(got, []string{"src/app"}) {
		t.Errorf("got %q", got)
	}
}

func TestLayersBelowAnOpaqueOneAreHidden(t *testing.T) {
	s := &store{dir: t.TempDir()}
	for _, path := range []string{"l/a/root", "l/b/root", "l/c/root", "l/c/+usr"} {
		if err := os.MkdirAll(s.path(path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(s.path("l/b", opaqueMark), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := s.layers([]string{"a", "b", "c"}, rootPart); !slices.Equal(got, []string{"l/c/root", "l/b/root"}) {
		t.Errorf("got %q", got)
	}
}

func TestUnpackingALayerNotesThatItIsOpaque(t *testing.T) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: ".wh..wh..opq", Mode: 0o644}), w.Close()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	root := filepath.Join(dir, rootPart)
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := findMode().unpack(t.Context(), &archive, root); err != nil {
		t.Fatal(err)
	}
	if !exists(filepath.Join(dir, opaqueMark)) {
		t.Error("nothing says that the layer hides those below")
	}
}
