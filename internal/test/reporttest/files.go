package reporttest

import (
	"io/fs"
	"path"
	"testing/fstest"
	"time"
)

// tree is a MapFS with an index of its directories, for which a MapFS searches all of its files.
type tree struct {
	fstest.MapFS
	directories map[string]bool
}

func index(files fstest.MapFS) tree {
	t := tree{MapFS: files, directories: map[string]bool{".": true}}
	for name := range files {
		for dir := path.Dir(name); !t.directories[dir]; dir = path.Dir(dir) {
			t.directories[dir] = true
		}
	}
	return t
}

// Lstat implements fs.ReadLinkFS.
func (t tree) Lstat(name string) (fs.FileInfo, error) {
	switch {
	case t.directories[name]:
		return directory(path.Base(name)), nil
	case t.MapFS[name] == nil:
		return nil, &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist}
	}
	return t.MapFS.Lstat(name)
}

// directory is the fs.FileInfo of a directory.
type directory string

// Name implements fs.FileInfo.
func (f directory) Name() string { return string(f) }

// Size implements fs.FileInfo.
func (directory) Size() int64 { return 0 }

// Mode implements fs.FileInfo.
func (directory) Mode() fs.FileMode { return fs.ModeDir | 0o755 }

// ModTime implements fs.FileInfo.
func (directory) ModTime() time.Time { return time.Time{} }

// IsDir implements fs.FileInfo.
func (directory) IsDir() bool { return true }

// Sys implements fs.FileInfo.
func (directory) Sys() any { return nil }
