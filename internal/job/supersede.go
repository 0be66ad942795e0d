package job

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/org/rollout-action/internal/nofollow"
	"github.com/org/rollout-action/internal/result"
)

// Supersede moves the folder that an earlier run left of a trial to superseded/, so that nothing of it is mixed with what
// comes now. It does so when the trial begins again, not before: until then the old result counts.
// Whatever fails, the folder is where it was.
func (t *Tree) Supersede(key result.Key) error {
	if !t.resumed {
		return nil // the folder was made by this run, and nothing can be there
	}
	dir := t.TrialDir(key)
	if err := nofollow.CheckDir(dir); err != nil {
		return err
	}
	if err := os.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil // it was empty (the trial had only just begun), or not there
	}
	below := filepath.Join(result.SupersededDir, filepath.FromSlash(key.Dir()))
	parent := filepath.Dir(filepath.Join(t.Dir, below))
	if err := nofollow.CheckDirs(t.Dir, filepath.Dir(below)); err != nil {
		return err
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	// Not synced: a machine that goes down may undo it, and then the trial is found as it was.
	return os.Rename(dir, t.freeName(below))
}

// freeName is the first of below, below.2, below.3 … that is not taken. The lock keeps others from taking it.
func (t *Tree) freeName(below string) string {
	path := filepath.Join(t.Dir, below)
	for n := 2; ; n++ {
		if _, err := os.Lstat(path); err != nil {
			return path // free, or the move fails for the same reason
		}
		path = fmt.Sprintf("%s.%d", filepath.Join(t.Dir, below), n)
	}
}
