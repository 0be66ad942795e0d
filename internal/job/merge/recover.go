package merge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/nofollow"
	"github.com/org/rollout-action/internal/result"
)

// scratch is a merge's folder for what is not finished, beside its output. Its name begins with a dot: nobody looks for shards in
// it, and artifacts leave it out. The lock says whether the merge still runs.
type scratch struct {
	dir  string
	lock *job.Lock
	keep bool // it has trials that are nowhere else
}

const (
	scratchPrefix = ".rollout-merge-"
	journalName   = "merge-began.json"
	draftName     = "job"
	oldName       = "old" // what was where the output is to be
)

func makeScratch(parent string) (*scratch, error) {
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder to merge into: %w", err)
	}
	for n := 0; ; n++ {
		dir, err := os.MkdirTemp(parent, scratchPrefix)
		if err != nil {
			return nil, fmt.Errorf("make a folder for the merge: %w", err)
		}
		lock, err := job.TakeLock(dir, time.Now())
		if err == nil {
			return &scratch{dir: dir, lock: lock}, nil
		}
		if n == 10 || !errors.Is(err, fs.ErrNotExist) { // another merge has swept it before it was locked
			return nil, errors.Join(fmt.Errorf("lock the merge's folder: %w", err), os.RemoveAll(dir))
		}
	}
}

// remove removes the folder, unless it has to be kept, and ends the lock.
func (s *scratch) remove() error {
	if s == nil {
		return nil
	}
	if s.keep {
		return s.lock.Release()
	}
	return errors.Join(os.RemoveAll(s.dir), s.lock.Release()) // in this order: nobody else is to sweep it meanwhile
}

// journal is what a merge notes in its scratch folder before it moves anything, for one that comes after it was killed.
type journal struct {
	Output     string         `json:"output"` // without links
	PlanDigest string         `json:"plan_digest"`
	Moves      bool           `json:"moves"`
	Shards     []journalShard `json:"shards"`
}

// journalShard is where the trials of a shard come from. What was unpacked from an archive can be unpacked again: Dir is empty.
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

// undo moves what is in a draft back to its shards. What cannot be moved is kept, and named.
func (m *merge) undo(j journal, draft string) error {
	err := m.moveBack(j, draft)
	if err == nil {
		return nil
	}
	m.scratch.keep = true
	return fmt.Errorf("trials that were moved out of their shards are in %s, and could not be moved back (merge again, which tries to): %w", draft, err)
}

// moveBack moves the trials in a draft to where they were. A shard that still has a trial keeps it: the draft has links to its files
// then. Nothing is moved through a link.
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
	return nofollow.EachDir(root, func(agentName string, agent *os.File) error {
		return nofollow.EachDir(agent, func(datasetName string, dataset *os.File) error {
			g := m.groups[path.Join(agentName, datasetName)]
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
				i, ok := g.trials[name]
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

// linkAgain links what moving has found to be incomplete: whoever merges again when the rest is there needs the shards.
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
	m.note("the shards are left as they are, in spite of --move: results of them are missing or damaged, and the next merge needs these")
	return m.linkTrials(ctx, draft)
}

// whole reports whether each of the planned trials has a result, and none cannot be read.
func (o *outcomes) whole(planned int) bool {
	unreadable := slices.ContainsFunc(o.errs, func(err error) bool { return err != nil })
	return !slices.Contains(o.there[:planned], false) && !unreadable
}

// alreadyMoved reports whether an earlier merge has moved the trials of these very shards into the output: what they still have is there, too.
func (m *merge) alreadyMoved() bool {
	if !m.onlyCopy {
		return false
	}
	left := 0
	for _, b := range m.batched {
		left += len(b.names)
		for _, name := range b.names {
			below := filepath.Join(b.group.agent, b.group.dataset, name, result.ResultFile)
			ours, err := nofollow.ReadFile(filepath.Join(m.output, below), result.MaxTrialFile)
			theirs, err2 := nofollow.ReadFile(filepath.Join(b.part.dir, below), result.MaxTrialFile)
			if err != nil || err2 != nil || !bytes.Equal(ours, theirs) {
				return false
			}
		}
	}
	return left < len(m.plan.Trials) && len(m.parts) == m.total
}

// reread returns what an earlier merge wrote.
func (m *merge) reread() error {
	made, err := m.earlier()
	if err != nil {
		return err
	}
	tree, err := result.ReadTree(m.output)
	if err != nil {
		return err
	}
	m.out.Tree, m.out.Job = tree, result.Summarize(tree.Plan, tree.All())
	m.out.Shards, m.out.Merged, m.out.Incomplete = m.total, len(made.Shards), Missing(m.output)
	m.note("%s has all trials of these shards already: an earlier merge has moved them there", m.out.Dir)
	return nil
}

// recoverKilled looks for what merges into the same folder have left that were killed. Trials that they had moved are moved back, and are merged
// now; drafts are removed. What belongs to a merge that runs, or to one of other shards, is left alone.
func (m *merge) recoverKilled() error {
	entries, err := os.ReadDir(m.parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for what killed merges have left: %w", err)
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
			m.note("%s is left of a merge that was killed, and is not removed: %v", dir, err)
		}
	}
	return nil
}

// recover puts back what is in the scratch folder of a merge that was killed. After an error the folder must stay.
func (m *merge) recover(dir string) error {
	text, err := nofollow.ReadFile(filepath.Join(dir, journalName), maxMergeFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it had moved nothing yet
	}
	var j journal
	if err == nil {
		err = json.Unmarshal(text, &j)
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
		if !j.Moves && !isFolder(old) {
			return nil // links only
		}
		if !isFolder(filepath.Join(dir, draftName)) && isFolder(j.Output) {
			return nil // it was done, all but this
		}
		return fmt.Errorf("it may have trials of the shards that were being merged into %s: repeat that merge, which finishes it", j.Output)
	}
	if j.Moves {
		if err := m.moveBack(j, filepath.Join(dir, draftName)); err != nil {
			return err
		}
	}
	if _, err := os.Lstat(output); errors.Is(err, fs.ErrNotExist) && isFolder(old) {
		return os.Rename(old, output)
	}
	return nil
}

// hasShardsOf reports whether all shards of a journal are among those that are merged now. Nothing is moved anywhere else.
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

func isFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
