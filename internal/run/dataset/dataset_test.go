package dataset

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/diag"
)

// writeTask writes a task in the style of published datasets.
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
		writeFile(t, filepath.Join(dir, name), content)
	}
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

func names(s *Set) []string {
	var out []string
	for _, t := range s.Tasks {
		out = append(out, t.Name)
	}
	return out
}

func TestLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "set")
	for _, name := range []string{"b", "a", "Z", "sub/inner"} {
		writeTask(t, filepath.Join(dir, name))
	}
	writeFile(t, filepath.Join(dir, "broken/instruction.md"), "x")
	writeFile(t, filepath.Join(dir, "docs/README.md"), "x")
	writeFile(t, filepath.Join(dir, "README.md"), "x")
	writeFile(t, filepath.Join(dir, ".git/HEAD"), "0123456789abcdef0123456789abcdef01234567")
	for link, target := range map[string]string{"linked": "sub/inner", ".gone": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}

	t.Chdir(filepath.Dir(dir))
	s, warnings, err := Load(t.Context(), "", "./set", task.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "set" || s.Dir != dir {
		t.Errorf("name %q, dir %q", s.Name, s.Dir)
	}
	if got, want := strings.Join(names(s), " "), "Z a b broken linked"; got != want {
		t.Errorf("tasks %s, want %s", got, want)
	}
	for _, task := range s.Tasks {
		if broken := task.Err() != nil; broken != (task.Name == "broken") {
			t.Errorf("%s: %v", task.Name, task.Problems)
		}
		if task.GitCommitID == nil {
			t.Errorf("%s has no commit", task.Name)
		}
	}
	want := `set/docs: warning: is not a task and is left out (a task is a directory with task.toml and instruction.md)
set/sub: warning: is not a task and is left out (a task is a directory with task.toml and instruction.md)`
	if warnings.Error() != want {
		t.Errorf("warnings:\n%v\nwant:\n%s", warnings, want)
	}
}

// A directory that may be a task must not disappear: the job would pass with the tasks that are
// left.
func TestLoadRefusesDirectoriesThatMayBeTasks(t *testing.T) {
	loop := func(dir, name string) error {
		return errors.Join(os.MkdirAll(dir, 0o755), os.Symlink(name, filepath.Join(dir, name)))
	}
	for _, tc := range []struct {
		name   string
		change func(dir string) error
		want   string // "": the dataset is loaded
	}{
		{"a link to nowhere", func(dir string) error { return os.Symlink("nowhere", filepath.Join(dir, "gone")) }, "set/gone: cannot be read, so it is not known whether it is a task: no such file or directory (make it readable, or remove it)"},
		{"a link to itself", func(dir string) error { return loop(dir, "loop") }, "set/loop: cannot be read, so it is not known whether it is a task: too many levels of symbolic links (make it readable, or remove it)"},
		{"a task.toml that cannot be read", func(dir string) error { return loop(filepath.Join(dir, "b"), "task.toml") }, "set/b: cannot be read, so it is not known whether it is a task: too many levels of symbolic links (make it readable, or remove it)"},
		{"a directory without permissions", func(dir string) error { return os.Mkdir(filepath.Join(dir, "b"), 0) }, "set/b: cannot be read, so it is not known whether it is a task: permission denied (make it readable, or remove it)"},
		{"a part of a task", func(dir string) error {
			writeFile(t, filepath.Join(dir, "b/tests/test.sh"), "")
			writeFile(t, filepath.Join(dir, "b/environment/Dockerfile"), "")
			return nil
		}, "set/b: has tests/test.sh, environment/Dockerfile, but neither task.toml nor instruction.md: it is a part of a task (add the files that are missing, or remove it)"},
		{"hidden directories", func(dir string) error {
			writeFile(t, filepath.Join(dir, ".b/tests/test.sh"), "")
			return os.Mkdir(filepath.Join(dir, ".c"), 0)
		}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			base := t.TempDir()
			t.Chdir(base)
			writeTask(t, "set/a")
			if err := tc.change("set"); err != nil {
				t.Fatal(err)
			}
			if _, err := os.ReadDir("set/b"); err == nil && strings.Contains(tc.want, "permission denied") {
				t.Skip("this user may read everything")
			}
			s, _, err := Load(t.Context(), "x", "set", task.Options{})
			switch {
			case tc.want == "" && (err != nil || len(s.Tasks) != 1):
				t.Errorf("got %v, %v", s, err)
			case tc.want != "" && (err == nil || err.Error() != tc.want):
				t.Errorf("got %v, %v\nwant %s", s, err, tc.want)
			}
		})
	}
}

