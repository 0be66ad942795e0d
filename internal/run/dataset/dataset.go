package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/foreign"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Set is a named collection of tasks.
type Set struct {
	Name        string
	Version     string // in its registry; "" if it has none
	Format      task.Format
	Dir         string // absolute path of the directory; "" for a list of paths, or a dataset of a registry
	Tasks       []*task.Task
	All         []string // the names of all its tasks, selected or not; nil: those of Tasks
	Directories []string // the directories of all tasks that were read, selected or not; nil: those of Tasks
}

// Load reads the tasks in directory dir, sorted by name. Every subdirectory that looks like a task
// (task.Look) is one, valid or not (see task.Task.Problems). An empty name stands for the
// name of the directory.
//
// The diagnostics are warnings about subdirectories that are left out because they are no tasks;
// hidden ones are not mentioned. The error is a diag.List if the directory is no dataset: it cannot
// be read, has no tasks, is a task itself, has a subdirectory that cannot be read or that is a part
// of a task, or has two tasks whose results would share a directory. Any other error is that of ctx
// or a fault of this machine (environment.MachineError), which says nothing about the dataset.
func Load(ctx context.Context, name, dir string, opts task.Options) (*Set, diag.List, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("resolve dataset %s: %w", dir, err)
	}
	if name == "" {
		name = filepath.Base(abs)
	}
	problem := func(message, hint string) (*Set, diag.List, error) {
		return nil, nil, diag.List{{File: dir, Message: message, Hint: hint}}
	}
	entries, err := os.ReadDir(abs)
	if fault := environment.MachineFault(environment.MarkMachineError(err)); fault != nil {
		return nil, nil, fmt.Errorf("read dataset %s: %w", dir, fault)
	}
	if err != nil {
		return problem("the dataset cannot be read: "+reason(err), "")
	}
	if is, err := isTask(dir); err != nil {
		return nil, nil, err
	} else if is {
		return problem("is a task, not a directory of tasks", "list it under tasks: instead of datasets:")
	}
	dirs, notes, err := taskDirs(dir, entries)
	if err != nil {
		return nil, nil, err
	}
	if broken := notes.Errors(); len(broken) > 0 {
		return nil, nil, broken
	}
	if len(dirs) == 0 {
		return problem("has no tasks", cmp.Or(git.SubmoduleHint(abs), emptyHint(dir, entries)))
	}
	s := &Set{Name: name, Dir: abs, Format: cmp.Or(opts.Format, task.FormatRollout)}
	if s.Tasks, err = loadAll(ctx, dirs, opts); err != nil {
		return nil, nil, err
	}
	if clashes := slugClashes(dir, s.Tasks); len(clashes) > 0 {
		return nil, nil, clashes
	}
	return s, notes, nil
}

// FromPaths returns the anonymous dataset of the tasks at dirs, in that order. A path without a
// task gives a task with Missing set. It does not look for equal names, as names may also clash
// with other datasets. The error is that of ctx, or a fault of this machine.
func FromPaths(ctx context.Context, name string, dirs []string, opts task.Options) (*Set, error) {
	tasks, err := loadAll(ctx, dirs, opts)
	return &Set{Name: name, Format: cmp.Or(opts.Format, task.FormatRollout), Tasks: tasks}, err
}

// Names returns the names of all tasks of the dataset, selected or not.
func (s *Set) Names() []string {
	if s.All != nil {
		return s.All
	}
	names := make([]string, len(s.Tasks))
	for i, t := range s.Tasks {
		names[i] = t.Name
	}
	return names
}

// Filter returns a copy of the set with the tasks whose names match one of include (all tasks if it
// is empty) and none of exclude. Patterns are those of path.Match; a malformed one matches only
// itself.
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

