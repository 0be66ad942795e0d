package prove_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/prove"
)

// BenchmarkLint reads a task whose environment is a large repository: that of Go's compiler.
func BenchmarkLint(b *testing.B) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Fatal(err)
	}
	dir := filepath.Join(b.TempDir(), "greet")
	if err := os.CopyFS(filepath.Join(dir, "environment", "repo"), os.DirFS(filepath.Join(strings.TrimSpace(string(root)), "src", "cmd", "compile"))); err != nil {
		b.Fatal(err)
	}
	size := int64(0)
	if err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			info, err := entry.Info()
			if err != nil {
				return err
			}
			size += info.Size()
		}
		return err
	}); err != nil {
		b.Fatal(err)
	}
	for name, text := range good {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	loaded := task.Load(dir)
	b.SetBytes(size)
	for b.Loop() {
		prove.Lint(loaded)
	}
}
