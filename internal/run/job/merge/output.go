package merge

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/run/job"
)

// checkOutput refuses an output that exists, unless it is empty or an earlier merge of the same
// plan.
func (m *merge) checkOutput() error {
	entries, err := os.ReadDir(m.output)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(entries) == 0:
		return nil
	case err != nil:
		return job.Refuse("%s: cannot be the merged job's directory: %v", m.out.Dir, err)
	}
	if made, err := m.earlier(); err == nil {
		m.onlyCopy = made.Moved
		return nil
	}
	return job.Refuse("%s exists already, and no merge of this plan made it: choose another --output, or remove the directory", m.out.Dir)
}

// earlier returns the merge.json that an earlier merge of the same plan wrote into the output, and
// an error if there is none.
func (m *merge) earlier() (made record, err error) {
	text, err := nofollow.ReadFile(filepath.Join(m.output, result.MergeFile), maxMergeFile)
	if err == nil {
		err = bounded.Unmarshal(text, &made)
	}
	if err == nil && made.PlanDigest != m.plan.Digest {
		err = errors.New("it is of another plan")
	}
	return made, err
}

// checkPlace refuses an output that contains a shard, which would be removed when the output is
// replaced, and an output in a shard's directory, which must not change.
func (m *merge) checkPlace() error {
	if base := filepath.Base(m.out.Dir); base == "." || base == ".." {
		return job.Refuse("%s: cannot be the merged job's directory: give the name of a directory that can be created or replaced", m.out.Dir)
	}
	output, err := job.RealPath(m.output)
	if err != nil {
		return job.Refuse("%s: cannot be the merged job's directory: %v", m.out.Dir, err)
	}
	for _, p := range slices.Concat(m.found, m.others) {
		if within(output, p.from) {
			return job.Refuse("%s has %s in it, which would be lost when it is replaced: choose another --output", m.out.Dir, p.label)
		}
		if within(p.from, output) {
			return job.Refuse("%s is in the directory of a shard, %s: choose another --output", m.out.Dir, p.label)
		}
	}
	return nil
}

// within reports whether path is dir or below it. Both are without links.
func within(dir, path string) bool {
	below, err := filepath.Rel(dir, path)
	return err == nil && below != ".." && !strings.HasPrefix(below, ".."+string(filepath.Separator))
}

// pathsFrom returns the result.Plan.PathsFrom of the merged job, and "" if the job file's directory
// is not on this machine.
func (m *merge) pathsFrom() string {
	if m.base.from != m.base.dir || m.plan.PathsFrom == "" { // the directory of an archive is not the job's
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

// decideMove turns Options.Move off if the shards will be needed again.
func (m *merge) decideMove() {
	if !m.opts.Move {
		return
	}
	if m.looks() {
		m.opts.Move = false
		m.note("--move was ignored, and the shards are left as they are: they make their attempts in rounds (gate.stop), and the next round needs these")
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
		m.note("--move was ignored, and the shards are left as they are: not all of them are there and complete, and the next merge needs these")
	}
}

// checkReplaced refuses to replace an output that has the only result of a trial.
func (m *merge) checkReplaced(out *outcomes) error {
	if !m.onlyCopy {
		return nil
	}
	for i, key := range m.keys.All() {
		if out.trials[i].There() {
			continue
		}
		if _, err := os.Lstat(filepath.Join(m.output, filepath.FromSlash(key.Dir()), result.ResultFile)); err == nil {
			return job.Refuse("%s has the result of %s, which was moved out of its shard and is in none of the shards given now: choose another --output, or remove the directory",
				m.out.Dir, key)
		}
	}
	return nil
}
