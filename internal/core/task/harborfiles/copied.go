package harborfiles

import (
	"errors"
	"io/fs"
	"path"
	"sync"

	"github.com/org/rollout-action/internal/core/task/taskdir"
)

// ErrExcluded is in the chain of the error if a .harborignore excludes a file. The error is
// fs.ErrNotExist, too.
var ErrExcluded = errors.New(ownIgnoreFile + " excludes it")

// Copied returns a task's directory without the files that Harbor does not copy into environments
// with the tests and solutions, because a .harborignore excludes them. It lists links as links. An
// error is ErrUnknown if a file of patterns has no fixed meaning. Copied is safe for concurrent use
// if fsys is. Source: Harbor 0.26, src/harbor/verifier/verifier.py, agents/oracle.py.
func Copied(fsys fs.FS) fs.FS {
	return &copied{fsys: fsys, own: newRules(fsys), seen: map[string]seen{}}
}

// copied is a directory of Copied.
type copied struct {
	fsys fs.FS
	mu   sync.Mutex
	own  ownRules
	seen map[string]seen // by name
}

// seen is a name that was compared with the rules.
type seen struct {
	excluded bool
	linked   bool // it is a link, or leads through one
}

// look compares a name with the rules. e is its entry in the directory above; nil if it is not
// known.
func (c *copied) look(name string, e fs.DirEntry) (seen, error) {
	s, known := c.seen[name]
	if known || name == "." {
		return s, nil
	}
	var err error
	if s, err = c.look(path.Dir(name), nil); err != nil {
		return s, err
	}
	if !s.excluded {
		if e == nil {
			if info, err := fs.Lstat(c.fsys, name); err == nil {
				e = fs.FileInfoToDirEntry(info)
			}
		}
		s.linked = s.linked || e != nil && e.Type()&fs.ModeSymlink != 0
		if s.excluded, err = c.own.excluded(name, s.linked); err != nil {
			return s, err
		}
	}
	c.seen[name] = s
	return s, nil
}

// check returns the error of a name that is excluded.
func (c *copied) check(op, name string) error {
	if !fs.ValidPath(name) {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.look(name, nil)
	if err == nil && s.excluded {
		err = errors.Join(ErrExcluded, fs.ErrNotExist)
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

// keep returns the entries of a directory that are not excluded.
func (c *copied) keep(dir string, entries []fs.DirEntry) ([]fs.DirEntry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := entries[:0]
	for _, e := range entries {
		s, err := c.look(taskdir.Join(dir, e.Name()), e)
		if err != nil {
			return kept, err
		}
		if !s.excluded {
			kept = append(kept, e)
		}
	}
	return kept, nil
}

func (c *copied) Open(name string) (fs.File, error) {
	if err := c.check("open", name); err != nil {
		return nil, err
	}
	f, err := c.fsys.Open(name)
	if dir, ok := f.(fs.ReadDirFile); ok && err == nil {
		return copiedDir{dir, c, name}, nil
	}
	return f, err
}

func (c *copied) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := c.check("readdir", name); err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(c.fsys, name)
	if err != nil {
		return entries, err
	}
	return c.keep(name, entries)
}

func (c *copied) Stat(name string) (fs.FileInfo, error) {
	if err := c.check("stat", name); err != nil {
		return nil, err
	}
	return fs.Stat(c.fsys, name)
}

func (c *copied) Lstat(name string) (fs.FileInfo, error) {
	if err := c.check("lstat", name); err != nil {
		return nil, err
	}
	return fs.Lstat(c.fsys, name)
}

func (c *copied) ReadLink(name string) (string, error) {
	if err := c.check("readlink", name); err != nil {
		return "", err
	}
	return fs.ReadLink(c.fsys, name)
}

// copiedDir is an open directory, or a file that may be one.
type copiedDir struct {
	fs.ReadDirFile
	fsys *copied
	name string
}

func (d copiedDir) ReadDir(n int) ([]fs.DirEntry, error) {
	for {
		entries, err := d.ReadDirFile.ReadDir(n)
		if err != nil {
			return entries, err
		}
		kept, err := d.fsys.keep(d.name, entries)
		if err != nil || n <= 0 || len(kept) > 0 || len(entries) == 0 {
			return kept, err
		}
	}
}
