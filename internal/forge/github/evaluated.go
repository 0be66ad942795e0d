package github

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/org/rollout-action/internal/core/result"
)

// errElsewhere means that a run evaluated another commit than a baseline of the branch has.
var errElsewhere = errors.New("the run evaluated another commit")

// evaluatedBranch returns errElsewhere if the result of a run is not one of the base branch. A run
// belongs to a branch because its workflow file came from there, but the workflow may have checked
// out anything, for example the branch of a stranger that somebody named as the input of a manual
// run. The result records the commit that it did check out; without one, the run's counts.
//
// A manual run has to have evaluated the commit that it ran on. Pushes and schedules have no
// inputs, so only the branch's own workflow chooses their commit: it may be another one of the
// branch (the workflow commits before it evaluates, or checks out the newest one), or that of
// another repository, which GitHub does not know here.
func (s *search) evaluatedBranch(ctx context.Context, r run, path string) error {
	job, err := result.ReadJobHead(filepath.Dir(path))
	if err != nil || job.Commit == nil || *job.Commit == r.sha {
		return nil //nolint:nilerr // whoever reads the result reports that it cannot be read
	}
	of := hash(*job.Commit)
	switch {
	case of == "":
		return fmt.Errorf("%w: its result names no commit, but %.20q", errElsewhere, *job.Commit)
	case r.event == manual:
		return fmt.Errorf("%w: somebody started it on %s, but its result is of %s", errElsewhere, short(r.sha), short(of))
	}
	at := s.base
	if at == "" { // all results of the branch are looked for
		at = s.query.Branch
	}
	base, err := s.common(ctx, at, of)
	if missing(err) { // or there is such a commit, and it has nothing in common with the branch
		if _, err = s.parents(ctx, of); missing(err) {
			return nil
		}
	}
	switch {
	case err != nil && !errors.Is(err, ErrNoBaseline):
		return s.unreadable(err, fmt.Sprintf("whether %s has %s", s.query.Branch, short(of)))
	case base != of:
		return fmt.Errorf("%w: its result is of %s, which %s does not have", errElsewhere, short(of), s.query.Branch)
	}
	return nil
}

// refuse removes a result and records why it is not taken.
func (s *search) refuse(r run, path string, reason error) error {
	s.broken = fmt.Errorf("run %d: %w", r.id, reason)
	for _, name := range []string{path, filepath.Join(filepath.Dir(path), result.VerdictFile)} {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
