package cache

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/gofrs/flock"
)

// lockPoll is the interval at which a lock that another process holds is tried.
const lockPoll = 20 * time.Millisecond

// lock waits for the lock at path, shared or exclusive. It creates the file if necessary.
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

// tryLock takes the exclusive lock at path. It returns nil if another process holds the lock or the
// file does not exist.
func tryLock(path string) *flock.Flock {
	held := flock.New(path, flock.SetFlag(os.O_RDONLY)) // does not create the file
	if free, err := held.TryLock(); err != nil || !free {
		return nil
	}
	if !isAt(held) {
		_ = held.Unlock()
		return nil
	}
	return held
}

// isAt reports whether the locked file is still the one at its path.
func isAt(held *flock.Flock) bool {
	locked, err := held.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(held.Path())
	return err == nil && os.SameFile(locked, there)
}

// drop releases a lock that is held exclusively, and removes its file.
func drop(held *flock.Flock) {
	_ = os.Remove(held.Path())
	_ = held.Unlock()
}

// draft is a directory for unfinished content. As long as its lock is held, its maker is alive.
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

// discard removes the draft.
func (d *draft) discard() {
	_ = os.RemoveAll(d.dir)
	drop(d.lock)
}

// sweep removes drafts whose makers were killed. A draft's lock is created before the draft and
// removed after it.
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
