package rerun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/linktree"
	"github.com/org/rollout-action/internal/run/trial"
)

// withEvidence is a Runner that adds the output of the earlier trial's agent to the new results.
type withEvidence struct {
	job.Runner
	dir       string              // of the earlier job
	artifacts map[result.Key]bool // the trials that begin with the earlier trials' artifacts
}

// Run implements job.Runner.
func (w withEvidence) Run(ctx context.Context, spec trial.Spec, dir string) trial.Outcome {
	var failed []string
	link := func(below ...string) {
		if err := w.link(spec.Key, dir, below); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, fmt.Sprintf("%s/ of the earlier trial could not be copied: %v", path.Join(below...), err))
		}
	}
	link(result.SetupDir)
	link(result.CommandDir)
	if w.artifacts[spec.Key] {
		again := *spec.Again
		again.Artifacts = unreadable{}
		if root, err := os.OpenRoot(w.dir); err == nil { // links cannot lead out of it
			defer root.Close()
			if below, err := fs.Sub(root.FS(), spec.Key.Dir()); err == nil {
				again.Artifacts = below
			}
		}
		spec.Again = &again
	}
	out := w.Runner.Run(ctx, spec, dir)
	for i, step := range out.Trial.Steps { // those that count by the new rewards
		switch {
		case result.StepDir(step.Name) == "" || i >= len(spec.Again.Steps):
		case spec.Again.Steps[i].Ended:
			link(result.StepsDir, step.Name)
		default:
			link(result.StepsDir, step.Name, result.SetupDir)
			link(result.StepsDir, step.Name, result.CommandDir)
		}
	}
	out.Trial.Warnings = append(out.Trial.Warnings, failed...)
	return out
}

// unreadable is a directory that cannot be read.
type unreadable struct{}

// Open implements fs.FS.
func (unreadable) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

// link links a directory below that of the earlier trial to the same place below dir.
func (w withEvidence) link(key result.Key, dir string, below []string) error {
	source, err := nofollow.OpenDirBelow(w.dir, append(strings.Split(key.Dir(), "/"), below...)...)
	if err != nil {
		return err
	}
	defer source.Close()
	parent := below[:len(below)-1]
	if err := os.MkdirAll(filepath.Join(dir, filepath.Join(parent...)), 0o755); err != nil {
		return err
	}
	target, err := nofollow.OpenDirBelow(dir, parent...)
	if err != nil {
		return err
	}
	defer target.Close()
	return new(linktree.Linker).Link(source, target, below[len(below)-1])
}
