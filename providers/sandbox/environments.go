//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/core/environment"
)

// An environment's directory, env/ID of the store, holds
//
//	meta.json  labels and more, for List
//	init       its process 1: see writeProcess
//	kept       exists if it was stopped and kept, or if KeepOutcome made it
//	up/PART/   its changes; the kernel needs work/ and root/ for them
//
// It appears in env/ with meta.json in it.

type meta struct {
	Labels map[string]string `json:"labels"`
	Base   *environment.Base `json:"base,omitempty"`
	// Layers, Host and Image name the parts of the store that it uses.
	Layers []string `json:"layers,omitempty"`
	Host   string   `json:"host,omitempty"`  // key of a base
	Image  string   `json:"image,omitempty"` // name of a record
	// Kept is the environment whose files this one started with.
	Kept string `json:"kept,omitempty"`
	Size int64  `json:"size,omitempty"` // of the files that KeepOutcome kept
}

// List implements environment.Provider.
func (p *Provider) List(context.Context) ([]environment.Listed, error) {
	entries, err := os.ReadDir(p.store.path("env"))
	if err != nil {
		return nil, &environment.Error{Kind: environment.KindUnavailable, Err: err}
	}
	var listed []environment.Listed
	for _, entry := range entries {
		var m meta
		dir := p.store.path("env", entry.Name())
		if readJSON(filepath.Join(dir, "meta.json"), &m) != nil {
			continue // being removed
		}
		listed = append(listed, environment.Listed{
			ID:     entry.Name(),
			Labels: environment.ParseLabels(m.Labels),
			Kept:   exists(filepath.Join(dir, "kept")),
			Size:   m.Size,
		})
	}
	return listed, nil
}

var idPattern = regexp.MustCompile(`^[a-z0-9]+$`)

// Remove implements environment.Provider.
func (p *Provider) Remove(ctx context.Context, id string) error {
	if !idPattern.MatchString(id) {
		return nil // no environment has this name
	}
	if err := p.store.remove(ctx, id); err != nil {
		return &environment.Error{Kind: environment.KindTeardown, Err: fmt.Errorf("remove sandbox %s: %w", id, err)}
	}
	p.store.sweepGroups(p.groups)
	return nil
}

// remove ends the environment's processes, even if another process started them, and removes its
// directory. It returns nil if the environment does not exist or another process removes it at the
// same time.
func (s *store) remove(ctx context.Context, id string) error {
	dir := s.path("env", id)
	if err := endProcess(ctx, filepath.Join(dir, "init")); err != nil {
		return err
	}
	// It is moved at once, even if removing its files takes long or is interrupted.
	d, err := s.draft()
	if err != nil {
		return err
	}
	defer d.discard()
	err = os.Rename(dir, filepath.Join(d.dir, id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// writeProcess records the process of an environment: its id and its start time, because ids are
// reused.
func writeProcess(path string, pid int) error {
	start, err := processStart(pid)
	if err != nil {
		return err
	}
	return os.WriteFile(path, fmt.Appendf(nil, "%d %s", pid, start), 0o600)
}

// endProcess kills the process that writeProcess recorded in note, if it still runs, and waits for
// its end.
func endProcess(ctx context.Context, note string) error {
	text, err := os.ReadFile(note)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var pid int
	var start string
	if _, err := fmt.Sscan(string(text), &pid, &start); err != nil || pid <= 1 {
		return nil //nolint:nilerr // the process that writes it was killed before it started anything
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		now, err := processStart(pid)
		if err != nil || now != start {
			return nil //nolint:nilerr // it has ended
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("end process %d: %w", pid, err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// processStart returns a process's start time in clock ticks, field 22 of /proc/PID/stat. With the
// id it identifies a process until the next boot. For a zombie it returns ESRCH.
func processStart(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	fields := statFields(string(stat))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return "", syscall.ESRCH
	}
	return fields[19], nil
}
