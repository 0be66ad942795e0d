package job_test

import (
	"path/filepath"
	"testing"

	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/test/jobtest"
)

// A run that is killed before it has a plan may leave a draft, and the next one begins in its
// directory.
func TestBeginRemovesDrafts(t *testing.T) {
	s := jobtest.New(t)
	s.Write(s.In("main", ".tmp-config.json123"), "{")
	plan, err := job.Record(s.Config, s.Specs, job.RecordOptions{StartedAt: s.Began, Dir: s.Dir})
	s.Check(err)
	lock, err := job.TakeLock(s.In("main"), s.Began)
	s.Check(err)
	tree, err := job.Begin(s.In("main"), lock, s.Config, plan)
	s.Check(err)
	s.Check(tree.Close())
	if drafts, err := filepath.Glob(s.In("main", ".tmp-*")); err != nil || len(drafts) > 0 {
		t.Errorf("left: %v, %v", drafts, err)
	}
}
