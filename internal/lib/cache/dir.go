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

// Dir is a directory in the cache that consists of parts. A part is a file or a directory; it is
// either complete or missing, and never changed. While the Dir is open, no process removes it. Many
// goroutines may use it.
type Dir struct {
	cache *Cache
	key   Key
	dir   string
	lock  *flock.Flock // nil in a read-only cache
}

const aboutFile = "about.json"

// about is the description of a Dir for listings of the cache.
type about struct {
	About string `json:"about"`
	Size  int64  `json:"size_bytes"`
	Parts int    `json:"parts"`
}

// Open opens the Dir of a key, which may have no parts yet. The caller closes it. Open waits only
// while another process removes the Dir.
func (c *Cache) Open(ctx context.Context, key Key) (*Dir, error) {
	d := &Dir{cache: c, key: key, dir: c.path(DirsName, key.Kind, key.id())}
	err := c.makeDirs()
	if err == nil {
		if d.lock, err = lock(ctx, d.lockPath(), true); err != nil {
			err = c.cannotWrite(err)
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && exists(d.dir):
		return d, nil // a read-only cache needs no lock: nothing can be removed either
	case err != nil:
		return nil, err
	}
	d.touch()
	return d, nil
}

// Close releases the lock, so that the Dir may be removed.
func (d *Dir) Close() error {
	if d.lock == nil {
		return nil
	}
	return d.lock.Unlock()
}

// Path returns the directory of the parts.
func (d *Dir) Path() string { return d.dir }

// Part returns the path of a part, which may be missing. name is a plain file name.
func (d *Dir) Part(name string) string { return filepath.Join(d.dir, name) }

// Has reports whether a part exists.
func (d *Dir) Has(name string) bool { return exists(d.Part(name)) }

// Fill adds the parts that are missing. It calls make with an empty directory, adds those of the
// missing parts that make created there, and discards the rest. If make fails, nothing is added. If
// several processes or goroutines fill a Dir at the same time, one calls make; the others wait and
// then find the parts.
func (d *Dir) Fill(ctx context.Context, parts []string, make func(ctx context.Context, draft string, missing []string) error) error {
	if len(d.missing(parts)) == 0 {
		return nil
	}
	c := d.cache
	if err := c.makeDirs(filepath.Dir(filepath.Join(DirsName, d.key.Kind, d.key.id()))); err != nil {
		return err
	}
	held, err := lock(ctx, d.lockPath()+".fill", false)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return c.cannotWrite(err)
	}
	defer held.Unlock() //nolint:errcheck // closing the file ends the lock
	missing := d.missing(parts)
	if len(missing) == 0 {
		return nil
	}
	c.sweep()
	temp, err := c.draft()
	if err != nil {
		return err
	}
	defer temp.discard()
	if err := make(ctx, temp.dir, missing); err != nil {
		return err
	}
	if err := d.publish(temp.dir, missing); err != nil {
		return c.cannotWrite(err)
	}
	d.touch()
	c.shrink()
	return nil
}

func (d *Dir) missing(parts []string) []string {
	var missing []string
	for _, name := range parts {
		if !d.Has(name) {
			missing = append(missing, name)
		}
	}
	return missing
}

// publish moves the parts that are in the draft into the Dir.
func (d *Dir) publish(draft string, parts []string) error {
	info := d.about()
	info.About = d.key.About
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
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return err
	}
	// The description comes first, because a size that is too large does no harm.
	for _, name := range append([]string{aboutFile}, made...) {
		if err := os.Rename(filepath.Join(draft, name), d.Part(name)); err != nil {
			return err
		}
	}
	return nil
}

func (d *Dir) about() about { return readAbout(d.dir) }

func readAbout(dir string) about {
	var info about
	if text, err := os.ReadFile(filepath.Join(dir, aboutFile)); err == nil {
		_ = json.Unmarshal(text, &info) // a damaged description counts as none
	}
	return info
}

func (d *Dir) lockPath() string { return d.cache.path("locks", d.key.Kind+"-"+d.key.id()) }

// touch records the time of use. A read-only cache stores no times.
func (d *Dir) touch() {
	now := d.cache.now()
	_ = os.Chtimes(d.lockPath(), now, now)
}

func newID() string { return strings.ToLower(rand.Text()[:12]) }

func draftID(name string) string { return strings.TrimSuffix(name, ".lock") }

// block is the least space that a file takes on common file systems.
const block = 4096

// diskSize estimates how much disk space everything at path takes.
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
