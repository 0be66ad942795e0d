package task

import (
	"os"
	"path/filepath"
	"testing"
)

// newTask writes a small valid task, changed by files: path -> content ("" removes the file).
func newTask(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "hello")
	all := map[string]string{
		"task.toml":              "version = \"1.0\"\n",
		"instruction.md":         "Say hello.\n",
		"environment/Dockerfile": "FROM debian:bookworm\n",
		"tests/test.sh":          "echo 1 > /logs/verifier/reward.txt\n",
	}
	for name, content := range files {
		all[name] = content
	}
	for name, content := range all {
		if content != "" {
			writeFile(t, filepath.Join(dir, name), content)
		}
	}
	return dir
}

func writeFile(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestLoadFillsInDefaults(t *testing.T) {
	got := Load(newTask(t, nil))
	if got.Err() != nil || len(got.Problems) > 0 || got.Missing {
		t.Fatalf("problems %v, missing %v", got.Problems, got.Missing)
	}
	if got.Name != "hello" || !filepath.IsAbs(got.Dir) {
		t.Errorf("name %q, dir %q", got.Name, got.Dir)
	}
	want := Environment{BuildTimeoutSec: 600, MilliCPUs: 1000, Memory: 2_000_000_000, Storage: 10_000_000_000}
	if got.Config.Environment != want {
		t.Errorf("environment = %+v, want %+v", got.Config.Environment, want)
	}
}
