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
	"github.com/org/rollout-action/internal/lib/nofollow"
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
	abs, err := filepath.Abs(paths.Path(dir))
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(host.Resolved(abs), name)); err == nil {
		return host.Usagef("%s exists already: nothing was written (choose another directory, or move it away)", filepath.Join(dir, name))
	}
	return nil
}

// writeFiles writes new files below a directory, or none if any of them exists or cannot be written
// there. What was written before an error is removed.
func writeFiles(paths host.Paths, files []scaffoldFile, dir string) (written []string, err error) {
	abs, err := filepath.Abs(paths.Path(dir))
	if err != nil {
		return nil, err
	}
	root := host.Resolved(abs) // as ".." of a link leads elsewhere
	bound := root
	if top, _ := topOf(root); top != "" {
		bound = top
	}
	shown := func(name string) string {
		if root != abs {
			return paths.Shown(filepath.Join(root, name))
		}
		return filepath.Join(dir, name)
	}
	for _, f := range files {
		if why := f.obstacle(root, bound); why != "" {
			return nil, host.Usagef("%s %s: nothing was written (%s)", host.Clean(shown(f.path)), why, f.wayOut())
		}
	}
	var made []string
	defer func() {
		if err != nil {
			for _, target := range made {
				err = errors.Join(err, os.Remove(target))
			}
			written = nil
		}
	}()
	for _, f := range files {
		target := filepath.Join(root, f.path)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return written, err
		}
		if _, err := os.Lstat(target); errors.Is(err, fs.ErrNotExist) {
			made = append(made, target)
		}
		changed, err := f.write(target)
		if err != nil {
			return written, err
		}
		if changed {
			written = append(written, shown(f.path))
		}
	}
	return written, nil
}

// maxIgnoreFile bounds the size of a .gitignore to which lines are added.
const maxIgnoreFile = 1 << 20

// obstacle says why the file cannot be written below root; "" if nothing is in the way. No link may
// lead out of the directory bound.
func (f scaffoldFile) obstacle(root, bound string) string {
	target := filepath.Join(root, f.path)
	for at := filepath.Dir(target); at != bound && at != filepath.Dir(at); at = filepath.Dir(at) {
		real, err := filepath.EvalSymlinks(at)
		if errors.Is(err, fs.ErrNotExist) {
			if _, err := os.Lstat(at); err == nil {
				return "is below a broken link"
			}
			continue
		}
		if err != nil || !host.IsDir(real) {
			return "cannot be written, because a directory above it is a file, or cannot be entered"
		}
		if rel, err := filepath.Rel(bound, real); err != nil || !filepath.IsLocal(rel) {
			return "is behind a link that leads out of the repository"
		}
	}
	info, err := os.Lstat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ""
	case err != nil:
		return "cannot be read"
	case !f.adds:
		return "exists already"
	case !info.Mode().IsRegular():
		return "is not a plain file"
	case info.Size() > maxIgnoreFile:
		return "is larger than 1 MiB"
	}
	return ""
}

// wayOut says what to do about an obstacle.
func (f scaffoldFile) wayOut() string {
	if strings.HasPrefix(filepath.ToSlash(f.path), "evals/") {
		return "choose another directory, or run the tasks that are there with --tasks"
	}
	return "choose another directory, or move it away"
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
	before, err := nofollow.ReadFile(target, maxIgnoreFile)
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
	file, err := nofollow.OpenAppend(target, f.mode)
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
