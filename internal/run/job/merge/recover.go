package merge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/run/job"
)

// scratch is a merge's directory for unfinished files, next to the output. Its name begins with a
// dot, so merges do not search it and artifacts leave it out. Its lock shows whether the merge
// still runs.
type scratch struct {
	dir  string
	lock *job.Lock
	keep bool // it has trials that exist nowhere else
}

const (
	scratchPrefix = ".rollout-merge-"
	journalName   = "merge-began.json"
	draftName     = "job"
	oldName       = "old" // the previous output
)

func makeScratch(parent string) (*scratch, error) {
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, fmt.Errorf("create the directory to merge into: %w", err)
	}
	for n := 0; ; n++ {
		dir, err := os.MkdirTemp(parent, scratchPrefix)
		if err != nil {
			return nil, fmt.Errorf("create a directory for the merge: %w", err)
		}
		lock, err := job.TakeLock(dir, time.Now())
		if err == nil {
			return &scratch{dir: dir, lock: lock}, nil
		}
		if n == 10 || !errors.Is(err, fs.ErrNotExist) { // another merge removed it before it was locked
			return nil, errors.Join(fmt.Errorf("lock the merge's directory: %w", err), os.RemoveAll(dir))
		}
	}
}

// remove removes the directory, unless it has to be kept, and releases the lock.
func (s *scratch) remove() error {
	if s == nil {
		return nil
	}
	if s.keep {
		return s.lock.Release()
	}
	return errors.Join(os.RemoveAll(s.dir), s.lock.Release()) // in this order, so that no other merge recovers it meanwhile
}

// journal is written into a merge's scratch directory before any trial is moved, for the next merge
// if this one is killed.
type journal struct {
	Output     string         `json:"output"` // without links
	PlanDigest string         `json:"plan_digest"`
	Moves      bool           `json:"moves"`
	Shards     []journalShard `json:"shards"`
}

// journalShard is the place that the trials of a shard come from. Dir is empty for a shard from an
// archive, which can be unpacked again.
type journalShard struct {
	Index int    `json:"index"`
	Dir   string `json:"dir,omitempty"` // without links
}

// begin writes the journal.
func (m *merge) begin() (journal, error) {
	output, err := job.RealPath(m.output)
	if err != nil {
		return journal{}, err
	}
	j := journal{Output: output, PlanDigest: m.plan.Digest, Moves: m.opts.Move}
	for _, p := range m.parts {
		s := journalShard{Index: p.index}
		if p.from == p.dir {
			if s.Dir, err = job.RealPath(p.dir); err != nil {
				return j, err
			}
		}
		j.Shards = append(j.Shards, s)
	}
	return j, result.WriteJSON(filepath.Join(m.scratch.dir, journalName), j)
}

// undo moves the trials in a draft back to their shards. If that fails, it keeps the draft, and the
// error names it.
func (m *merge) undo(j journal, draft string) error {
	err := m.moveBack(j, draft)
	if err == nil {
		return nil
	}
	m.scratch.keep = true
	return fmt.Errorf("trials that were moved out of their shards are in %s, and could not be moved back (merge again, which tries to): %w", draft, err)
}

// moveBack moves the trials in a draft to their original places. If a shard still has a trial, the
// draft has only links to its files, and the shard's stays. moveBack follows no link.
func (m *merge) moveBack(j journal, draft string) error {
	dirs := map[int]string{}
	for _, s := range j.Shards {
		dirs[s.Index] = s.Dir
	}
	root, err := nofollow.OpenDir(draft)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	groups := m.groups
	if groups == nil { // write has released them
		if groups, err = groupsOf(m.keys); err != nil {
			return err
		}
	}
	return nofollow.EachDir(root, func(agentName string, agent *os.File) error {
		return nofollow.EachDir(agent, func(datasetName string, dataset *os.File) error {
			g := groups[path.Join(agentName, datasetName)]
			if g == nil {
				return nil // no trials of the plan
			}
			names, err := dataset.Readdirnames(-1)
			if err != nil {
				return err
			}
			targets := map[int]*os.File{}
			defer func() {
				for _, t := range targets {
					_ = t.Close() // was only read
				}
			}()
			for _, name := range names {
				i, ok := g.find(name)
				if !ok || dirs[m.shardOf[i]] == "" {
					continue
				}
				target := targets[m.shardOf[i]]
				if target == nil {
					if target, err = nofollow.OpenDirBelow(dirs[m.shardOf[i]], agentName, datasetName); err != nil {
						return err
					}
					targets[m.shardOf[i]] = target
				}
				err := nofollow.Rename(dataset, name, target)
				if err != nil && !errors.Is(err, fs.ErrExist) { // also a directory that is not empty
					return err
				}
			}
			return nil
		})
	})
}

