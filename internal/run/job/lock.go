package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Lock is the right to write into a job's directory. Two processes on one machine never hold it at
// the same time. On a network file system that depends on the server; if the file system has no
// locks at all, Unguarded is set.
//
// Its file is removed at the end. A file that a killed process left has no effect: only the
// system's lock on it counts, and that ends with the process.
type Lock struct {
	path     string
	flock    *flock.Flock
	released bool
	// Unguarded is the reason why the lock does not keep other processes out. nil: it does.
	Unguarded error
}

// LockedError means that another process holds the lock.
type LockedError struct {
	Dir    string
	Holder string // the process that has the lock, as its file describes it, safe to print
}

func (b *LockedError) Error() string {
	return fmt.Sprintf("%s is being run by %s: wait until it has ended, or stop it", b.Dir, b.Holder)
}

// holder is the content of a lock's file: the process that has the lock.
type holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"` // for messages
	Since time.Time `json:"since"`
	Scope string    `json:"scope"` // environment.Owner.Host and .Start
	Start string    `json:"start"`
}

// dead reports whether the holder's process has certainly ended.
func (h holder) dead() bool {
	return environment.Owner{Host: h.Scope, PID: h.PID, Start: h.Start}.Alive() == environment.Dead
}

// A child that a killed process was just starting (between fork and exec) keeps its lock for a
// moment longer.
const (
	lockLingers = 10 * time.Second
	lockPoll    = 5 * time.Millisecond
)

// TakeLock takes the lock of a job's directory. The error is a *LockedError if another process
// holds it; TakeLock does not wait for a live process.
func TakeLock(dir string, now time.Time) (*Lock, error) {
	l := &Lock{path: filepath.Join(dir, result.LockFile)}
	for began := time.Now(); ; {
		l.flock = flock.New(l.path, flock.SetFlag(os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW), flock.SetPermissions(0o644))
		got, err := l.flock.TryLock()
		switch {
		case noLocks(err):
			l.Unguarded = err
			_ = os.Remove(l.path)
			return l, nil
		case err != nil:
			return nil, fmt.Errorf("lock the job's directory: %w", err)
		case !got:
			_ = l.flock.Close()
			h, known := readHolder(l.path)
			if known && h.dead() && time.Since(began) < lockLingers {
				time.Sleep(lockPoll)
				continue
			}
			return nil, &LockedError{Dir: dir, Holder: h.describe(known)}
		}
		if l.current() {
			l.sign(now)
			return l, nil
		}
		_ = l.flock.Close() // the holder removed this file meanwhile
	}
}

// noLocks reports whether the file system has no locks.
func noLocks(err error) bool {
	for _, cause := range []error{syscall.ENOTSUP, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.ENOLCK} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// current reports whether the file that is locked is the one that others would lock.
func (l *Lock) current() bool {
	locked, err := l.flock.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(l.path)
	return err == nil && os.SameFile(locked, there)
}

// sign writes this process into the lock's file. Nothing depends on it, so errors (such as a full
// disk) are ignored.
func (l *Lock) sign(now time.Time) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	self := environment.Self()
	text, err := json.Marshal(holder{PID: self.PID, Host: host, Since: now.UTC().Truncate(time.Second), Scope: self.Host, Start: self.Start})
	if err == nil {
		_ = os.WriteFile(l.path, append(text, '\n'), 0o644)
	}
}

// Release releases the lock. It does nothing for a nil or released lock. Callers must not write
// into the directory afterwards.
func (l *Lock) Release() error {
	if !l.held() {
		return nil
	}
	l.released = true
	// The file is removed first: a process that locks the removed file sees that another one is
	// there now.
	err := os.Remove(l.path)
	if errors.Is(err, os.ErrNotExist) { // with the directory
		err = nil
	}
	return errors.Join(err, l.flock.Close())
}

func (l *Lock) held() bool { return l != nil && l.Unguarded == nil && !l.released }

// Running reports whether a process runs the job in a directory. It writes nothing. It briefly
// tries the lock itself if the lock's file does not name the process that holds the lock, or if
// that process is in another container.
func Running(dir string) bool {
	path := filepath.Join(dir, result.LockFile)
	f, err := nofollow.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	if h, known := readHolder(path); known {
		switch (environment.Owner{Host: h.Scope, PID: h.PID, Start: h.Start}).Alive() {
		case environment.Dead:
			return false
		case environment.Alive:
			return true
		}
	}
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// readHolder reads the lock's file. known is false if the file does not name a process.
func readHolder(path string) (h holder, known bool) {
	text, err := nofollow.ReadFile(path, 4096)
	return h, err == nil && json.Unmarshal(text, &h) == nil && h.PID > 0
}

// describe returns the holder in words.
func (h holder) describe(known bool) string {
	const other = "another rollout"
	if !known {
		return other
	}
	return untrusted.Line(fmt.Sprintf("%s (process %d on %s, since %s)", other, h.PID, strings.TrimSpace(h.Host), h.Since.UTC().Format("2006-01-02 15:04:05 UTC")))
}
