package merge

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/nofollow"
	"github.com/org/rollout-action/internal/result"
)

// checkOutput refuses an output that is there already, unless it is an earlier merge of the same plan, or empty.
func (m *merge) checkOutput() error {
	entries, err := os.ReadDir(m.output)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(entries) == 0:
		return nil
	case err != nil:
		return job.Refuse("%s: cannot be the merged job's folder: %v", m.out.Dir, err)
	}
	if made, err := m.earlier(); err == nil {
		m.onlyCopy = made.Moved
		return nil
	}
	return job.Refuse("%s is there already, and no merge of this plan made it: choose another --output, or remove the folder", m.out.Dir)
}

// earlier is what an earlier merge of the same plan noted in the output. The error says that there was none.
func (m *merge) earlier() (made record, err error) {
	text, err := nofollow.ReadFile(filepath.Join(m.output, result.MergeFile), maxMergeFile)
	if err == nil {
		err = json.Unmarshal(text, &made)
	}
	if err == nil && made.PlanDigest != m.plan.Digest {
		err = errors.New("it is of another plan")
	}
	return made, err
}

// checkPlace refuses an output that holds one of the shards, which would be removed with what it replaces, and one that is
// in a shard's folder, which would not be left as it is.
func (m *merge) checkPlace() error {
	if base := filepath.Base(m.out.Dir); base == "." || base == ".." {
		return job.Refuse("%s: cannot be the merged job's folder: give the name of one that can be made, or replaced", m.out.Dir)
	}
	output, err := job.RealPath(m.output)
	if err != nil {
		return job.Refuse("%s: cannot be the merged job's folder: %v", m.out.Dir, err)
	}
	for _, p := range m.found {
		if within(output, p.from) {
			return job.Refuse("%s holds %s, which would be lost when it is replaced: choose another --output", m.out.Dir, p.label)
		}
		if within(p.from, output) {
			return job.Refuse("%s is in the folder of a shard, %s: choose another --output", m.out.Dir, p.label)
		}
	}
	return nil
}

// within reports whether path is dir or below it. Both are real.
func within(dir, path string) bool {
	below, err := filepath.Rel(dir, path)
	return err == nil && below != ".." && !strings.HasPrefix(below, ".."+string(filepath.Separator))
}

// pathsFrom is result.Plan.PathsFrom of the merged folder, or "" if the job file's folder is not on this machine.
func (m *merge) pathsFrom() string {
	if m.base.from != m.base.dir || m.plan.PathsFrom == "" { // an archive's surroundings are not the job's
		return ""
	}
	dir, err := job.RealPath(m.base.dir)
	if err != nil {
		return ""
	}
	from := filepath.Join(dir, filepath.FromSlash(m.plan.PathsFrom))
	if info, err := os.Stat(from); err != nil || !info.IsDir() {
		return ""
	}
	below, err := job.PathsFrom(m.output, from)
	if err != nil {
		return ""
	}
	return below
}

// decideMove turns moving off where the shards will be needed again.
func (m *merge) decideMove() {
	if !m.opts.Move {
		return
	}
	whole := 0
	for _, p := range m.parts {
		if p.state == complete {
			whole++
		}
	}
	if whole < m.total {
		m.opts.Move = false
		m.note("the shards are left as they are, in spite of --move: not all of them are there and complete, and the next merge needs these")
	}
}

// checkReplaced refuses to replace a folder that has the only results of some trials.
func (m *merge) checkReplaced(out *outcomes) error {
	if !m.onlyCopy {
		return nil
	}
	for i, key := range m.keys {
		if out.there[i] {
			continue
		}
		if _, err := os.Lstat(filepath.Join(m.output, filepath.FromSlash(key.Dir()), result.ResultFile)); err == nil {
			return job.Refuse("%s has the result of %s, which was moved out of its shard and is not in what is merged now: choose another --output, or remove the folder",
				m.out.Dir, key)
		}
	}
	return nil
}
