package job

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/run/trial/judging"
)

// Supersede moves a trial's directory from an earlier run to superseded/, so that its files do not
// mix with those of the next run. Callers do this when the trial begins again: until then the old
// result counts. After an error the directory is where it was. In a tree that Create or Begin made
// it does nothing.
func (t *Tree) Supersede(key result.Key) error {
	if !t.resumed {
		return nil // this run created the directory, so nothing is there
	}
	dir := t.TrialDir(key)
	if err := nofollow.CheckDir(dir); err != nil {
		return err
	}
	if err := os.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil // it was empty (the trial had just begun), or not there
	}
	below := filepath.Join(result.SupersededDir, filepath.FromSlash(key.Dir()))
	parent := filepath.Dir(filepath.Join(t.Dir, below))
	if err := nofollow.CheckDirs(t.Dir, filepath.Dir(below)); err != nil {
		return err
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	// Not synced: if the machine goes down, the trial may be found where it was.
	return os.Rename(dir, t.freeName(below))
}

// Unjudge prepares a trial's directory for the judges that are owed. Only its result and its error
// no longer count: the result is moved to judges/result.before-1.json, or the next free number.
// After an error, nothing has changed.
func (t *Tree) Unjudge(key result.Key) error {
	if !t.resumed {
		return nil
	}
	below := filepath.Join(filepath.FromSlash(key.Dir()), result.JudgesDir)
	if err := nofollow.CheckDirs(t.Dir, below); err != nil {
		return err
	}
	dir := t.TrialDir(key)
	judges := filepath.Join(t.Dir, below)
	for n := 1; ; n++ {
		before := filepath.Join(judges, fmt.Sprintf("result.before-%d.json", n))
		if _, err := os.Lstat(before); err == nil {
			continue
		}
		if err := os.Rename(filepath.Join(dir, result.ResultFile), before); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		break
	}
	if err := os.Remove(filepath.Join(dir, result.ErrorFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// freeName returns the first of below, below.2, below.3 … that does not exist. The lock keeps other
// processes from creating it.
func (t *Tree) freeName(below string) string {
	path := filepath.Join(t.Dir, below)
	for n := 2; ; n++ {
		if _, err := os.Lstat(path); err != nil {
			return path // free, or the move fails for the same reason
		}
		path = fmt.Sprintf("%s.%d", filepath.Join(t.Dir, below), n)
	}
}

// SupersededCost returns the cost of the trials in superseded/: they were run again, and count in
// no result of the job. The cost of trials and rankings that were killed before they had a result
// comes from the records of their calls. judges holds the names of the judges that rank.
func SupersededCost(dir string, judges []string) (result.USD, error) {
	var sum result.USD
	root := filepath.Join(dir, result.SupersededDir)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		// superseded/AGENT/DATASET/TASK__N. Agents have written the deeper levels.
		depth := strings.Count(strings.TrimPrefix(path, root), string(filepath.Separator))
		if !e.IsDir() || depth != 3 {
			return nil
		}
		var t result.Trial
		if text, err := nofollow.ReadFile(filepath.Join(path, result.ResultFile), result.MaxTrialFile); err == nil && bounded.Unmarshal(text, &t) == nil {
			sum = sum.Plus(t.Spent().Total()).Plus(judging.UnrankedCost(path, judges))
		} else {
			sum = sum.Plus(judging.RecordedCost(path))
		}
		return fs.SkipDir
	})
	return sum, err
}
