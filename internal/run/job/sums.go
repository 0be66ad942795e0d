package job

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/nofollow"
)

// digest is a SHA-256 digest of a file.
type digest = [sha256.Size]byte

// writeSums writes the digests of a shard's result files, plan and configuration: a shard is copied
// between machines, and a merge relies on its results. text is the result.json of job, which is
// about to be written.
func (t *Tree) writeSums(job result.Job, text []byte) error {
	outcomes := job.Results.Clone()
	outcomes.AppendAll(job.Confirmations)
	results, err := t.resultDigests(outcomes)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for _, name := range []string{result.ConfigFile, result.PlanFile} {
		text, err := nofollow.ReadFile(filepath.Join(t.Dir, name), result.MaxJobFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil {
			writeSum(&out, sha256.Sum256(text), name)
		}
	}
	writeSum(&out, sha256.Sum256(text), result.ResultFile)
	for i, o := range outcomes.All() {
		if results[i] != (digest{}) {
			writeSum(&out, results[i], path.Join(o.Dir(), result.ResultFile))
		}
	}
	return result.WriteFile(filepath.Join(t.Dir, result.SumsFile), out.Bytes())
}

// resultDigests returns the digests of trials' result files, in their order; the zero digest for a
// file that is missing.
func (t *Tree) resultDigests(outcomes result.Outcomes) ([]digest, error) {
	digests := make([]digest, outcomes.Len())
	var group errgroup.Group
	group.SetLimit(2 * runtime.GOMAXPROCS(0)) // some wait for the disk
	for i, o := range outcomes.All() {
		group.Go(func() error {
			text, err := nofollow.ReadFile(filepath.Join(t.TrialDir(o.Key), result.ResultFile), result.MaxTrialFile)
			if err == nil {
				digests[i] = sha256.Sum256(text)
			} else if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		})
	}
	return digests, group.Wait()
}

// writeSum writes a line as sha256sum does. Names have no characters that it would escape.
func writeSum(w *bytes.Buffer, sum digest, name string) {
	fmt.Fprintf(w, "%x  %s\n", sum, name)
}
