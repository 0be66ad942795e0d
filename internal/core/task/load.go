package task

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/task/commits"
	"github.com/org/rollout-action/internal/core/task/taskdir"
	"github.com/org/rollout-action/internal/core/task/terminalbench"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/git"
)

// Load loads the task in directory dir, which may be relative, with the zero Options. It never
// fails: errors are in Missing and Problems. Their file names begin with dir as given. To load many
// tasks, use one Loader.
func Load(dir string) *Task { return new(Loader).Load(dir) }

// Loader loads tasks. It caches the commits of the repositories that contain them, so they are as
// old as the Loader. It is safe for concurrent use. The zero value is ready.
type Loader struct {
	Options // must not change after the first use
	commits commits.Finder
	lfs     lfs
}

// Load reads a task as the function Load does, with the Loader's Options. If a fault of this
// machine prevented reading it, Task.ReadError returns it, and the problems do not count.
func (l *Loader) Load(dir string) *Task { return l.LoadAs(dir, "", nil) }

// LoadAs reads a task of a registry as Load does. name is the task's name in the registry ("": the
// directory's name). origin is the commit that the task comes from, which problems name instead of
// dir; nil for a directory of the user's.
func (l *Loader) LoadAs(dir, name string, origin *Origin) *Task {
	t := &Task{Format: cmp.Or(l.Format, FormatRollout), Origin: origin}
	t.Config = Defaults(t.Format)
	p := &problems{task: t, dir: dir}
	defer func() {
		p.list.Sort()
		t.Problems = p.list
	}()
	abs, err := filepath.Abs(dir)
	if err != nil {
		t.Name, t.Dir, t.FS = cmp.Or(name, filepath.Base(dir)), dir, Tree(dir)
		p.add("", err.Error(), "")
		return t
	}
	t.Name, t.Dir = cmp.Or(name, filepath.Base(abs)), abs
	t.FS = taskdir.Watch(Tree(abs), &t.unread)
	defer func() { t.FS = Tree(abs) }()
	info, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Missing = true
		return t
	case err != nil:
		if environment.MachineFault(environment.MarkMachineError(err)) != nil {
			t.unread = environment.MarkMachineError(err)
		}
		p.add("", "cannot be read: "+reason(err), "")
		return t
	case !info.IsDir():
		p.add("", "is not a directory", "a task is a directory with "+configFile+" and "+instructionFile)
		return t
	}
	if !utf8.ValidString(t.Name) {
		p.add("", "has a name that is not UTF-8", "rename it")
	}
	if !taskdir.IsFile(t.FS, configFile) && !taskdir.IsFile(t.FS, instructionFile) {
		if hint := git.SubmoduleHint(abs); hint != "" {
			p.add("", "has no files", hint)
			return t
		}
	}
	if isBench(t.FS) {
		t.loadBench(p, l.Options)
	} else {
		t.Config, t.variables = loadConfig(t.FS, p, l.Options)
		unread := p.list.Err() != nil
		t.loadServices(p)
		checkFiles(t, p, unread)
	}
	t.has = map[string]bool{solutionScript: taskdir.IsFile(t.copied(), solutionScript)}
	for _, name := range []string{dockerfile, testsDockerfile, testsCompose} {
		t.has[name] = taskdir.IsFile(t.FS, name)
	}
	if origin != nil {
		t.GitCommitID = &origin.Commit
		return t
	}
	repo, below := l.commits.Of(abs)
	if kept := l.lfs.keeps(filepath.Dir(abs), abs); kept || repo.Top == "" {
		p.checkPointers(t.FS, kept)
	}
	t.GitCommitID, t.RepoPath = repo.Commit, below
	return t
}

// IsTask reports whether the directory name of fsys looks like a task, valid or not: it has a
// task.toml or an instruction.md, or it is one of terminal-bench before version 2. The error is a
// fault of this machine (environment.MachineError).
func IsTask(fsys fs.FS, name string) (bool, error) {
	is, _, err := Look(fsys, name)
	if fault := environment.MachineFault(err); fault != nil {
		return is, fmt.Errorf("look for a task in %s: %w", name, fault)
	}
	return is, nil
}

// Look reports whether the directory name of fsys looks like a task, as IsTask does. If it does
// not, parts are the files in it that only tasks have. The error is a failure to read the
// directory.
func Look(fsys fs.FS, name string) (is bool, parts []string, err error) {
	for _, file := range []string{configFile, instructionFile, testsScript, solutionScript, dockerfile} {
		_, err := fs.Stat(fsys, taskdir.Join(name, file))
		if errors.Is(err, fs.ErrNotExist) { // a link that leads nowhere is a file of a task all the same, which Load refuses
			_, err = fs.Lstat(fsys, taskdir.Join(name, file))
		}
		own := file == configFile || file == instructionFile
		switch {
		case err == nil && own:
			return true, nil, nil
		case err == nil:
			parts = append(parts, file)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			return false, nil, environment.MarkMachineError(err)
		}
	}
	if dir, err := fs.Sub(fsys, name); err == nil && terminalbench.Is(dir) {
		return true, nil, nil
	}
	return false, parts, nil
}

// problems collects the problems with the task in directory dir, which is as the user gave it.
type problems struct {
	task *Task
	dir  string
	list diag.List
}

func (p *problems) add(file, message, hint string) {
	p.list = append(p.list, diag.Diagnostic{File: p.path(file), Message: message, Hint: hint})
}

func (p *problems) warn(file, message, hint string) {
	p.list = append(p.list, diag.Diagnostic{File: p.path(file), Message: message, Hint: hint, Severity: diag.Warning})
}

func (p *problems) path(file string) string {
	if p.task.Origin != nil {
		return p.task.File(file)
	}
	return filepath.Join(p.dir, filepath.FromSlash(file))
}

// readFile returns the content of a file of at most limit bytes. If !ok, it has recorded a problem.
// hint explains the purpose of the file.
func (p *problems) readFile(fsys fs.FS, name string, limit int64, hint string) (content []byte, ok bool) {
	f, err := fsys.Open(name)
	if err != nil {
		p.unreadable(fsys, name, err, hint)
		return nil, false
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		p.add(name, "is a directory, not a file", hint)
		return nil, false
	}
	content, err = io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		p.add(name, "cannot be read: "+reason(err), "")
		return nil, false
	}
	if int64(len(content)) > limit {
		p.add(name, fmt.Sprintf("is larger than %d MiB", limit>>20), "")
		return nil, false
	}
	return content, true
}

// reason returns err without operation and path, which the problem names already.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return err.Error()
}
