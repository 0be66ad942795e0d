package taskdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/fstest"
)

func TestTree(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "outside"), "secret")
	write(t, filepath.Join(dir, "tree/a/file"), "text")
	tree := Dir(filepath.Join(dir, "tree"))
	must(t, os.Symlink("a/file", filepath.Join(string(tree), "in")))
	must(t, os.Symlink("../outside", filepath.Join(string(tree), "out")))
	must(t, os.Symlink("..", filepath.Join(string(tree), "up")))
	must(t, syscall.Mkfifo(filepath.Join(string(tree), "pipe"), 0o644))

	for _, name := range []string{"a/file", "in"} {
		if text, err := fs.ReadFile(tree, name); string(text) != "text" || err != nil {
			t.Errorf("%s reads %q, %v", name, text, err)
		}
	}
	for _, name := range []string{"out", "up/outside", "up", "pipe", "none", "../outside", "/etc/passwd", "a/../in"} {
		f, err := tree.Open(name)
		var pe *fs.PathError
		if err == nil || !errors.As(err, &pe) || pe.Path != name {
			t.Errorf("opening %s: %v, %v", name, f, err)
		}
	}
	if target, err := tree.ReadLink("out"); target != "../outside" || err != nil {
		t.Errorf("ReadLink = %q, %v", target, err)
	}
	if info, err := tree.Lstat("out"); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("Lstat = %v, %v", info, err)
	}
	if _, err := tree.Stat("out"); err == nil {
		t.Error("Stat follows a link out of the tree")
	}
	if info, err := tree.Stat("in"); err != nil || info.Size() != 4 {
		t.Errorf("Stat = %v, %v", info, err)
	}
	if err := fstest.TestFS(Dir(filepath.Join(string(tree), "a")), "file"); err != nil {
		t.Error(err)
	}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), 0o644))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
