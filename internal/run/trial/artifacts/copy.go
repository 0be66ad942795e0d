package artifacts

import (
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
)

// Copy returns an artifact below a trial's directory as a copy for an environment. Without
// entries its files belong to root there.
func Copy(trialDir fs.FS, kept result.Artifact, links []environment.Link, entries []environment.Entry) (environment.Copy, error) {
	none := environment.Copy{}
	info, err := fs.Stat(trialDir, kept.Path)
	if err != nil {
		return none, fmt.Errorf("read the artifact %s: %w", kept.Source, environment.MarkMachineError(err))
	}
	if !info.IsDir() {
		name := path.Base(kept.Source)
		for i, e := range entries {
			if e.Path != "." || len(entries) > 1 {
				return none, fmt.Errorf("%s cannot be used: the artifact is a file", kept.Entries)
			}
			entries = slices.Clone(entries)
			entries[i].Path = name
		}
		one := singleFile{trialDir, kept.Path, name, len(kept.Executable) > 0}
		return environment.Copy{Src: one, Dst: path.Dir(path.Clean(kept.Source)), Entries: entries}, nil
	}
	below, err := fs.Sub(trialDir, kept.Path)
	if err != nil {
		return none, fmt.Errorf("read the artifact %s: %w", kept.Source, err)
	}
	tree := artifactTree{below, map[string]bool{}}
	for _, name := range kept.Executable {
		tree.executable[name] = true
	}
	return environment.Copy{Src: tree, Dst: path.Clean(kept.Source), Clean: true, Links: links, Entries: entries}, nil
}

// artifactTree is an artifact that is a directory. It restores the executable bits of its files.
type artifactTree struct {
	fs.FS
	executable map[string]bool
}

// Open implements fs.FS.
func (a artifactTree) Open(name string) (fs.File, error) {
	f, err := a.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return readableFile{f, a.executable[name]}, nil
}

// ReadDir implements fs.ReadDirFS.
func (a artifactTree) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(a.FS, name) }

// singleFile is a directory with one file, which has another path in the file system below.
type singleFile struct {
	fs.FS
	path, name string
	executable bool
}

// Open implements fs.FS.
func (s singleFile) Open(name string) (fs.File, error) {
	if name != s.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	f, err := s.FS.Open(s.path)
	if err != nil {
		return nil, err
	}
	return readableFile{f, s.executable}, nil
}

// ReadDir implements fs.ReadDirFS.
func (s singleFile) ReadDir(string) ([]fs.DirEntry, error) {
	info, err := fs.Stat(s.FS, s.path)
	if err != nil {
		return nil, err
	}
	return []fs.DirEntry{fs.FileInfoToDirEntry(renamedInfo{info, s.name})}, nil
}

type renamedInfo struct {
	fs.FileInfo
	name string
}

func (r renamedInfo) Name() string { return r.name }

// WorldReadable is a directory of the task for environments. All users can read its files,
// independent of the umask at their checkout, and can execute those that their owner can. Program
// names a file that all can execute, too; it may be "".
type WorldReadable struct {
	fs.FS
	Program string
}

// Open implements fs.FS.
func (e WorldReadable) Open(name string) (fs.File, error) {
	f, err := e.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return readableFile{f, name == e.Program}, nil
}

// ReadDir implements fs.ReadDirFS.
func (e WorldReadable) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(e.FS, name)
	for i, entry := range entries {
		if entry.IsDir() {
			info, err := entry.Info()
			if err != nil {
				return entries[:i], err
			}
			entries[i] = fs.FileInfoToDirEntry(readableInfo{info, false})
		}
	}
	return entries, err
}

type readableFile struct {
	fs.File
	program bool
}

func (f readableFile) Stat() (fs.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil {
		return nil, err
	}
	return readableInfo{info, f.program}, nil
}

type readableInfo struct {
	fs.FileInfo
	program bool
}

func (i readableInfo) Mode() fs.FileMode {
	mode := i.FileInfo.Mode() | 0o444
	if i.program || mode&0o100 != 0 {
		mode |= 0o111
	}
	return mode
}
