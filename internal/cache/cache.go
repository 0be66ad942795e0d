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

// Cache is a folder with everything that is kept. Nothing is made before it is needed.
//
//	folders/KIND/ID/   a folder's parts, each whole from its first moment, and about.json
//	files/KIND/ID      a file
//	locks/KIND-ID      shared by the users of a folder; its time is the last use
//	locks/KIND-ID.fill who fills the folder
//	drafts/            what is being made, each with the lock of its maker
type Cache struct {
	dir     string
	maxSize int64
	now     func() time.Time
}

// Folders is the name of the folder, in the cache's, that has the folders which are kept.
const Folders = "folders"

// DefaultMaxSize is how large a cache becomes, in bytes, unless somebody says otherwise. The largest public datasets have
// hundreds of megabytes.
const DefaultMaxSize = 20 << 30

// New is the cache in dir, an absolute path. When it becomes larger than maxSize bytes, what was used least recently is
// removed, but nothing that is in use; 0 stands for DefaultMaxSize, a negative number for no bound.
func New(dir string, maxSize int64) *Cache {
	if maxSize == 0 {
		maxSize = DefaultMaxSize
	}
	return &Cache{dir: dir, maxSize: maxSize, now: time.Now}
}

// Dir is the cache's folder.
func (c *Cache) Dir() string { return c.dir }

// Key names something in the cache.
type Key struct {
	Kind  string // a plain word, such as "git"
	Text  string // tells it from others of its kind; it is not kept, so it may hold what must not be shown
	About string // tells people what it is
}

func (k Key) id() string {
	sum := sha256.Sum256([]byte(k.Kind + "\x00" + k.Text))
	return hex.EncodeToString(sum[:16])
}

func (c *Cache) path(elements ...string) string {
	return filepath.Join(append([]string{c.dir}, elements...)...)
}

// cannotWrite says why the cache cannot be written, and the way out.
func (c *Cache) cannotWrite(err error) error {
	hint := ""
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		hint = " (rollout cache prune frees room, or set XDG_CACHE_HOME to a folder with more)"
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOTDIR):
		hint = " (set XDG_CACHE_HOME to a folder that can be written)"
	}
	return fmt.Errorf("the cache cannot be written: %w%s", err, hint)
}

// makeDirs makes the cache's folders. Only their owner may look into them: datasets may be private.
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
