package linktree

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/nofollow"
)

const (
	// MaxPath limits a path below the tree, in bytes.
	MaxPath  = 2048
	maxDepth = 64 // directories within directories
)

// Linker puts trees in other places. The zero value links all files. It is not safe for concurrent
// use.
type Linker struct {
	// Without is the name of a file at the top of each tree that is left out; "" for none.
	Without string
	// Skipped is called with the path of each entry that is left out because no run writes it:
	// links, pipes, names that OrdinaryName refuses. It may be nil.
	Skipped func(path string)

	copies bool // the two file systems differ, so nothing can be linked
}

// OrdinaryName reports whether a run may have written a file of this name: artifacts can hold it,
// and it is not hidden.
func OrdinaryName(name string) bool { return result.Slug(name) == name }

// Move moves source, the directory name in from, to the same name in to. A tree with entries that
// have to be left out, or on another file system, is linked instead.
func (l *Linker) Move(source, from, to *os.File, name string) error {
	if movable(source, 0) {
		if err := nofollow.Rename(from, name, to); !errors.Is(err, unix.EXDEV) {
			return err
		}
	}
	if _, err := source.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return l.Link(source, to, name)
}

// movable reports whether everything in a directory may be kept, so that it can be moved as a
// whole.
func movable(dir *os.File, depth int) bool {
	entries, err := dir.ReadDir(-1)
	if err != nil || depth == maxDepth {
		return false
	}
	for _, e := range entries {
		if !OrdinaryName(e.Name()) || !e.IsDir() && !e.Type().IsRegular() {
			return false
		}
		if !e.IsDir() {
			continue
		}
		sub, err := nofollow.OpenDirAt(dir, e.Name())
		if err != nil {
			return false
		}
		ok := movable(sub, depth+1)
		if err := sub.Close(); err != nil || !ok {
			return false
		}
	}
	return true
}

// Link makes the directory name in to, with the files of source: linked where the file systems
// allow it, copied elsewhere.
func (l *Linker) Link(source, to *os.File, name string) error { return l.dir(source, to, name, 0) }

// Restart makes the Linker try to link files again after it had to copy them. Callers use it before
// a tree on another file system.
func (l *Linker) Restart() { l.copies = false }

// dir makes the directory at, a path below to.
func (l *Linker) dir(source, to *os.File, at string, depth int) error {
	if err := unix.Mkdirat(int(to.Fd()), at, 0o755); err != nil {
		return &os.PathError{Op: "mkdir", Path: filepath.Join(to.Name(), at), Err: err}
	}
	entries, err := source.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		below := at + "/" + name
		switch {
		case depth == 0 && l.Without != "" && name == l.Without:
		case !OrdinaryName(name), len(below) > MaxPath, depth == maxDepth:
			l.skip(below)
		case e.Type().IsRegular():
			err = l.file(source, to, name, below)
		case e.IsDir():
			err = l.subdir(source, to, name, below, depth)
		default:
			l.skip(below)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *Linker) skip(path string) {
	if l.Skipped != nil {
		l.Skipped(path)
	}
}

func (l *Linker) subdir(source, to *os.File, name, at string, depth int) error {
	sub, err := nofollow.OpenDirAt(source, name)
	if err != nil {
		return err
	}
	return errors.Join(l.dir(sub, to, at, depth+1), sub.Close())
}

// file links a file, or copies it if it cannot be linked.
func (l *Linker) file(source, to *os.File, name, at string) error {
	if !l.copies {
		err := unix.Linkat(int(source.Fd()), name, int(to.Fd()), at, 0)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EXDEV):
			l.copies = true
		case errors.Is(err, unix.EPERM), errors.Is(err, unix.EMLINK), errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOTSUP):
			// Linux does not let users link files of others that they may not write
			// (fs.protected_hardlinks).
		default:
			return &os.LinkError{Op: "link", Old: filepath.Join(source.Name(), name), New: filepath.Join(to.Name(), at), Err: err}
		}
	}
	return copyFile(source, to, name, at)
}

func copyFile(source, to *os.File, name, at string) error {
	in, err := nofollow.OpenAt(source, name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := nofollow.CreateAt(to, at, 0o644)
	if err != nil {
		return err
	}
	_, err = out.ReadFrom(in)
	return errors.Join(err, out.Close())
}
