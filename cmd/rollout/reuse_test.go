//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/test/testenv"
)

// TestReuseNeedsDigests: a reward depends on a file in a mount, and the file changes.
func TestReuseNeedsDigests(t *testing.T) {
	realProviders(t, func(t *testing.T, provider string) {
		dir := t.TempDir()
		outside := filepath.Join(dir, "outside")
		must(t, os.Mkdir(outside, 0o755))
		config, want, source := "{base: host}", "base: host (this machine's files)", outside
		if provider == "docker" {
			config, want, source = fmt.Sprintf("{mounts: [%q]}", outside+":/outside:ro"), "mounts (files of the engine's machine)", "/outside"
		}
		for name, text := range map[string]string{
			"job.yaml":            fmt.Sprintf("n_attempts: 2\nenvironment: {type: %s, provider_config: %s}\nagents: [{name: nop}]\ntasks: [task]\n", provider, config),
			"task/task.toml":      "version = \"1.0\"\n[environment]\ndocker_image = \"" + testenv.Image + "\"\n",
			"task/instruction.md": "Nothing.\n",
			"task/tests/test.sh":  "cat " + source + "/reward >/logs/verifier/reward.txt || echo 0.5 >/logs/verifier/reward.txt\n",
			"outside/reward":      "1\n",
		} {
			path := filepath.Join(dir, name)
			must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must(t, os.WriteFile(path, []byte(text), 0o644))
		}
		if code := start(t, dir, "run", "job.yaml", "--name", "one").exit(t); code != 0 {
			t.Fatalf("the first run ended with %d", code)
		}
		must(t, os.WriteFile(filepath.Join(outside, "reward"), []byte("0\n"), 0o644))
		r := start(t, dir, "run", "job.yaml", "--name", "two", "--reuse", "jobs/one")
		if code := r.exit(t); code != 0 {
			t.Fatalf("the second run ended with %d", code)
		}
		if n := strings.Count(r.output.String(), want); n != 1 || !strings.Contains(r.output.String(), "Reused 0 of 2 trials") {
			t.Errorf("the reason is said %d times", n)
		}
		if res := (job{dir: dir, name: "two"}).result(t); res.ReusedTrials != 0 {
			t.Errorf("%d trials were taken over", res.ReusedTrials)
		}
	})
}
