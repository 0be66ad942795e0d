package task

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/org/rollout-action/internal/environment"
)

var (
	errNotDirectory = errors.New("not a directory")
	errNotRegular   = errors.New("neither a file nor a directory")
)

// Tree is a task's directory on disk as a file system. Links inside it may point anywhere inside it;
// nothing outside it can be opened through it, whatever the links say, for a task may come from a
// stranger. Named pipes, sockets and devices are refused instead of opened: a pipe would block.
// It lists links as links (fs.ReadLinkFS). It holds nothing open between calls, so that thousands
// of tasks need no file descriptors.
type Tree string

// Open follows links that stay inside the tree.
func (t Tree) Open(name string) (fs.File, error) {
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
		err = errNotRegular
	}
	if err != nil {
		f.Close()
		return nil, pathError("open", name, err)
	}
	return ownFile{f}, nil
}

// ownFile is an open file or directory of a tree, whose errors are marked where they are this machine's.
type ownFile struct{ *os.File }

func (f ownFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	return n, environment.OwnFiles(err)
}

func (f ownFile) ReadDir(n int) ([]fs.DirEntry, error) {
	entries, err := f.File.ReadDir(n)
	return entries, environment.OwnFiles(err)
}

// Stat follows links that stay inside the tree.
func (t Tree) Stat(name string) (fs.FileInfo, error) { return t.info("stat", name, (*os.Root).Stat) }

// Lstat does not follow a link at the end of name.
func (t Tree) Lstat(name string) (fs.FileInfo, error) { return t.info("lstat", name, (*os.Root).Lstat) }

// ReadLink is the text of a link, which may point outside the tree.
func (t Tree) ReadLink(name string) (string, error) {
	root, err := t.root("readlink", name)
	if err != nil {
		return "", err
	}
	defer root.Close()
	target, err := root.Readlink(name)
	return target, pathError("readlink", name, err)
}

func (t Tree) info(op, name string, get func(*os.Root, string) (fs.FileInfo, error)) (fs.FileInfo, error) {
	root, err := t.root(op, name)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := get(root, name)
	return info, pathError(op, name, err)
}

func (t Tree) root(op, name string) (*os.Root, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	root, err := os.OpenRoot(string(t))
	return root, pathError(op, name, err)
}

// pathError gives err the name that the caller used, instead of os.Root's; nil stays nil.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &fs.PathError{Op: op, Path: name, Err: environment.OwnFiles(err)}
}

// watched is a tree that remembers the first error that is this machine's, also where the caller takes it for a file that is
// not there.
type watched struct {
	Tree
	fault *error
}

func (w watched) note(err error) {
	if fault := environment.MachineFault(err); fault != nil && *w.fault == nil {
		*w.fault = err
	}
}

func (w watched) Open(name string) (fs.File, error) {
	f, err := w.Tree.Open(name)
	if w.note(err); err != nil {
		return nil, err
	}
	return watchedFile{f.(ownFile), w}, nil //nolint:forcetypeassert // it is what Tree opens
}

func (w watched) Stat(name string) (fs.FileInfo, error) {
	info, err := w.Tree.Stat(name)
	w.note(err)
	return info, err
}

func (w watched) Lstat(name string) (fs.FileInfo, error) {
	info, err := w.Tree.Lstat(name)
	w.note(err)
	return info, err
}

func (w watched) ReadLink(name string) (string, error) {
	target, err := w.Tree.ReadLink(name)
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

// follow lists links as what they point to. Load has made sure that every link leads somewhere, and
// that none leads to a directory around it.
type follow struct{ fs.FS }

func (f follow) Open(name string) (fs.File, error) {
	file, err := f.FS.Open(name)
	if dir, ok := file.(fs.ReadDirFile); ok && err == nil {
		return followDir{dir, f, name}, nil
	}
	return file, err
}

// ReadDir is sorted by name.
func (f follow) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(f.FS, name)
	if err != nil {
		return entries, err
	}
	return f.replace(name, entries)
}

// replace puts what links in the directory dir point to in their place.
func (f follow) replace(dir string, entries []fs.DirEntry) ([]fs.DirEntry, error) {
	for i, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 {
			continue
		}
		info, err := fs.Stat(f.FS, join(dir, e.Name()))
		if err != nil {
			return entries[:i], err
		}
		entries[i] = fs.FileInfoToDirEntry(renamed{info, e.Name()})
	}
	return entries, nil
}

// followDir is an open directory, or a file that could be one.
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

// renamed is a file under the name of the link that led to it.
type renamed struct {
	fs.FileInfo
	name string
}

func (r renamed) Name() string { return r.name }

// join is path.Join for names that are valid in a file system.
func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}
