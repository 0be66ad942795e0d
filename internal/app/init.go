package app

import (
	"embed"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// scaffold is what Init writes, and below newtask what NewTask writes.
//
//go:embed all:scaffold all:newtask
var scaffold embed.FS

// WorkflowPath is the path of the workflow that Init writes, relative to its directory.
const WorkflowPath = ".github/workflows/rollout.yml"

// NewTask writes a task template into a directory that does not exist yet, and returns the files
// that it wrote.
func NewTask(h *Host, dir string) (written []string, err error) {
	if _, err := os.Lstat(h.Path(dir)); err == nil {
		return nil, usage("%s exists already: nothing was written (choose another name)", dir)
	}
	return writeScaffold(h.Paths, "newtask", dir)
}

// writeScaffold writes one of the embedded directories.
func writeScaffold(paths Paths, of, dir string) (written []string, err error) {
	files, err := scaffoldFiles(of)
	if err != nil {
		return nil, err
	}
	return writeFiles(paths, files, dir)
}

// refuseExisting refuses a file that exists.
func refuseExisting(paths Paths, dir, name string) error {
	if _, err := os.Lstat(filepath.Join(paths.Path(dir), name)); err == nil {
		return usage("%s exists already: nothing was written (choose another directory, or move it away)", filepath.Join(dir, name))
	}
	return nil
}

// writeFiles writes new files below a directory, or none if any of them exists.
func writeFiles(paths Paths, files []scaffoldFile, dir string) (written []string, err error) {
	root := paths.Path(dir)
	for _, f := range files {
		if err := refuseExisting(paths, dir, f.path); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		target := filepath.Join(root, f.path)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return written, err
		}
		if err := writeNew(target, f.data, f.mode); err != nil {
			return written, err
		}
		written = append(written, filepath.Join(dir, f.path))
	}
	return written, nil
}

func writeNew(target string, data []byte, mode fs.FileMode) (err error) {
	file, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.Write(data)
	return err
}

type scaffoldFile struct {
	path string // below the target directory
	data []byte
	mode fs.FileMode
}

func scaffoldFiles(of string) ([]scaffoldFile, error) {
	var files []scaffoldFile
	err := fs.WalkDir(scaffold, of, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := scaffold.ReadFile(name)
		if err != nil {
			return err
		}
		f := scaffoldFile{path: filepath.FromSlash(name[len(of)+1:]), data: data, mode: 0o644}
		if path.Base(name) == "gitignore" {
			f.path = ".gitignore"
		}
		if path.Base(name) == "workflow.yml" {
			f.path = filepath.FromSlash(WorkflowPath)
		}
		if path.Ext(name) == ".sh" {
			f.mode = 0o755
		}
		files = append(files, f)
		return nil
	})
	return files, err
}
