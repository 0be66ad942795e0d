package podinit

import (
	"os"
	"path/filepath"
	"testing"
)

func TestEmptyVolumesGetTheFilesOfTheImage(t *testing.T) {
	from, empty, full := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.Chmod(from, 0o710); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.MkdirAll(filepath.Join(from, "a/b"), 0o755), os.WriteFile(filepath.Join(from, "a/b/file"), []byte("text"), 0o640),
		os.Symlink("b/file", filepath.Join(from, "a/link")), os.WriteFile(filepath.Join(full, "own"), nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	missing := filepath.Join(from, "missing")
	if err := fill([]string{from, empty, from, full, missing, t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(empty, "a/link"))
	info, statErr := os.Stat(filepath.Join(empty, "a/b/file"))
	if err != nil || statErr != nil || string(text) != "text" || info.Mode().Perm() != 0o640 {
		t.Errorf("the copy is %q, %v, %v", text, err, statErr)
	}
	if top, err := os.Stat(empty); err != nil || top.Mode().Perm() != 0o710 {
		t.Errorf("the volume has another mode than the directory: %v, %v", top.Mode(), err)
	}
	if there, err := os.ReadDir(full); err != nil || len(there) != 1 {
		t.Errorf("a volume with files has got more: %v, %v", there, err)
	}
	if err := fill([]string{from}); err == nil {
		t.Error("half a pair is no error")
	}
}
