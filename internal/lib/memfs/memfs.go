// Package memfs implements a directory of files in memory, for a few small files that are copied to
// an environment.
package memfs

import (
	"bytes"
	"io"
	"io/fs"
	"maps"
	"slices"
	"time"
)

// Dir is a directory without subdirectories: files by name. The nil Dir is empty.
type Dir map[string]File

// File is a regular file. Data must not change while the file is read.
type File struct {
	Data []byte
	Mode fs.FileMode // permissions
}

// Open implements fs.FS. Errors are *fs.PathError.
func (d Dir) Open(name string) (fs.File, error) {
	if name == "." {
		return &openDir{info: info{name: name, file: File{Mode: fs.ModeDir | 0o555}}, rest: d.entries()}, nil
	}
	f, ok := d[name]
	if !ok {
		reason := fs.ErrNotExist
		if !fs.ValidPath(name) {
			reason = fs.ErrInvalid
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: reason}
	}
	return openFile{info{name, f}, bytes.NewReader(f.Data)}, nil
}

func (d Dir) entries() []fs.DirEntry {
	var entries []fs.DirEntry
	for _, name := range slices.Sorted(maps.Keys(d)) {
		entries = append(entries, fs.FileInfoToDirEntry(info{name, d[name]}))
	}
	return entries
}

type info struct {
	name string
	file File
}

func (i info) Name() string               { return i.name }
func (i info) Size() int64                { return int64(len(i.file.Data)) }
func (i info) Mode() fs.FileMode          { return i.file.Mode }
func (i info) ModTime() time.Time         { return time.Time{} }
func (i info) IsDir() bool                { return i.file.Mode.IsDir() }
func (i info) Sys() any                   { return nil }
func (i info) Stat() (fs.FileInfo, error) { return i, nil }
func (i info) Close() error               { return nil }

type openFile struct {
	info
	*bytes.Reader
}

// Size implements fs.FileInfo; both embedded types have the method.
func (f openFile) Size() int64 { return f.info.Size() }

type openDir struct {
	info
	rest []fs.DirEntry
}

func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: fs.ErrInvalid}
}

// ReadDir implements fs.ReadDirFile.
func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 || n > len(d.rest) {
		if n > 0 && len(d.rest) == 0 {
			return nil, io.EOF
		}
		n = len(d.rest)
	}
	read := d.rest[:n]
	d.rest = d.rest[n:]
	return read, nil
}
