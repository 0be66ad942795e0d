package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestManyVersionsAreListed: as many as a registry may have. Comparing each with each takes an
// hour.
func TestManyVersionsAreListed(t *testing.T) {
	const many = 10_000
	var text strings.Builder
	for i := range many {
		fmt.Fprintf(&text, `, {"name": "d", "version": "%d.0", "tasks": [{"name": "t", "git_url": "https://example.org/x", "path": "p"}]}`, i)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "registry.json"), []byte("["+text.String()[1:]+"]"), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := Main(t.Context(), t.Context(), Env{
		Providers: offered,
		Stdin:     strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Dir: dir, Now: time.Now,
		Getenv: func(name string) (string, bool) { return dir, name == "XDG_CACHE_HOME" },
	}, []string{"datasets", "ls", "--json", "--registry", "registry.json"})
	if got := strings.Count(stdout.String(), `"default": true`); code != 0 || got != 1 || strings.Count(stdout.String(), `"name"`) != many {
		t.Errorf("exit code %d, %d defaults\n%s", code, got, stderr.String())
	}
}
