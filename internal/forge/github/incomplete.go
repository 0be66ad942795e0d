package github

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/org/rollout-action/internal/core/result"
)

// lacksTrials reports whether a result is that of a part of a job: of one shard, or of a job whose
// trials did not all run to their end.
func lacksTrials(path string) bool {
	job, _, err := result.ReadJob(path)
	return err == nil && (job.SkippedTrials > 0 || job.Cancelled || job.Shard != nil)
}

// setAside keeps a result that lacks trials, if it is the nearest, for the case that there is no
// complete one.
func (s *search) setAside(found Found) error {
	if s.incomplete != nil {
		return os.Remove(found.Path)
	}
	aside := filepath.Join(s.dir, ".incomplete.json")
	if err := os.Rename(found.Path, aside); err != nil {
		return err
	}
	found.Path = aside
	s.incomplete = &found
	return nil
}

// orIncomplete returns the outcome of a search, or the result that was set aside if the search
// found nothing.
func (s *search) orIncomplete(ctx context.Context, found Found, err error) (Found, error) {
	if s.incomplete == nil {
		return found, err
	}
	if err == nil {
		found.Newer, found.NewerCommit = s.incomplete.RunID, s.incomplete.Commit
		return found, os.Remove(s.incomplete.Path)
	}
	if ctx.Err() != nil || !errors.Is(err, ErrNoBaseline) { // a complete one may be there
		return found, err
	}
	found = *s.incomplete
	found.Path = filepath.Join(s.dir, result.ResultFile)
	return found, os.Rename(s.incomplete.Path, found.Path)
}
