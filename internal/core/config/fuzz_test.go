package config_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/lib/diag"
)

// FuzzLoad checks that Load returns a job that can be written, or problems, and never panics.
func FuzzLoad(f *testing.F) {
	for _, file := range jobFiles(f, "valid", "structure", "meaning", "syntax") {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data), "environment.override_cpus", "2")
	}
	f.Add(minimal, "agents.0.env.A", "${MODEL}")
	f.Add(minimal, "agents.1", "{name: x, execute: y}")
	f.Add(minimal, "a..b", "*x")
	dir := f.TempDir()
	if err := os.Mkdir(dir+"/dataset", 0o755); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, content, path, value string) {
		opts := options(dir)
		opts.Stdin = strings.NewReader(content)
		opts.Overrides = []config.Override{{Path: path, Value: value, Origin: "--set"}}
		loaded, err := config.Load("-", opts)
		var list diag.List
		switch {
		case err == nil:
			if _, err := json.Marshal(loaded.Job); err != nil {
				t.Errorf("the job cannot be written: %v", err)
			}
		case !errors.As(err, &list) || len(list) == 0:
			t.Errorf("got %v, want problems", err)
		}
	})
}