// taskDirs returns the directories among entries that look like tasks, and notes about the others:
// warnings about those that are left out, and errors about those that may be tasks, but cannot be
// read or lack files. The error is a fault of this machine.
func taskDirs(dir string, entries []fs.DirEntry) (dirs []string, notes diag.List, err error) {
	for _, e := range entries {
		sub := filepath.Join(dir, e.Name())
		hidden := strings.HasPrefix(e.Name(), ".")
		// Follow links to directories: a dataset may consist of links.
		info, err := os.Stat(sub)
		if err == nil && !info.IsDir() {
			continue
		}
		is, parts := false, []string(nil)
		if err == nil {
			is, parts, err = task.Look(os.DirFS(sub), ".")
		}
		note := diag.Diagnostic{File: sub, Severity: diag.Warning, Message: "is not a task and is left out", Hint: taskHint}
		switch fault := environment.MachineFault(environment.MarkMachineError(err)); {
		case fault != nil:
			return nil, nil, fmt.Errorf("read dataset %s: %w", dir, fault)
		case is:
			dirs = append(dirs, sub)
			continue
		case err != nil:
			note.Severity, note.Message, note.Hint = diag.Error, "cannot be read, so it is not known whether it is a task: "+reason(err), "make it readable, or remove it"
		case len(parts) > 0:
			note.Severity, note.Message = diag.Error, "has "+strings.Join(parts, ", ")+", but neither task.toml nor instruction.md: it is a part of a task"
			note.Hint = "add the files that are missing, or remove it"
		default:
			note.Hint = cmp.Or(git.SubmoduleHint(sub), note.Hint)
		}
		if !hidden {
			notes = append(notes, note)
		}
	}
	return dirs, notes, nil
}

const taskHint = "a task is a directory with task.toml and instruction.md"

// emptyHint names the first directory in dir that is a dataset.
func emptyHint(dir string, entries []fs.DirEntry) string {
	for _, e := range entries {
		if of, ok := foreignFile(filepath.Join(dir, e.Name()), e); ok {
			return untrusted.Line(e.Name()) + " in it is " + of.Is + ": " + of.WayOut
		}
	}
	for _, e := range entries {
		sub := filepath.Join(dir, e.Name())
		inner, err := os.ReadDir(sub)
		if err != nil {
			continue
		}
		if dirs, _, err := taskDirs(sub, inner); err == nil && len(dirs) > 0 {
			return fmt.Sprintf("did you mean the directory %s in it?", e.Name())
		}
	}
	return taskHint
}

// foreignFile returns the kind of a plain file of another tool; see foreign.File.
func foreignFile(name string, e fs.DirEntry) (of foreign.Kind, ok bool) {
	if !e.Type().IsRegular() {
		return of, false
	}
	f, err := os.Open(name)
	if err != nil {
		return of, false
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, foreign.MaxHead))
	if err != nil {
		return of, false
	}
	return foreign.File(name, head)
}

func isTask(dir string) (bool, error) { return task.IsTask(os.DirFS(dir), ".") }

// loadAll loads tasks in parallel and keeps the order. The error is that of ctx, or a fault of this
// machine.
func loadAll(ctx context.Context, dirs []string, opts task.Options) ([]*task.Task, error) {
	tasks := make([]*task.Task, len(dirs))
	loader := task.Loader{Options: opts}
	work := event.Begin(ctx, "Reading tasks", len(dirs))
	defer work.End()
	var group errgroup.Group
	group.SetLimit(2 * runtime.GOMAXPROCS(0)) // loading is mostly system calls
	for i, dir := range dirs {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			tasks[i] = loader.Load(dir)
			work.Step()
			return unread(tasks[i])
		})
	}
	err := cmp.Or(group.Wait(), ctx.Err())
	return slices.DeleteFunc(tasks, func(t *task.Task) bool { return t == nil }), err
}

// unread returns the error of this machine that kept it from reading a task, or nil.
func unread(t *task.Task) error {
	if err := t.ReadError(); err != nil {
		return fmt.Errorf("read the task %s: %w", t.Place(), err)
	}
	return nil
}

// slugClashes returns a problem for each task whose results would be written to another task's
// directory.
func slugClashes(dir string, tasks []*task.Task) diag.List {
	first := map[string]string{}
	var out diag.List
	for _, t := range tasks {
		slug := result.Slug(t.Name)
		if other, taken := first[slug]; taken {
			out = append(out, diag.Diagnostic{
				File:    filepath.Join(dir, t.Name),
				Message: fmt.Sprintf("tasks %q and %q would share the result directory %q", other, t.Name, slug),
				Hint:    "rename one of them",
			})
			continue
		}
		first[slug] = t.Name
	}
	return out
}

// reason returns err without operation and path, which the diagnostic names already.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return err.Error()
}