// linkAgain moves the trials back and links them instead, after results turned out to be missing:
// the next merge needs the shards.
func (m *merge) linkAgain(ctx context.Context, j journal, draft string) (*outcomes, error) {
	if err := m.moveBack(j, draft); err != nil {
		return nil, err
	}
	for _, b := range m.batched {
		if err := os.RemoveAll(filepath.Join(draft, b.group.agent)); err != nil {
			return nil, err
		}
	}
	m.opts.Move, m.skipped = false, m.unpackSkipped
	return m.linkTrials(ctx, draft)
}

// whole reports whether every planned trial has a result and all results can be read.
func (o *outcomes) whole(plan result.Plan) bool {
	for i, key := range plan.Trials.All() {
		if !o.has(i) && !plan.Rounds.Leaves(key) {
			return false
		}
	}
	return len(o.errs) == 0
}

// alreadyMoved reports whether an earlier merge moved the trials of these shards into the output.
// Trials that are still in the shards are in the output, too.
func (m *merge) alreadyMoved() bool {
	if !m.onlyCopy {
		return false
	}
	left := 0
	for _, b := range m.batched {
		left += len(b.trials)
		for _, i := range b.trials {
			below := filepath.Join(filepath.FromSlash(m.keys.At(int(i)).Dir()), result.ResultFile)
			ours, err := nofollow.ReadFile(filepath.Join(m.output, below), result.MaxTrialFile)
			theirs, err2 := nofollow.ReadFile(filepath.Join(b.part.dir, below), result.MaxTrialFile)
			if err != nil || err2 != nil || !bytes.Equal(ours, theirs) {
				return false
			}
		}
	}
	return left < m.plan.Trials.Len() && len(m.parts) == m.total
}

// reread returns the result that an earlier merge wrote.
func (m *merge) reread() error {
	made, err := m.earlier()
	if err != nil {
		return err
	}
	m.groups, m.batched = nil, nil
	tree, err := result.ReadPackedTree(m.output)
	if err != nil {
		return err
	}
	m.out.Tree = tree
	m.out.Job, m.out.Groups = tree.Summarize()
	m.out.Shards, m.out.Merged, m.out.Incomplete = m.total, len(made.Shards), Missing(m.output)
	m.note("%s has all trials of these shards already: an earlier merge has moved them there", m.out.Dir)
	return nil
}

// recoverKilled searches for the scratch directories of killed merges next to the output. It moves
// the trials that they had moved back, so that they are merged now, and removes drafts. It does not
// touch the files of a running merge, or of a merge of other shards.
func (m *merge) recoverKilled() error {
	entries, err := os.ReadDir(m.parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for files of killed merges: %w", err)
	}
	for _, e := range entries {
		dir := filepath.Join(m.parent, e.Name())
		if !e.IsDir() || !strings.HasPrefix(e.Name(), scratchPrefix) || m.scratch != nil && dir == m.scratch.dir {
			continue
		}
		lock, err := job.TakeLock(dir, time.Now())
		var busy *job.LockedError
		switch {
		case errors.As(err, &busy), errors.Is(err, fs.ErrNotExist): // runs, or has just ended
			continue
		case err == nil && lock.Unguarded != nil:
			err = lock.Unguarded // it may run
		case err == nil:
			err = m.recover(dir)
			if err == nil {
				err = os.RemoveAll(dir)
			}
			err = errors.Join(err, lock.Release())
		}
		if err != nil {
			m.note("%s is from a merge that was killed, and was not removed: %v", dir, err)
		}
	}
	return nil
}

// recover moves the trials in the scratch directory of a killed merge back. After an error the
// directory must stay.
func (m *merge) recover(dir string) error {
	text, err := nofollow.ReadFile(filepath.Join(dir, journalName), maxMergeFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it had moved nothing yet
	}
	var j journal
	if err == nil {
		err = bounded.Unmarshal(text, &j)
	}
	if err != nil {
		return err
	}
	output, err := job.RealPath(m.output)
	if err != nil {
		return err
	}
	old := filepath.Join(dir, oldName)
	ours := j.Output == output && j.PlanDigest == m.plan.Digest && m.hasShardsOf(j)
	if !ours {
		if !j.Moves && !isDir(old) {
			return nil // links only
		}
		if !isDir(filepath.Join(dir, draftName)) && isDir(j.Output) {
			return nil // it was finished, except for the removal
		}
		return fmt.Errorf("it may have trials of shards that were being merged into %s: run that merge again to finish it", j.Output)
	}
	if j.Moves {
		if err := m.moveBack(j, filepath.Join(dir, draftName)); err != nil {
			return err
		}
	}
	if _, err := os.Lstat(output); errors.Is(err, fs.ErrNotExist) && isDir(old) {
		return os.Rename(old, output)
	}
	return nil
}

// hasShardsOf reports whether all shards of a journal are in the current merge. Trials are only
// moved back to these.
func (m *merge) hasShardsOf(j journal) bool {
	dirs := map[string]bool{"": true}
	for _, p := range m.found {
		if real, err := job.RealPath(p.dir); err == nil {
			dirs[real] = true
		}
	}
	for _, s := range j.Shards {
		if !dirs[s.Dir] {
			return false
		}
	}
	return true
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
