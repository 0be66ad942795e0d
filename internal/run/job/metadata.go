package job

import (
	"path/filepath"
	"time"

	"github.com/org/rollout-action/internal/core/result"
)

// While a job runs, metadata.json is written at most every metadataEvery, and seldom enough for
// writing to take at most 1/metadataShare of the time.
const (
	metadataEvery = 5 * time.Second
	metadataShare = 50
)

// WriteMetadata writes metadata.json, the progress of the job for other programs.
func (t *Tree) WriteMetadata(job result.Job) error {
	return result.WriteJSON(filepath.Join(t.Dir, result.MetadataFile), result.MetadataOf(t.Plan, job))
}

// writeMetadata writes metadata.json if the last time is long enough ago. It ignores errors: the
// file is written again at the end, and that error is reported.
func (r *run) writeMetadata() {
	began := r.Now()
	if began.Before(r.nextMetadata) {
		return
	}
	if !r.nextMetadata.IsZero() { // the first file is as new as the job
		_ = r.Tree.WriteMetadata(result.Summarize(r.Tree.Plan, r.counted()))
	}
	ended := r.Now()
	r.nextMetadata = ended.Add(max(metadataEvery, metadataShare*ended.Sub(began)))
}
