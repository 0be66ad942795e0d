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

	"github.com/org/rollout-action/internal/environment"
)

// An environment's folder, env/ID of the store, holds
//
//	meta.json  what List tells
//	init       the process that it runs in: see processOf
//	kept       is there if it was stopped to be kept
//	up/PART/   what it has changed, work/ and root/ as the kernel needs them
//
// It appears in env/ with meta.json in it.

type meta struct {
	Labels map[string]string `json:"labels"`
	Base   *environment.Base `json:"base,omitempty"`
	// Layers, Host and Image are what it stands on: they are in use.
	Layers []string `json:"layers,omitempty"`
	Host   string   `json:"host,omitempty"`  // key of a base
	Image  string   `json:"image,omitempty"` // name of a record
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

// remove ends the environment's processes, whosever they are, and removes its folder. One that is gone, or that
// somebody else removes at this moment, is no error.
func (s *store) remove(ctx context.Context, id string) error {
	dir := s.path("env", id)
	if err := endProcess(ctx, filepath.Join(dir, "init")); err != nil {
		return err
	}
	// It is out of sight at once, even if removing it takes a while or is interrupted.
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

// writeProcess notes which process an environment runs in: its id, and when it started, for ids are used again.
func writeProcess(path string, pid int) error {
	start, err := processStart(pid)
	if err != nil {
		return err
	}
	return os.WriteFile(path, fmt.Appendf(nil, "%d %s", pid, start), 0o600)
}

// endProcess kills the process that a note names, if it still runs, and waits for its end.
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
		return nil //nolint:nilerr // its writer was killed before anything was started
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

// processStart tells a process from all others of this boot: its start time in clock ticks, field 22 of
// /proc/PID/stat. A dead one that nobody waited for yet counts as gone.
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
