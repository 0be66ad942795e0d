package cache

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// Folder is a folder of the cache, made of parts. A part is a file or a folder; it is there whole or not at all, and never
// changed. While the Folder is open, nobody removes it. It may be used by many goroutines.
type Folder struct {
	cache *Cache
	key   Key
	dir   string
	lock  *flock.Flock // nil in a cache that cannot be written
}

const aboutFile = "about.json"

// about describes a folder to those who list the cache.
type about struct {
	About string `json:"about"`
	Size  int64  `json:"size_bytes"`
	Parts int    `json:"parts"`
}

// Folder opens a folder, which may have no parts yet. It is to be closed. It waits for nothing but the moment in which
// somebody removes it.
func (c *Cache) Folder(ctx context.Context, key Key) (*Folder, error) {
	f := &Folder{cache: c, key: key, dir: c.path(Folders, key.Kind, key.id())}
	err := c.makeDirs()
	if err == nil {
		if f.lock, err = lock(ctx, f.lockPath(), true); err != nil {
			err = c.cannotWrite(err)
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && exists(f.dir):
		return f, nil // what cannot be written cannot be removed either
	case err != nil:
		return nil, err
	}
	f.touch()
	return f, nil
}

// Close lets the folder be removed.
func (f *Folder) Close() error {
	if f.lock == nil {
		return nil
	}
	return f.lock.Unlock()
}

// Dir is where the parts are.
func (f *Folder) Dir() string { return f.dir }

// Path is where a part is, or would be. name is a plain file name.
func (f *Folder) Path(name string) string { return filepath.Join(f.dir, name) }

// Has reports whether a part is there.
func (f *Folder) Has(name string) bool { return exists(f.Path(name)) }

// Fill has the parts made that are missing. make gets an empty folder, of which those of the missing parts that it made are
// taken over, and everything else thrown away. Of all who fill a folder at the same time one calls make, while the others
// wait and then find the parts. After an error of make's, nothing is taken over.
func (f *Folder) Fill(ctx context.Context, parts []string, make func(ctx context.Context, draft string, missing []string) error) error {
	if len(f.missing(parts)) == 0 {
		return nil
	}
	c := f.cache
	if err := c.makeDirs(filepath.Dir(filepath.Join(Folders, f.key.Kind, f.key.id()))); err != nil {
		return err
	}
	held, err := lock(ctx, f.lockPath()+".fill", false)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return c.cannotWrite(err)
	}
	defer held.Unlock() //nolint:errcheck // closing the file is all that counts
	missing := f.missing(parts)
	if len(missing) == 0 {
		return nil
	}
	c.sweep()
	d, err := c.draft()
	if err != nil {
		return err
	}
	defer d.discard()
	if err := make(ctx, d.dir, missing); err != nil {
		return err
	}
	if err := f.publish(d.dir, missing); err != nil {
		return c.cannotWrite(err)
	}
	f.touch()
	c.shrink()
	return nil
}

func (f *Folder) missing(parts []string) []string {
	var missing []string
	for _, name := range parts {
		if !f.Has(name) {
			missing = append(missing, name)
		}
	}
	return missing
}

// publish moves those parts that are in the draft to their places.
func (f *Folder) publish(draft string, parts []string) error {
	info := f.about()
	info.About = f.key.About
	var made []string
	for _, name := range parts {
		if name == aboutFile || name != filepath.Base(name) || name == "." || name == ".." {
			return fmt.Errorf("%q cannot be the name of a part", name)
		}
		size, err := diskSize(filepath.Join(draft, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		info.Size += size
		info.Parts++
		made = append(made, name)
	}
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(draft, aboutFile), text, 0o600); err != nil {
		return err
	}
	if err := syncAll(draft); err != nil {
		return err
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	// The description comes first: a size that is too large does no harm.
	for _, name := range append([]string{aboutFile}, made...) {
		if err := os.Rename(filepath.Join(draft, name), f.Path(name)); err != nil {
			return err
		}
	}
	return nil
}

func (f *Folder) about() about { return readAbout(f.dir) }

func readAbout(dir string) about {
	var info about
	if text, err := os.ReadFile(filepath.Join(dir, aboutFile)); err == nil {
		_ = json.Unmarshal(text, &info) // what cannot be read is described as nothing
	}
	return info
}

func (f *Folder) lockPath() string { return f.cache.path("locks", f.key.Kind+"-"+f.key.id()) }

// touch notes that the folder is used. A cache that cannot be written keeps no times.
func (f *Folder) touch() {
	now := f.cache.now()
	_ = os.Chtimes(f.lockPath(), now, now)
}

func newID() string { return strings.ToLower(rand.Text()[:12]) }

func draftID(name string) string { return strings.TrimSuffix(name, ".lock") }

// block is what the least file takes on common file systems.
const block = 4096

// diskSize is about how much room everything at path takes.
func diskSize(path string) (int64, error) {
	var size int64
	err := filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		size += block
		if info.Mode().IsRegular() {
			size += (info.Size() - 1) / block * block
		}
		return nil
	})
	return size, err
}
