package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// attempts bounds how often the top group is created again when other processes remove it: an
// attempt fails only if another process removes its last group in the same microseconds.
const attempts = 50

// removeTimeout is how long Remove waits for killed processes.
const removeTimeout = 2 * time.Second

// Group contains the processes of one sandbox. It has a control group in each hierarchy that a
// limit needs, and none without limits. Its methods must not be called concurrently.
type Group struct {
	tree   *Tree
	dirs   []string
	places []place // of dirs, in the same order
	pids   string  // the file with the limit of processes; "": not limited
	memory string  // where out-of-memory kills are counted; "": not limited
}

// New makes a group with limits. id consists of letters, digits, _ and -, and must be unique; the
// alive function of a concurrent Sweep must report it as alive already. unenforced has the names of
// the requested limits that cannot be set, sorted: those of missing controllers, and those whose
// value the kernel refuses. After an error nothing is left. New and Remove together take half a
// millisecond for all limits.
func (t *Tree) New(id string, l Limits) (g *Group, unenforced []string, err error) {
	if !validName(id) {
		return nil, nil, fmt.Errorf("%q cannot name a cgroup: use letters, digits, _ and -", id)
	}
	g = &Group{tree: t}
	for _, limit := range limits {
		p, placed := t.places[limit.name]
		settings := l.settings(limit.name, p.unified)
		if len(settings) == 0 {
			continue
		}
		if placed {
			placed, err = g.limit(p, id, limit.name, settings)
		}
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("make a cgroup for the limit of %s: %w", limit.name, err), g.Remove(context.Background()))
		}
		if !placed {
			unenforced = append(unenforced, limit.name)
		}
	}
	slices.Sort(unenforced)
	return g, unenforced, nil
}

// limit writes the settings in p and reports whether the kernel supports them.
func (g *Group) limit(p place, id, name string, settings []setting) (bool, error) {
	dir := filepath.Join(p.base, g.tree.top, id)
	if !slices.Contains(g.dirs, dir) {
		if err := g.tree.makeGroup(p, dir); err != nil {
			return false, err
		}
		g.dirs, g.places = append(g.dirs, dir), append(g.places, p)
	}
	for _, s := range settings {
		err := g.tree.set(p, filepath.Join(dir, s.file), s.value, s.optional)
		switch {
		case gone(err) && s.optional:
		case gone(err), errors.Is(err, syscall.EINVAL): // version 1 refuses more processor time than a group above has
			return false, nil
		case err != nil:
			return false, err
		}
	}
	switch name {
	case Memory:
		g.memory = dir
	case Pids:
		g.pids = filepath.Join(dir, settings[0].file)
	}
	return true, nil
}

// makeGroup creates dir in p's top group, and the top group if it does not exist.
func (t *Tree) makeGroup(p place, dir string) error {
	var err error
	for range attempts {
		if err = t.files.mkdir(dir); errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w: every group needs a unique id, and Sweep removes the groups of dead runs", err)
		}
		if !gone(err) {
			return err
		}
		if err := t.prepare(p); err != nil && !gone(err) {
			return err
		}
	}
	return err
}

// prepare creates the top group. Another process may remove it at any time while it is empty; gone
// then reports true for the error.
func (t *Tree) prepare(p place) error {
	if p.unified {
		// The system's manager may have disabled unused controllers. A refusal shows in the missing
		// files below.
		_ = t.enable(p.base, p.controllers)
	}
	top := filepath.Join(p.base, t.top)
	if err := t.files.mkdir(top); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if p.unified {
		return t.enable(top, p.controllers)
	}
	return nil
}

// set writes value. If a required file is missing, another process may have created the top group
// of version 2 but not prepared it yet.
func (t *Tree) set(p place, file, value string, optional bool) error {
	err := t.files.write(file, value)
	if gone(err) && p.unified && !optional && t.prepare(p) == nil {
		err = t.files.write(file, value)
	}
	return err
}

