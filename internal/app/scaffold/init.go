// Package scaffold writes the first files of a user: a job file, a workflow, tasks.
package scaffold

import (
	"embed"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
)

// templates holds what Init writes below repository, and what NewTask writes below task.
//
//go:embed all:repository all:task
var templates embed.FS

// WorkflowPath is the path of the workflow that Init writes, relative to its directory.
const WorkflowPath = ".github/workflows/rollout.yml"

// NewTask writes a task template into a directory that does not exist yet, and returns the files
// that it wrote.
func NewTask(h *host.Host, dir string) (written []string, err error) {
	if _, err := os.Lstat(h.Path(dir)); err == nil {
		return nil, host.Usagef("%s exists already: nothing was written (choose another name)", dir)
	}
	return writeScaffold(h.Paths, "task", dir)
}

// writeScaffold writes one of the embedded directories.
func writeScaffold(paths host.Paths, of, dir string) (written []string, err error) {
	files, err := scaffoldFiles(of)
	if err != nil {
		return nil, err
	}
	return writeFiles(paths, files, dir)
}

// refuseExisting refuses a file that exists.
func refuseExisting(paths host.Paths, dir, name string) error {
	if _, err := os.Lstat(filepath.Join(paths.Path(dir), name)); err == nil {
		return host.Usagef("%s exists already: nothing was written (choose another directory, or move it away)", filepath.Join(dir, name))
	}
	return nil
}

// writeFiles writes new files below a directory, or none if any of them exists.
func writeFiles(paths host.Paths, files []scaffoldFile, dir string) (written []string, err error) {
	root := paths.Path(dir)
	for _, f := range files {
		if f.adds {
			continue
		}
		if err := refuseExisting(paths, dir, f.path); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		target := filepath.Join(root, f.path)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return written, err
		}
		changed, err := f.write(target)
		if err != nil {
			return written, err
		}
		if !changed {
			continue
		}
		written = append(written, filepath.Join(dir, f.path))
	}
	return written, nil
}

type scaffoldFile struct {
	path string // below the target directory
	data []byte
	mode fs.FileMode
	adds bool // its lines are added to a file that exists
}

// write writes the file, or adds its lines, and reports whether anything changed.
func (f scaffoldFile) write(target string) (changed bool, err error) {
	if !f.adds {
		return true, host.WriteNew(target, f.data, f.mode)
	}
	before, err := os.ReadFile(target)
	if errors.Is(err, fs.ErrNotExist) {
		return true, host.WriteNew(target, f.data, f.mode)
	}
	if err != nil {
		return false, err
	}
	after := ignoring(string(before), slices.Collect(strings.Lines(string(f.data)))...)
	if after == string(before) {
		return false, nil
	}
	file, err := os.OpenFile(target, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.WriteString(after[len(before):])
	return true, err
}

func scaffoldFiles(of string) ([]scaffoldFile, error) {
	var files []scaffoldFile
	err := fs.WalkDir(templates, of, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := templates.ReadFile(name)
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