func TestLoadRejectsPathsThatAreNoDataset(t *testing.T) {
	base := t.TempDir()
	t.Chdir(base)
	writeTask(t, "task")
	writeTask(t, "repo/tasks/a")
	writeTask(t, "clash/a?b")
	writeTask(t, "clash/a*b")
	writeFile(t, "file", "x")
	if err := os.Mkdir("empty", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, dir, want string }{
		{"a task", "task", "task: is a task, not a directory of tasks (list it under tasks: instead of datasets:)"},
		{"a directory without tasks", "empty", "empty: has no tasks (a task is a directory with task.toml and instruction.md)"},
		{"the parent of a dataset", "repo", "repo: has no tasks (did you mean the directory tasks in it?)"},
		{"a missing directory", "none", "none: the dataset cannot be read: no such file or directory"},
		{"a file", "file", "file: the dataset cannot be read: not a directory"},
		{"tasks with one directory for results", "clash", `clash/a?b: tasks "a*b" and "a?b" would share the result directory "a-b" (rename one of them)`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, _, err := Load(t.Context(), "x", tc.dir, task.Options{})
			var list diag.List
			if s != nil || !errors.As(err, &list) || err.Error() != tc.want {
				t.Errorf("got %v, %v\nwant %s", s, err, tc.want)
			}
		})
	}
}

func TestLoadStopsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	writeTask(t, filepath.Join(dir, "a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, _, err := Load(ctx, "x", dir, task.Options{}); s != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", s, err)
	}
	if s, err := FromPaths(ctx, "x", []string{dir}, task.Options{}); !errors.Is(err, context.Canceled) || len(s.Tasks) > 0 {
		t.Errorf("got %v, %v", s.Tasks, err)
	}
}

func TestFromPathsKeepsTheOrder(t *testing.T) {
	dir := t.TempDir()
	writeTask(t, filepath.Join(dir, "one"))
	writeTask(t, filepath.Join(dir, "deep/two"))
	s, err := FromPaths(t.Context(), "tasks", []string{filepath.Join(dir, "none"), filepath.Join(dir, "deep/two"), filepath.Join(dir, "one")}, task.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(s), []string{"none", "two", "one"}; !reflect.DeepEqual(got, want) || s.Name != "tasks" || s.Dir != "" {
		t.Fatalf("%q in %q: %v, want %v", s.Name, s.Dir, got, want)
	}
	if !s.Tasks[0].Missing || s.Tasks[1].Missing || s.Tasks[1].Err() != nil {
		t.Errorf("missing: %v, %v; problems %v", s.Tasks[0].Missing, s.Tasks[1].Missing, s.Tasks[1].Problems)
	}
}

func TestFilter(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"build-a", "build-b", "fix-a", "odd[name"} {
		writeTask(t, filepath.Join(dir, name))
	}
	s, _, err := Load(t.Context(), "x", dir, task.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name             string
		include, exclude []string
		want             string
	}{
		{"no patterns select all", nil, nil, "build-a build-b fix-a odd[name"},
		{"include selects", []string{"build-*"}, nil, "build-a build-b"},
		{"several patterns add up", []string{"build-a", "fix-?"}, nil, "build-a fix-a"},
		{"exclude wins", []string{"build-*"}, []string{"*-b"}, "build-a"},
		{"exclude alone", nil, []string{"*-a"}, "build-b odd[name"},
		{"nothing matches", []string{"none"}, nil, ""},
		{"a name that is no pattern matches itself", []string{"odd[name"}, nil, "odd[name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := s.Filter(tc.include, tc.exclude)
			if strings.Join(names(got), " ") != tc.want || got.Name != "x" || got.Dir != dir {
				t.Errorf("%q in %q: %v, want %s", got.Name, got.Dir, names(got), tc.want)
			}
			if len(s.Tasks) != 4 {
				t.Error("Filter changed its receiver")
			}
		})
	}
}

// BenchmarkLoad2000 loads a large dataset inside a git repository. The goal is less than a second.
func BenchmarkLoad2000(b *testing.B) {
	dir := b.TempDir()
	for i := range 2000 {
		writeTask(b, filepath.Join(dir, "tasks", fmt.Sprintf("task-%04d", i)))
	}
	writeFile(b, filepath.Join(dir, ".git/HEAD"), "ref: refs/heads/main\n")
	writeFile(b, filepath.Join(dir, ".git/refs/heads/main"), "0123456789abcdef0123456789abcdef01234567\n")
	for b.Loop() {
		s, warnings, err := Load(b.Context(), "tasks", filepath.Join(dir, "tasks"), task.Options{})
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
