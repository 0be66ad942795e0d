package taskdir

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/org/rollout-action/internal/core/environment"
)

// The errors of names that are of the wrong kind.
var (
	ErrNotDirectory = errors.New("not a directory")
	ErrNotRegular   = errors.New("neither a file nor a directory")
)

// Dir is a task's directory as a file system. Links may point anywhere inside it. Nothing outside
// can be opened through it, whatever the links say, because tasks may be untrusted. Named pipes,
// sockets and devices are refused, because opening a pipe would block. Dir lists links as links
// (fs.ReadLinkFS). It keeps nothing open between calls, so thousands of tasks need no file
// descriptors.
type Dir string

// Open follows links that stay inside the tree.
func (t Dir) Open(name string) (fs.File, error) {
	root, err := t.root("open", name)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	// Without O_NONBLOCK, opening a named pipe waits for a writer.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = ErrNotRegular
	}
	if err != nil {
		f.Close()
		return nil, pathError("open", name, err)
	}
	return ownFile{f}, nil
}

// ownFile is an open file or directory of a tree. It marks errors that are faults of this machine.
type ownFile struct{ *os.File }

func (f ownFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	return n, environment.MarkMachineError(err)
}

func (f ownFile) ReadDir(n int) ([]fs.DirEntry, error) {
	entries, err := f.File.ReadDir(n)
	return entries, environment.MarkMachineError(err)
}

// Stat follows links that stay inside the tree.
func (t Dir) Stat(name string) (fs.FileInfo, error) { return t.info("stat", name, (*os.Root).Stat) }

// Lstat does not follow a link at the end of name.
func (t Dir) Lstat(name string) (fs.FileInfo, error) { return t.info("lstat", name, (*os.Root).Lstat) }

// ReadLink returns the target of a link, which may be outside the tree.
func (t Dir) ReadLink(name string) (string, error) {
	root, err := t.root("readlink", name)
	if err != nil {
		return "", err
	}
	defer root.Close()
	target, err := root.Readlink(name)
	return target, pathError("readlink", name, err)
}

func (t Dir) info(op, name string, get func(*os.Root, string) (fs.FileInfo, error)) (fs.FileInfo, error) {
	root, err := t.root(op, name)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := get(root, name)
	return info, pathError(op, name, err)
}

func (t Dir) root(op, name string) (*os.Root, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	root, err := os.OpenRoot(string(t))
	return root, pathError(op, name, err)
}

// pathError replaces os.Root's file name in err with the caller's; nil stays nil.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &fs.PathError{Op: op, Path: name, Err: environment.MarkMachineError(err)}
}

// Watch returns a directory that records its first fault of this machine, even if its caller treats
// the error as a missing file.
func Watch(dir Dir, fault *error) fs.FS { return watched{dir, fault} }

// watched is a directory of Watch.
type watched struct {
	Dir
	fault *error
}

func (w watched) note(err error) {
	if fault := environment.MachineFault(err); fault != nil && *w.fault == nil {
		*w.fault = err
	}
}

func (w watched) Open(name string) (fs.File, error) {
	f, err := w.Dir.Open(name)
	if w.note(err); err != nil {
		return nil, err
	}
	return watchedFile{f.(ownFile), w}, nil //nolint:forcetypeassert // Dir.Open returns this type
}

func (w watched) Stat(name string) (fs.FileInfo, error) {
	info, err := w.Dir.Stat(name)
	w.note(err)
	return info, err
}

func (w watched) Lstat(name string) (fs.FileInfo, error) {
	info, err := w.Dir.Lstat(name)
	w.note(err)
	return info, err
}

func (w watched) ReadLink(name string) (string, error) {
	target, err := w.Dir.ReadLink(name)
	w.note(err)
	return target, err
}

type watchedFile struct {
	ownFile
	tree watched
}

func (f watchedFile) Read(p []byte) (int, error) {
	n, err := f.ownFile.Read(p)
	f.tree.note(err)
	return n, err
}

func (f watchedFile) ReadDir(n int) ([]fs.DirEntry, error) {
	entries, err := f.ownFile.ReadDir(n)
	f.tree.note(err)
	return entries, err
}

// Follow returns a directory that lists links as their targets. Every link must have a target, and
// none may point to one of its parent directories.
func Follow(fsys fs.FS) fs.FS { return follow{fsys} }

// follow lists links as their targets. See Follow.
type follow struct{ fs.FS }

func (f follow) Open(name string) (fs.File, error) {
	file, err := f.FS.Open(name)
	if dir, ok := file.(fs.ReadDirFile); ok && err == nil {
		return followDir{dir, f, name}, nil
	}
	return file, err
}

// ReadDir returns the entries sorted by name.
func (f follow) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(f.FS, name)
	if err != nil {
		return entries, err
	}
	return f.replace(name, entries)
}

// replace replaces the links among the entries of dir with their targets.
func (f follow) replace(dir string, entries []fs.DirEntry) ([]fs.DirEntry, error) {
	for i, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 {
			continue
		}
		info, err := fs.Stat(f.FS, Join(dir, e.Name()))
		if err != nil {
			return entries[:i], err
		}
		entries[i] = fs.FileInfoToDirEntry(renamed{info, e.Name()})
	}
	return entries, nil
}

// followDir is an open directory, or a file that may be one.
type followDir struct {
	fs.ReadDirFile
	fsys follow
	name string
}

func (d followDir) ReadDir(n int) ([]fs.DirEntry, error) {
	entries, err := d.ReadDirFile.ReadDir(n)
	if err != nil {
		return entries, err
	}
	return d.fsys.replace(d.name, entries)
}

// Sub is fs.Sub, but fails if there is no such directory.
func Sub(fsys fs.FS, dir string) (fs.FS, error) {
	info, err := fs.Stat(fsys, dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "sub", Path: dir, Err: ErrNotDirectory}
	}
	return fs.Sub(fsys, dir)
}

// IsFile reports whether there is a regular file called name.
func IsFile(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.Mode().IsRegular()
}

// IsDir reports whether there is a directory called name.
func IsDir(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.IsDir()
}

// renamed is a file's information under the name of a link to it.
type renamed struct {
	fs.FileInfo
	name string
}

func (r renamed) Name() string { return r.name }

// Join is path.Join for names that are valid in an fs.FS.
func Join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}
