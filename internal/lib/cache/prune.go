package cache

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Entry describes a Dir or a file in the cache.
type Entry struct {
	Kind     string    `json:"kind"`
	About    string    `json:"about"` // hostile: it comes from registries
	Path     string    `json:"path"`
	Size     int64     `json:"size_bytes"` // on disk, approximately
	LastUsed time.Time `json:"last_used"`
	InUse    bool      `json:"in_use"` // by a running process
	isDir    bool
}

// List returns all entries, the least recently used first. A cache that does not exist is empty.
func (c *Cache) List() ([]Entry, error) {
	var all []Entry
	for _, group := range []string{DirsName, "files"} {
		paths, err := filepath.Glob(c.path(group, "*", "*"))
		if err != nil {
			return nil, fmt.Errorf("list the cache: %w", err)
		}
		for _, path := range paths {
			e := Entry{Kind: filepath.Base(filepath.Dir(path)), Path: path, isDir: group == DirsName}
			if c.describe(&e) {
				all = append(all, e)
			}
		}
	}
	if _, err := os.ReadDir(c.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the cache: %w", err)
	}
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(a.LastUsed.Compare(b.LastUsed), cmp.Compare(a.Path, b.Path))
	})
	return all, nil
}

// describe sets the description, size and use of e. It reports whether the entry still exists.
func (c *Cache) describe(e *Entry) (ok bool) {
	info, err := os.Lstat(e.Path)
	if err != nil {
		return false
	}
	e.LastUsed = info.ModTime()
	if !e.isDir {
		e.About, e.Size = aboutOf(e.Path), (info.Size()+block-1)/block*block
		return true
	}
	described := readAbout(e.Path)
	e.About, e.Size = described.About, described.Size
	if used, err := os.Lstat(c.useLock(*e)); err == nil {
		e.LastUsed = used.ModTime()
		held := tryLock(c.useLock(*e))
		e.InUse = held == nil
		if held != nil {
			_ = held.Unlock()
		}
	}
	return true
}

// aboutOf returns the description of a file in the cache.
func aboutOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, _ := bufio.NewReaderSize(f, 64<<10).ReadSlice('\n')
	head, _ := headOf(line)
	return head.About
}

func (c *Cache) useLock(e Entry) string {
	return c.path("locks", e.Kind+"-"+filepath.Base(e.Path))
}

// Policy selects what Prune removes. The zero value selects nothing.
type Policy struct {
	All       bool          // everything
	OlderThan time.Duration // entries that were not used for longer than this; 0: none
	MaxSize   *int64        // the least recently used, until at most this many bytes remain; nil: none
	DryRun    bool          // remove nothing, only report
}

// Pruned is the result of Prune. With DryRun, it is what Prune would remove.
type Pruned struct {
	Removed []Entry
	InUse   []Entry // selected, but kept because a process uses them
	Kept    int64   // bytes of the remaining entries
}

// Prune removes the entries that the policy selects, except those that a running process uses, and
// the drafts of killed processes.
func (c *Cache) Prune(ctx context.Context, p Policy) (Pruned, error) {
	var out Pruned
	all, err := c.List()
	if err != nil {
		return out, err
	}
	for _, e := range all {
		out.Kept += e.Size
	}
	now := c.now()
	for _, e := range all {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		tooOld := p.OlderThan > 0 && now.Sub(e.LastUsed) > p.OlderThan
		tooMuch := p.MaxSize != nil && out.Kept > *p.MaxSize
		if !p.All && !tooOld && !tooMuch {
			continue
		}
		removed := !e.InUse
		if removed && !p.DryRun {
			if removed, err = c.remove(e); err != nil {
				return out, c.cannotWrite(err)
			}
		}
		if !removed {
			out.InUse = append(out.InUse, e)
			continue
		}
		out.Removed = append(out.Removed, e)
		out.Kept -= e.Size
	}
	if !p.DryRun {
		c.sweep()
	}
	return out, nil
}

// remove removes an entry, unless it is in use.
func (c *Cache) remove(e Entry) (removed bool, err error) {
	if !e.isDir {
		if err := os.Remove(e.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		return true, nil
	}
	if err := c.makeDirs(); err != nil {
		return false, err
	}
	path := c.useLock(e)
	if !exists(path) {
		if f, err := os.OpenFile(path, os.O_CREATE, 0o600); err == nil {
			_ = f.Close()
		}
	}
	held := tryLock(path)
	if held == nil {
		return false, nil
	}
	defer drop(held)
	d, err := c.draft()
	if err != nil {
		return false, err
	}
	defer d.discard()
	// One rename, so that no process finds an incomplete entry.
	if err := os.Rename(e.Path, filepath.Join(d.dir, "removed")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	_ = os.Remove(path + ".fill")
	return true, nil
}

// shrink removes entries until the cache is within its bound. It ignores entries that cannot be
// removed: the next call tries them again.
func (c *Cache) shrink() {
	if c.maxSize >= 0 {
		_, _ = c.Prune(context.Background(), Policy{MaxSize: &c.maxSize})
	}
}
