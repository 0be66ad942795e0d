package resume

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/merge"
)

// Finish writes the files that a run writes at its end, for a job without pending trials. Files
// that are there and correct stay as they are.
func (j Job) Finish(cfg config.Job, now result.Plan, earlier []result.Trial, prompt func(dataset, task string) []result.Message) error {
	plan := j.plan(now)
	if err := j.replace(cfg, plan); err != nil {
		return err
	}
	if err := job.RemoveDrafts(j.Dir); err != nil { // a kill while the plan was replaced leaves one, although everything else is correct
		return err
	}
	summary := result.Summarize(plan, earlier)
	text, err := result.Marshal(summary)
	if err != nil {
		return err
	}
	metadata, err := result.Marshal(job.MetadataOf(plan, summary))
	if err != nil {
		return err
	}
	if !j.says(result.ResultFile, text) || !j.says(result.MetadataFile, metadata) || !j.hasOutputs(len(earlier)) || !j.hasSums() {
		if err := job.WriteEnd(j.Dir, plan, summary, earlier, prompt); err != nil {
			return err
		}
	}
	planned := slices.DeleteFunc(slices.Clone(earlier), func(t result.Trial) bool { return t.Confirmation })
	if len(planned) == plan.Own().Len() && len(merge.Missing(j.Dir)) > 0 { // trials that were missing at the merge have been run here
		return os.Remove(filepath.Join(j.Dir, result.MergeFile))
	}
	return nil
}

// says reports whether a file of the job consists of exactly this text.
func (j Job) says(name string, text []byte) bool {
	was, err := nofollow.ReadFile(filepath.Join(j.Dir, name), result.MaxJobFile)
	return err == nil && bytes.Equal(was, text)
}

// hasSums reports whether a shard has digests. Older versions did not write them, and they are
// removed when the plan or the configuration changes. Other jobs need none.
func (j Job) hasSums() bool {
	_, err := os.Lstat(filepath.Join(j.Dir, result.SumsFile))
	return j.Plan.Shard == nil || err == nil
}

// hasOutputs reports whether outputs.jsonl has want lines. Some are missing if the disk was full.
func (j Job) hasOutputs(want int) bool {
	f, err := nofollow.Open(filepath.Join(j.Dir, result.OutputsFile))
	if err != nil {
		return false
	}
	defer f.Close()
	lines, whole, buffer := 0, true, make([]byte, 1<<16)
	for {
		n, err := f.Read(buffer)
		lines += bytes.Count(buffer[:n], []byte("\n"))
		if n > 0 {
			whole = bytes.HasSuffix(buffer[:n], []byte("\n"))
		}
		if err != nil {
			return errors.Is(err, io.EOF) && lines == want && whole
		}
	}
}
