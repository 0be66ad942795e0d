package job

import (
	"path/filepath"
	"time"

	"github.com/org/rollout-action/internal/result"
)

// How often metadata.json is written while a job runs: at most every metadataEvery, and so rarely that it takes no more than
// one part of metadataShare of the time.
const (
	metadataEvery = 5 * time.Second
	metadataShare = 50
)

// WriteMetadata writes metadata.json.
func (t *Tree) WriteMetadata(job result.Job) error {
	return result.WriteJSON(filepath.Join(t.Dir, result.MetadataFile), result.MetadataOf(t.Plan, job))
}

// writeMetadata writes metadata.json if it is time to. What cannot be written now is at the end, or said then.
func (r *run) writeMetadata() {
	began := r.Now()
	if began.Before(r.nextMetadata) {
		return
	}
	if !r.nextMetadata.IsZero() { // the first time the file is as new as the job
		_ = r.Tree.WriteMetadata(result.Summarize(r.Tree.Plan, r.counted()))
	}
	ended := r.Now()
	r.nextMetadata = ended.Add(max(metadataEvery, metadataShare*ended.Sub(began)))
}
