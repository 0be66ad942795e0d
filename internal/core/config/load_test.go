package config_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
)

var update = flag.Bool("update", false, "rewrite testdata/*/*.golden")

// host is the environment for the test files.
var host = map[string]string{"API_KEY": "sk-123456", "MODEL": "model-1", "EMPTY": ""}

func options(dir string) config.Options {
	return config.Options{
		Dir:    dir,
		Getenv: func(name string) (string, bool) { v, ok := host[name]; return v, ok },
		Now:    func() time.Time { return time.Date(2026, 11, 21, 9, 8, 7, 0, time.UTC) },
		Providers: map[string]config.ProviderCheck{
			"docker":  checkDocker,
			"sandbox": nil,
		},
	}
}

// checkDocker reports just enough to have a problem at each kind of position.
func checkDocker(cfg map[string]any) []config.ProviderProblem {
	var out []config.ProviderProblem
	if cfg["privileged"] != nil {
		out = append(out, config.ProviderProblem{Path: "privileged", Message: "is refused", Hint: "remove it"})
		out = append(out, config.ProviderProblem{Message: "is odd as a whole"})
	}
	if cfg["netwrok"] != nil {
		out = append(out, environment.UnknownKey("netwrok", "the docker provider knows", "network", "mounts"))
	}
	mounts, _ := cfg["mounts"].([]any)
	for i, m := range mounts {
		mount, _ := m.(map[string]any)
		if source, _ := mount["source"].(string); !filepath.IsAbs(source) {
			out = append(out, config.ProviderProblem{Path: fmt.Sprintf("mounts.%d.source", i), Message: "must be absolute"})
		}
		if mount["target"] == nil {
			out = append(out, config.ProviderProblem{Path: fmt.Sprintf("mounts.%d.target", i), Message: "is missing"})
		}
	}
	return out
}

// jobFiles returns the job files in directories of testdata.
func jobFiles(t testing.TB, directories ...string) []string {
	t.Helper()
	var out []string
	for _, directory := range directories {
		for _, ext := range []string{"yaml", "json"} {
			files, err := filepath.Glob(filepath.Join("testdata", directory, "*."+ext))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, files...)
		}
	}
	if len(out) == 0 {
		t.Fatal("no job files in testdata")
	}
	return out
}

// TestLoad loads every job file of testdata. The golden file has the job, or the problems.
func TestLoad(t *testing.T) {
	for _, file := range jobFiles(t, "valid", "structure", "meaning", "syntax") {
		t.Run(filepath.ToSlash(file), func(t *testing.T) {
			dir, err := filepath.Abs(filepath.Dir(file))
			if err != nil {
				t.Fatal(err)
			}
			loaded, err := config.Load(filepath.Base(file), options(dir))
			if valid := strings.Contains(file, "valid"); valid != (err == nil) {
				t.Errorf("a file of this directory gives %v", err)
			}
			got := strings.ReplaceAll(outcome(t, loaded, err), filepath.Dir(dir), "$TESTDATA")
			compare(t, file+".golden", got)
		})
	}
}

func outcome(t *testing.T, loaded *config.Loaded, err error) string {
	t.Helper()
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	for _, v := range []any{loaded.Job, loaded.Env, loaded.Secrets, loaded.DatasetDirs, loaded.TaskDirs} {
		if err := encoder.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range loaded.Warnings {
		fmt.Fprintln(&b, w)
	}
	return b.String()
}

func compare(t *testing.T, golden, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-update rewrites it)\n--- got\n%s\n--- want\n%s", golden, got, want)
	}
}
