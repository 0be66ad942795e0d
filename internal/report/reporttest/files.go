package reporttest

import (
	"io/fs"
	"path"
	"testing/fstest"
	"time"
)

// tree is a MapFS with an index of its directories, for which a MapFS walks through all of its files.
type tree struct {
	fstest.MapFS
	folders map[string]bool
}

func index(files fstest.MapFS) tree {
	t := tree{MapFS: files, folders: map[string]bool{".": true}}
	for name := range files {
		for dir := path.Dir(name); !t.folders[dir]; dir = path.Dir(dir) {
			t.folders[dir] = true
		}
	}
	return t
}

// Lstat implements fs.ReadLinkFS.
func (t tree) Lstat(name string) (fs.FileInfo, error) {
	switch {
	case t.folders[name]:
		return folder(path.Base(name)), nil
	case t.MapFS[name] == nil:
		return nil, &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist}
	}
	return t.MapFS.Lstat(name)
}

// folder is the information about a directory.
type folder string

// Name implements fs.FileInfo.
func (f folder) Name() string { return string(f) }

// Size implements fs.FileInfo.
func (folder) Size() int64 { return 0 }

// Mode implements fs.FileInfo.
func (folder) Mode() fs.FileMode { return fs.ModeDir | 0o755 }

// ModTime implements fs.FileInfo.
func (folder) ModTime() time.Time { return time.Time{} }

// IsDir implements fs.FileInfo.
func (folder) IsDir() bool { return true }

// Sys implements fs.FileInfo.
func (folder) Sys() any { return nil }