// Add moves a process into the group. Processes that it starts later are in the group; earlier ones
// are not. In version 1 the kernel can take some 15 ms, if no process was moved to any group for a
// while.
func (g *Group) Add(pid int) error {
	for _, dir := range g.dirs {
		if err := g.tree.files.write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("put process %d into its cgroup: %w", pid, err)
		}
	}
	return nil
}

// OpenTasks opens the "tasks" files of the group in version 1. A thread that writes "0" to one of
// them enters that hierarchy's group, and so do the processes that it starts; the other threads of
// its process do not. Moving a single thread is cheap, unlike Add. The caller closes the files.
// Version 2 cannot move single threads: see AddUnified.
func (g *Group) OpenTasks() ([]*os.File, error) {
	var files []*os.File
	for i, dir := range g.dirs {
		if g.places[i].unified {
			continue
		}
		file, err := os.OpenFile(filepath.Join(dir, "tasks"), os.O_WRONLY, 0)
		if err != nil {
			for _, d := range files {
				d.Close()
			}
			return nil, fmt.Errorf("open a cgroup's list of threads: %w", err)
		}
		files = append(files, file)
	}
	return files, nil
}

// AddUnified moves a process into the version 2 groups of g. It reports whether there are any.
func (g *Group) AddUnified(pid int) (bool, error) {
	only := Group{tree: g.tree}
	for i, dir := range g.dirs {
		if g.places[i].unified {
			only.dirs = append(only.dirs, dir)
		}
	}
	return len(only.dirs) > 0, only.Add(pid)
}

// SetPids changes the limit of processes and threads, if there is one.
func (g *Group) SetPids(n int64) error {
	if g.pids == "" {
		return nil
	}
	return g.tree.files.write(g.pids, strconv.FormatInt(n, 10))
}

// Processes returns the number of processes and threads, and their limit; 0, 0 without a limit.
func (g *Group) Processes() (n, limit int64, err error) {
	if g.pids == "" {
		return 0, 0, nil
	}
	for file, to := range map[string]*int64{filepath.Join(filepath.Dir(g.pids), "pids.current"): &n, g.pids: &limit} {
		text, err := g.tree.files.read(file)
		if err == nil && strings.TrimSpace(text) != "max" {
			*to, err = strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		}
		if err != nil {
			return 0, 0, fmt.Errorf("count processes: %w", err)
		}
	}
	return n, limit, nil
}

// OOMKills returns how many processes the kernel killed because the group was out of memory. It
// returns 0 if memory is not limited or the kernel does not count (before 4.13).
func (g *Group) OOMKills() (int, error) {
	if g.memory == "" {
		return 0, nil
	}
	file := "memory.oom_control"
	if g.tree.places[Memory].unified {
		file = "memory.events"
	}
	text, err := g.tree.files.read(filepath.Join(g.memory, file))
	if err != nil {
		return 0, fmt.Errorf("count out-of-memory kills: %w", err)
	}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "oom_kill" {
			return strconv.Atoi(fields[1])
		}
	}
	return 0, nil
}

// Remove removes the group, and the top group if it was the last. Its processes must have been
// killed: Remove waits for their end, for at most 2 s or until ctx ends. It may be called again.
func (g *Group) Remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	var errs []error
	for i, dir := range g.dirs {
		if err := g.tree.removeGroup(ctx, dir); err != nil {
			errs = append(errs, fmt.Errorf("remove cgroup: %w", err))
			continue
		}
		g.tree.files.rmdir(filepath.Join(g.places[i].base, g.tree.top)) //nolint:errcheck // other groups may be in it
	}
	return errors.Join(errs...)
}

// removeGroup retries while processes are in dir, with pauses that grow from 1 ms to 50 ms. It
// tries once even if ctx has ended.
func (t *Tree) removeGroup(ctx context.Context, dir string) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := t.files.rmdir(dir)
		switch {
		case err == nil || gone(err):
			return nil
		case !busy(err):
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (processes in it: %s)", err, strings.Join(readWords(t.files, filepath.Join(dir, "cgroup.procs")), " "))
		case <-time.After(pause):
		}
	}
}
