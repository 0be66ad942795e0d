package task

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/core/task/harborfiles"
	"github.com/org/rollout-action/internal/core/task/taskdir"
)

const (
	maxInstructionSize = 16 << 20
	maxEntries         = 100_000 // in tests/, and in solution/
)

// checkFiles finds the problems with a task's files, except task.toml.
//
// It walks tests/ and solution/ as they are copied into environments. It leaves environment/ to the
// provider that builds the image, which may ignore parts of it. If task.toml could not be read, it
// may have named an image, and steps.
func checkFiles(t *Task, p *problems, unread bool) {
	if t.Config.Environment.DockerImage == "" && !unread {
		p.wantDirectory(t.FS, environmentDir, "add environment/Dockerfile, or set docker_image in "+configFile)
	}
	steps, _ := fs.Glob(t.FS, stepsDir+"/*/"+instructionFile)
	switch {
	case len(t.Config.Steps) > 0:
		p.checkSteps(t)
		p.checkOptional(t.copied(), testsDir)
	case len(steps) > 0 && unread: // they have their own instructions and tests
	default:
		if len(steps) > 0 {
			p.warn(steps[0], "has no effect", "name the steps in "+configFile+": [[steps]]")
		}
		p.checkInstruction(t.FS, instructionFile)
		p.checkTests(t)
	}
	if _, err := fs.Stat(t.FS, solutionDir); !errors.Is(err, fs.ErrNotExist) && p.wantDirectory(t.FS, solutionDir, "") {
		p.checkCopied(t.copied(), solutionDir)
	}
}

// checkInstruction finds the problems with an instruction.
func (p *problems) checkInstruction(fsys fs.FS, name string) {
	const purpose = "it is the agent's instruction"
	if text, ok := p.readFile(fsys, name, maxInstructionSize, purpose); ok && len(bytes.TrimSpace(text)) == 0 {
		p.warn(name, "is empty", purpose)
	}
}

// checkTests finds the problems with the files of the tests, which may be in an image.
func (p *problems) checkTests(t *Task) {
	if _, bundled := t.Apart(false); bundled {
		return
	}
	if p.wantDirectory(t.FS, testsDir, "it holds test.sh, the script that writes the reward") {
		p.wantFile(t.copied(), testsScript, "it is the script that writes the reward")
		p.checkCopied(t.copied(), testsDir)
	}
}

// wantDirectory reports whether there is a directory called name, and records a problem if not.
func (p *problems) wantDirectory(fsys fs.FS, name, hint string) bool {
	info, err := fs.Stat(fsys, name)
	switch {
	case err != nil:
		p.unreadable(fsys, name, err, hint)
	case !info.IsDir():
		p.add(name, "is a file, not a directory", hint)
	default:
		return true
	}
	return false
}

// wantFile records a problem unless there is a file called name that can be opened.
func (p *problems) wantFile(fsys fs.FS, name, hint string) {
	f, err := fsys.Open(name)
	if err != nil {
		p.unreadable(fsys, name, err, hint)
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		p.add(name, "is a directory, not a file", hint)
	}
}

// unreadable records why a file or directory cannot be opened.
func (p *problems) unreadable(fsys fs.FS, name string, err error, hint string) {
	target, linkErr := fs.ReadLink(fsys, name)
	switch {
	case linkErr == nil && errors.Is(err, fs.ErrNotExist):
		p.add(name, fmt.Sprintf("is a link to %q, which does not exist", target), hint)
	case linkErr == nil && errors.Is(err, syscall.ELOOP):
		p.add(name, fmt.Sprintf("is a link to %q, which is part of a loop", target), hint)
	case linkErr == nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, taskdir.ErrNotRegular):
		p.add(name, fmt.Sprintf("is a link to %q, which is outside of the task", target), "copy the link's target into the task")
	case errors.Is(err, harborfiles.ErrExcluded):
		p.add(name, "is left out: "+harborfiles.ErrExcluded.Error(), hint)
	case errors.Is(err, fs.ErrNotExist):
		p.add(name, "is missing", hint)
	default:
		p.add(name, "cannot be read: "+reason(err), hint)
	}
}

// checkCopied reports files of a directory that cannot be copied. It follows links as follow does.
func (p *problems) checkCopied(fsys fs.FS, dir string) {
	info, err := fs.Stat(fsys, dir)
	if err != nil {
		p.unreadable(fsys, dir, err, "")
		return
	}
	c := copyCheck{p, fsys, 0}
	c.directory(dir, []fs.FileInfo{info})
	if c.entries > maxEntries {
		p.add(dir, fmt.Sprintf("has more than %d files", maxEntries), "")
	}
}

type copyCheck struct {
	*problems
	fsys    fs.FS
	entries int
}

// directory checks the directory dir; around is dir with its parents.
func (c *copyCheck) directory(dir string, around []fs.FileInfo) {
	entries, err := fs.ReadDir(c.fsys, dir)
	if err != nil {
		c.unreadable(c.fsys, dir, err, "")
		return
	}
	for _, e := range entries {
		if c.entries++; c.entries > maxEntries {
			return
		}
		c.entry(taskdir.Join(dir, e.Name()), e, around)
	}
}

func (c *copyCheck) entry(name string, e fs.DirEntry, around []fs.FileInfo) {
	if !utf8.ValidString(name) {
		c.add(strings.ToValidUTF8(name, "\uFFFD"), "has a name that is not UTF-8", "rename it")
		return
	}
	if e.Type().IsRegular() {
		c.readable(name)
		return
	}
	info, err := e.Info()
	if e.Type()&fs.ModeSymlink != 0 {
		info, err = fs.Stat(c.fsys, name)
	}
	switch {
	case err != nil:
		c.unreadable(c.fsys, name, err, "")
	case info.IsDir():
		for _, outer := range around {
			if os.SameFile(outer, info) {
				c.add(name, "is a link to one of its parent directories", "")
				return
			}
		}
		c.directory(name, append(around[:len(around):len(around)], info))
	case info.Mode().IsRegular():
		c.readable(name)
	default:
		c.add(name, "is "+taskdir.ErrNotRegular.Error(), "")
	}
}

// readable records a problem if a script cannot be opened. Problems with other files appear when
// they are copied.
func (c *copyCheck) readable(name string) {
	if !strings.HasSuffix(name, ".sh") {
		return
	}
	f, err := c.fsys.Open(name)
	if err != nil {
		c.unreadable(c.fsys, name, err, "")
		return
	}
	_ = f.Close() // only read
}
