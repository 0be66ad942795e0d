package dataset

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/task"
)

// Set is a named collection of tasks.
type Set struct {
	Name  string
	Dir   string // absolute path of the folder; "" for a list of paths
	Tasks []*task.Task
}

// Load reads the folder of tasks at dir, sorted by name. Every sub-folder with a task.toml or an
// instruction.md is a task, also a broken one (see task.Task.Problems); the diagnostics are about
// the folder itself, and warn of other sub-folders unless they are hidden. A folder that cannot be
// used as a dataset is a diag.List error: it is missing, empty, a task itself, or has two tasks
// whose results would share a folder. Any other error is the end of ctx.
func Load(ctx context.Context, name, dir string) (*Set, diag.List, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("resolve dataset %s: %w", dir, err)
	}
	problem := func(message, hint string) (*Set, diag.List, error) {
		return nil, nil, diag.List{{File: dir, Message: message, Hint: hint}}
	}
	entries, err := os.ReadDir(abs)
	if err != nil {
		return problem("the dataset cannot be read: "+reason(err), "")
	}
	fsys := os.DirFS(abs)
	if task.IsTask(fsys, ".") {
		return problem("is a task, not a folder of tasks", "list it under tasks: instead of datasets:")
	}
	dirs, warnings := taskDirs(fsys, dir, entries)
	if len(dirs) == 0 {
		return problem("has no tasks", "a task is a folder with task.toml and instruction.md")
	}
	s := &Set{Name: name, Dir: abs, Tasks: loadAll(ctx, dirs)}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if clashes := slugClashes(dir, s.Tasks); len(clashes) > 0 {
		return nil, warnings, clashes
	}
	return s, warnings, nil
}

// FromPaths is the anonymous dataset of the tasks at dirs, in that order. A path with no task gives
// a task with Missing set. When ctx ends, tasks are missing from the end of the set.
func FromPaths(ctx context.Context, name string, dirs []string) *Set {
	return &Set{Name: name, Tasks: loadAll(ctx, dirs)}
}

// Filter is the set with the tasks whose names match one of include (all if that is empty) and none
// of exclude. Patterns are path.Match's; a malformed one matches only itself.
func (s *Set) Filter(include, exclude []string) *Set {
	out := *s
	out.Tasks = nil
	for _, t := range s.Tasks {
		if (len(include) == 0 || matches(include, t.Name)) && !matches(exclude, t.Name) {
			out.Tasks = append(out.Tasks, t)
		}
	}
	return &out
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, _ := path.Match(pattern, name)
		return ok || pattern == name
	})
}

// taskDirs are the folders among entries that look like tasks, below dir.
func taskDirs(fsys fs.FS, dir string, entries []fs.DirEntry) (dirs []string, warnings diag.List) {
	for _, e := range entries {
		// Links to folders are followed: a dataset may be put together of links.
		if info, err := fs.Stat(fsys, e.Name()); err != nil || !info.IsDir() {
			continue
		}
		sub := filepath.Join(dir, e.Name())
		switch {
		case task.IsTask(fsys, e.Name()):
			dirs = append(dirs, sub)
		case !strings.HasPrefix(e.Name(), "."):
			warnings = append(warnings, diag.Diagnostic{
				File: sub, Severity: diag.Warning,
				Message: "is not a task and is left out", Hint: "a task has task.toml and instruction.md",
			})
		}
	}
	return dirs, warnings
}

// loadAll loads in parallel and keeps the order.
func loadAll(ctx context.Context, dirs []string) []*task.Task {
	tasks := make([]*task.Task, len(dirs))
	var loader task.Loader
	var group errgroup.Group
	group.SetLimit(2 * runtime.GOMAXPROCS(0)) // loading is mostly system calls
	for i, dir := range dirs {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			tasks[i] = loader.Load(dir)
			return nil
		})
	}
	_ = group.Wait() // loading never fails
	return slices.DeleteFunc(tasks, func(t *task.Task) bool { return t == nil })
}

// slugClashes reports tasks whose results would be written to the same folder.
func slugClashes(dir string, tasks []*task.Task) diag.List {
	first := map[string]string{}
	var out diag.List
	for _, t := range tasks {
		slug := result.Slug(t.Name)
		if other, taken := first[slug]; taken {
			out = append(out, diag.Diagnostic{
				File:    filepath.Join(dir, t.Name),
				Message: fmt.Sprintf("tasks %q and %q would share the result folder %q", other, t.Name, slug),
				Hint:    "rename one of them",
			})
			continue
		}
		first[slug] = t.Name
	}
	return out
}

func reason(err error) string {
	if pe, ok := err.(*fs.PathError); ok {
		return pe.Err.Error()
	}
	return err.Error()
}
