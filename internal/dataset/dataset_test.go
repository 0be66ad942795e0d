package dataset

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// writeTask makes a task like those of published datasets.
func writeTask(t testing.TB, dir string) {
	t.Helper()
	for name, content := range map[string]string{
		"task.toml":              "version = \"1.0\"\n\n[metadata]\ndifficulty = \"easy\"\ntags = [\"a\", \"b\"]\n\n[verifier]\ntimeout_sec = 120.0\n\n[agent]\ntimeout_sec = 900.0\n\n[environment]\ncpus = 1\nmemory_mb = 2048\nstorage_mb = 10240\n",
		"instruction.md":         "Say hello.\n",
		"environment/Dockerfile": "FROM debian:bookworm\n",
		"solution/solve.sh":      "echo hello\n",
		"tests/test.sh":          "echo 1 > /logs/verifier/reward.txt\n",
		"tests/test_outputs.py":  "def test(): pass\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkLoad2000 loads a large dataset inside a git repository. The goal is under a second.
func BenchmarkLoad2000(b *testing.B) {
	dir := b.TempDir()
	for i := range 2000 {
		writeTask(b, filepath.Join(dir, "tasks", fmt.Sprintf("task-%04d", i)))
	}
	for name, content := range map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/refs/heads/main": "0123456789abcdef0123456789abcdef01234567\n"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		s, warnings, err := Load(context.Background(), "tasks", filepath.Join(dir, "tasks"))
		if err != nil || len(warnings) > 0 || len(s.Tasks) != 2000 {
			b.Fatal(err, warnings)
		}
		for _, t := range s.Tasks {
			if t.GitCommitID == nil || len(t.Problems) > 0 {
				b.Fatal(t.Problems)
			}
		}
	}
}
