package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Cache is a directory on disk. It is created on first use.
//
//	folders/KIND/ID/   the parts of a Dir, each complete from its first moment, and about.json
//	files/KIND/ID      a file
//	locks/KIND-ID      shared by the users of a Dir; its modification time is the last use
//	locks/KIND-ID.fill held by the process that fills the Dir
//	drafts/            unfinished entries, each with its maker's lock
type Cache struct {
	dir     string
	maxSize int64
	now     func() time.Time
}

// DirsName is the name of the subdirectory of the cache that holds all Dirs.
const DirsName = "folders"

// DefaultMaxSize bounds a cache, in bytes. The largest public datasets have hundreds of megabytes.
const DefaultMaxSize = 20 << 30

// New returns the cache in dir, an absolute path. When it grows beyond maxSize bytes, the least
// recently used entries are removed, except those in use. 0 means DefaultMaxSize, a negative number
// no bound.
func New(dir string, maxSize int64) *Cache {
	if maxSize == 0 {
		maxSize = DefaultMaxSize
	}
	return &Cache{dir: dir, maxSize: maxSize, now: time.Now}
}

// Dir returns the cache's directory.
func (c *Cache) Dir() string { return c.dir }

// Key identifies an entry of the cache.
type Key struct {
	Kind  string // a plain word, such as "git"
	Text  string // distinguishes it from others of its kind; it is not stored, so it may be secret
	About string // description for listings
}

func (k Key) id() string {
	sum := sha256.Sum256([]byte(k.Kind + "\x00" + k.Text))
	return hex.EncodeToString(sum[:16])
}

func (c *Cache) path(elements ...string) string {
	return filepath.Join(append([]string{c.dir}, elements...)...)
}

// cannotWrite returns an error with the reason and the remedy.
func (c *Cache) cannotWrite(err error) error {
	hint := ""
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		hint = " (rollout cache prune frees space, or set XDG_CACHE_HOME to a directory with more)"
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOTDIR):
		hint = " (set XDG_CACHE_HOME to a directory that can be written)"
	}
	return fmt.Errorf("the cache cannot be written: %w%s", err, hint)
}

// makeDirs creates directories of the cache. Only their owner may read them, because datasets may
// be private.
func (c *Cache) makeDirs(dirs ...string) error {
	for _, dir := range append(dirs, "locks", "drafts") {
		if err := os.MkdirAll(c.path(dir), 0o700); err != nil {
			return c.cannotWrite(err)
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
