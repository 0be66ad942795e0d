package cache

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/gofrs/flock"
)

// lockPoll is how often a lock that somebody else holds is asked for.
const lockPoll = 20 * time.Millisecond

// lock takes the lock at path, which is made if need be, shared or alone.
func lock(ctx context.Context, path string, shared bool) (*flock.Flock, error) {
	for {
		held := flock.New(path)
		take := held.TryLockContext
		if shared {
			take = held.TryRLockContext
		}
		if _, err := take(ctx, lockPoll); err != nil {
			return nil, err
		}
		if isAt(held) {
			return held, nil
		}
		_ = held.Unlock() // it was removed before it was locked
	}
}

// tryLock takes the lock at path alone, if nobody has it; nil: somebody has, or there is none.
func tryLock(path string) *flock.Flock {
	held := flock.New(path, flock.SetFlag(os.O_RDONLY)) // is not made here
	if free, err := held.TryLock(); err != nil || !free {
		return nil
	}
	if !isAt(held) {
		_ = held.Unlock()
		return nil
	}
	return held
}

// isAt reports whether the file that is locked is still the one at its path.
func isAt(held *flock.Flock) bool {
	locked, err := held.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(held.Path())
	return err == nil && os.SameFile(locked, there)
}

// drop removes a lock that is held alone, file and all.
func drop(held *flock.Flock) {
	_ = os.Remove(held.Path())
	_ = held.Unlock()
}

// draft is a folder for something half-made. Its lock says that its maker lives.
type draft struct {
	dir  string
	lock *flock.Flock
}

func (c *Cache) draft() (*draft, error) {
	for {
		id := newID()
		held := flock.New(c.path("drafts", id+".lock"))
		locked, err := held.TryLock()
		if err != nil {
			return nil, c.cannotWrite(err)
		}
		if !locked || !isAt(held) {
			_ = held.Unlock()
			continue // a sweep came between making the file and locking it
		}
		d := &draft{dir: c.path("drafts", id), lock: held}
		if err := os.Mkdir(d.dir, 0o700); err != nil {
			d.discard()
			return nil, c.cannotWrite(err)
		}
		return d, nil
	}
}

// discard removes what is left of the draft.
func (d *draft) discard() {
	_ = os.RemoveAll(d.dir)
	drop(d.lock)
}

// sweep removes drafts whose makers were killed. The lock is the first of a draft that is made, and the last that is
// removed.
func (c *Cache) sweep() {
	entries, _ := os.ReadDir(c.path("drafts"))
	for _, e := range entries {
		id := draftID(e.Name())
		held := tryLock(c.path("drafts", id+".lock"))
		if held != nil {
			(&draft{dir: c.path("drafts", id), lock: held}).discard()
			continue
		}
		if _, err := os.Lstat(c.path("drafts", id+".lock")); errors.Is(err, fs.ErrNotExist) {
			_ = os.RemoveAll(c.path("drafts", id))
		}
	}
}
