package merge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// record is merge.json: the shards that a job was merged from.
type record struct {
	PlanDigest string        `json:"plan_digest"`
	Moved      bool          `json:"moved,omitempty"` // the trials are no longer in the shards
	Total      int           `json:"total"`
	Shards     []recordShard `json:"shards"`
	Incomplete []string      `json:"incomplete"`
}

type recordShard struct {
	Index     int       `json:"index"`
	Folder    string    `json:"folder"`
	StartedAt time.Time `json:"started_at"`
	Trials    int       `json:"trials"`  // in its part of the plan
	Results   int       `json:"results"` // that are readable
}

// maxMergeFile limits merge.json, in bytes; a thousand shards need a tenth of it.
const maxMergeFile = 4 << 20

// Missing returns a sentence for each shard or result that was missing when a job's directory was
// merged. The sentences are safe to print. Reports need them because the trials' results may not
// show it. It returns nil if no merge made the directory.
func Missing(dir string) []string {
	path := filepath.Join(dir, result.MergeFile)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var made record
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxMergeFile) {
		err = errors.New("it is not a file that a merge wrote")
	}
	if err == nil {
		var data []byte
		if data, err = os.ReadFile(path); err == nil {
			err = bounded.Unmarshal(data, &made)
		}
	}
	if err != nil {
		return []string{untrusted.Line(fmt.Sprintf("%s cannot be read, so Rollout does not know whether the merge was complete: %v", result.MergeFile, err))}
	}
	var out []string
	for _, sentence := range made.Incomplete[:min(len(made.Incomplete), maxSentences)] {
		out = append(out, untrusted.Line(sentence))
	}
	return out
}
