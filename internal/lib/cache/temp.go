package cache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// tempLock is the file in a temporary directory whose lock shows that its maker is alive.
const tempLock = ".lock"

// tempAge is the age from which a temporary directory without a lock file has no maker: the file is
// made right after it.
const tempAge = time.Hour

// Temp makes a directory below os.TempDir, whose name begins with prefix, for a caller that calls
// remove when it is done. It first removes those that killed processes of this user left there. The
// directory has one file, which is hidden.
func Temp(prefix string) (dir string, remove func() error, err error) {
	return TempIn(os.TempDir(), prefix)
}

// TempIn is Temp for a directory below parent.
func TempIn(parent, prefix string) (dir string, remove func() error, err error) {
	sweepTemp(parent, prefix)
	for {
		if dir, err = os.MkdirTemp(parent, prefix); err != nil {
			return "", nil, err
		}
		lock := flock.New(filepath.Join(dir, tempLock))
		locked, err := lock.TryRLock()
		if err != nil && exists(dir) || locked && isAt(lock) { // without locks on this file system, a killed process leaves the directory
			return dir, func() error { return errors.Join(os.RemoveAll(dir), lock.Close()) }, nil
		}
		_ = lock.Close() // a sweep took the lock first, and removes the directory
	}
}

// sweepTemp removes the directories of TempIn whose makers have ended. It ignores errors: such
// directories belong to other users.
func sweepTemp(parent, prefix string) {
	entries, _ := os.ReadDir(parent)
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), prefix) {
			continue
		}
		dir := filepath.Join(parent, entry.Name())
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() {
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
			continue
		}
		at := filepath.Join(dir, tempLock)
		if _, err := os.Lstat(at); errors.Is(err, fs.ErrNotExist) {
			if time.Since(info.ModTime()) > tempAge {
				_ = os.RemoveAll(dir)
			}
			continue
		}
		if lock := tryLock(at); lock != nil {
			_ = os.RemoveAll(dir)
			_ = lock.Unlock()
		}
	}
}
