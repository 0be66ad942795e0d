package nofollow

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// hostile returns a directory with the directory "dir", the file "dir/file", links to both, a pipe
// and a hidden directory.
func hostile(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	err := errors.Join(
		os.Mkdir(filepath.Join(top, "dir"), 0o755),
		os.Mkdir(filepath.Join(top, ".hidden"), 0o755),
		os.WriteFile(filepath.Join(top, "dir", "file"), []byte("x"), 0o644),
		os.Symlink("dir", filepath.Join(top, "dir-link")),
		os.Symlink("dir/file", filepath.Join(top, "file-link")),
		unix.Mkfifo(filepath.Join(top, "pipe"), 0o644),
	)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// closed closes the file if it was opened, and returns the error of opening it.
func closed(f *os.File, err error) error {
	if err == nil {
		_ = f.Close()
	}
	return err
}

func TestLinksAndPipesAreNotOpened(t *testing.T) {
	top := hostile(t)
	root, err := OpenDir(top)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, c := range []struct {
		name      string
		file, dir bool
	}{
		{"dir", false, true}, {"dir-link", false, false}, {"file-link", false, false}, {"pipe", false, false},
		{"dir/file", true, false}, {"nothing", false, false},
	} {
		path := filepath.Join(top, c.name)
		_, readErr := ReadFile(path, 10)
		_, bufferErr := new(Buffer).ReadAt(root, c.name, c.name, 10)
		for how, err := range map[string]error{
			"Open": closed(Open(path)), "OpenAt": closed(OpenAt(root, c.name)), "ReadFile": readErr, "Buffer.ReadAt": bufferErr,
		} {
			if (err == nil) != c.file {
				t.Errorf("%s(%s): %v", how, c.name, err)
			}
			if c.name == "nothing" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s(%s): %v, want fs.ErrNotExist", how, c.name, err)
			}
		}
		for how, err := range map[string]error{"OpenDir": closed(OpenDir(path)), "OpenDirAt": closed(OpenDirAt(root, c.name))} {
			if (err == nil) != c.dir {
				t.Errorf("%s(%s): %v", how, c.name, err)
			}
		}
	}
	if err := closed(OpenDirBelow(filepath.Dir(top), filepath.Base(top), "dir-link")); err == nil {
		t.Error("OpenDirBelow followed a link")
	}
	if err := closed(CreateAt(root, "file-link", 0o644)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("CreateAt over a link: %v", err)
	}
	var names []string
	if err := EachDir(root, func(name string, _ *os.File) error { names = append(names, name); return nil }); err != nil || !slices.Equal(names, []string{"dir"}) {
		t.Errorf("EachDir: %q, %v", names, err)
	}
}

func TestReadingIsBounded(t *testing.T) {
	top := t.TempDir()
	if err := os.WriteFile(filepath.Join(top, "f"), []byte(strings.Repeat("x", 11)), 0o644); err != nil {
		t.Fatal(err)
	}
	dir, err := OpenDir(top)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for limit, fits := range map[int64]bool{10: false, 11: true} {
		if text, err := ReadFile(filepath.Join(top, "f"), limit); (err == nil && len(text) == 11) != fits {
			t.Errorf("ReadFile with at most %d bytes: %v", limit, err)
		}
		if text, err := new(Buffer).ReadAt(dir, "f", "f", limit); (err == nil && len(text) == 11) != fits {
			t.Errorf("Buffer.ReadAt with at most %d bytes: %v", limit, err)
		}
	}
}

func TestCheckDirsRefusesLinksAndFiles(t *testing.T) {
	top := hostile(t)
	for below, fine := range map[string]bool{"dir": true, "nothing/at/all": true, "dir-link/x": false, "dir/file/x": false, "pipe": false} {
		if err := CheckDirs(top, below); (err == nil) != fine {
			t.Errorf("%s: %v", below, err)
		}
	}
}
