package prove

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/task"
)

// Limits on the part of a task that is read. A task may come from a stranger.
const (
	maxHead  = 1 << 20   // of a file
	maxFiles = 20_000    // of a task
	maxRead  = 128 << 20 // of all files together
)

// file is a file of a task. Links are not followed: they point to another file of the task, or out
// of it.
type file struct {
	name       string // below the task, with forward slashes
	step       string // the directory of the step that name is below; "": it is below the task
	size       int64
	executable bool
	head       []byte // its beginning, at most maxHead bytes
	text       bool   // head holds no zero byte
}

// whole reports whether head is the whole file.
func (f file) whole() bool { return int64(len(f.head)) == f.size }

// lint returns the findings in a task's files.
func lint(t *task.Task) []Finding {
	files, findings := read(t.FS)
	whole := len(findings) == 0
	var leaks []leak
	for _, f := range files {
		findings = append(findings, fileName(f)...)
		findings = append(findings, largeFile(f)...)
		if f.text {
			leaks = append(leaks, secrets(f)...)
		}
	}
	findings = append(findings, secretFinding(leaks)...)
	for _, v := range viewsOf(t, files) {
		findings = append(findings, v.lint(whole)...)
	}
	return uniqueFindings(findings)
}

// uniqueFindings returns findings, those that are equal once: several steps have the same files.
func uniqueFindings(findings []Finding) []Finding {
	seen := map[Finding]bool{}
	return slices.DeleteFunc(findings, func(f Finding) bool {
		again := seen[f]
		seen[f] = true
		return again
	})
}

// view is a task, or a step of one, as the rules see it. The files have the names that rules know.
type view struct {
	task    *task.Task
	files   []file // whose own problems are found
	others  []file // which belong to it, too: those that a step shares
	context []file // all, with each file of the build context below environment/
	graded  bool   // its tests must write a reward
	written func([]Finding) []Finding
}

// viewsOf returns the views of a task: one or, of a task with steps, that of the files that steps
// share, and one for each step.
func viewsOf(t *task.Task, files []file) []view {
	steps := t.Steps()
	if len(steps) == 0 {
		l := layoutOf(t)
		return []view{{task: t, files: l.rename(files), context: l.context(files), graded: true, written: l.written}}
	}
	own := make([][]file, len(steps))
	var shared []file
	for _, f := range files {
		at := slices.IndexFunc(steps, func(step *task.Task) bool { return strings.HasPrefix(f.name, stepDir(step)) })
		if at < 0 {
			shared = append(shared, f)
			continue
		}
		f.step = stepDir(steps[at])
		f.name = strings.TrimPrefix(f.name, f.step)
		own[at] = append(own[at], f)
	}
	all := []view{{task: t, files: shared, context: shared, written: func(found []Finding) []Finding { return found }}}
	for i, step := range steps {
		all = append(all, view{
			task: step, files: own[i], others: shared, context: slices.Concat(shared, own[i]), graded: true,
			written: func(found []Finding) []Finding { return inStep(stepDir(step), own[i], found) },
		})
	}
	return all
}

func stepDir(step *task.Task) string { return "steps/" + step.StepName() + "/" }

// inStep returns findings of a step with the names of its own files.
func inStep(dir string, own []file, found []Finding) []Finding {
	var pairs []string
	has := map[string]bool{}
	for _, f := range own {
		has[f.name] = true
		if f.name == testsScript || f.name == solutionScript {
			pairs = append(pairs, f.name, dir+f.name)
		}
	}
	texts := strings.NewReplacer(pairs...)
	for i := range found {
		f := &found[i]
		if has[f.File] {
			f.File = dir + f.File
		}
		f.Message = texts.Replace(f.Message)
	}
	return found
}

// lint returns the findings in the files of a view.
func (v view) lint(whole bool) (findings []Finding) {
	t, all := v.task, slices.Concat(v.files, v.others)
	built := v.dockerfile()
	image := installedBy(built.stages)
	for _, f := range v.files {
		if f.text {
			findings = append(findings, crlf(t, f)...)
			findings = append(findings, stub(f)...)
			findings = append(findings, bom(t, f)...)
			findings = append(findings, shebang(t, f)...)
		}
		switch {
		case f.name == instructionFile:
			findings = append(findings, instructionLeak(f, all)...)
		case f.name == dockerfile && f.step == "":
			findings = append(findings, dockerfileRules(t, built)...)
		case f.name == testsDockerfile:
			if apart, bundled := t.Apart(false); bundled {
				findings = append(findings, dockerfileRules(apart, parseDockerfile(f))...)
			}
		case f.name == configFile:
			findings = append(findings, imageOfConfig(t, f)...)
		case isShell(f):
			findings = append(findings, shellScript(t, f, image)...)
		}
	}
	findings = append(findings, copies(v.context, built.stages)...)
	if whole && v.graded {
		findings = append(findings, noReward(t, all)...)
	}
	return v.written(append(findings, longTimeouts(t)...))
}

// dockerfile returns the Dockerfile of the image; the zero value if there is none.
func (v view) dockerfile() parsedDockerfile {
	at := slices.IndexFunc(v.context, func(f file) bool { return f.name == dockerfile && f.step == "" })
	if at < 0 {
		return parsedDockerfile{}
	}
	return parseDockerfile(v.context[at])
}

// read returns the beginning of every file, sorted by name.
func read(fsys fs.FS) (files []file, problems []Finding) {
	left := maxRead
	cut := false
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, failed error) error {
		if len(files) == maxFiles || left <= 0 {
			cut = true
			return fs.SkipAll
		}
		// Loading the task reports unreadable files where they matter.
		if failed == nil && entry.Type().IsRegular() {
			if f, ok := readFile(fsys, name, min(maxHead, left)); ok {
				left -= len(f.head)
				files = append(files, f)
			}
		}
		return nil
	})
	if cut || err != nil {
		problems = append(problems, Finding{Rule: ruleUnread, Severity: Warning,
			Message: fmt.Sprintf("only the first %d files were checked", len(files)),
			Hint:    "pack large collections of files into an archive"})
	}
	return files, problems
}

func readFile(fsys fs.FS, name string, most int) (file, bool) {
	opened, err := fsys.Open(name)
	if err != nil {
		return file{}, false
	}
	defer opened.Close()
	info, err := opened.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return file{}, false
	}
	head := make([]byte, min(int64(most), info.Size()))
	n, err := io.ReadFull(opened, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) { // it is shorter by now
		return file{}, false
	}
	head = head[:n]
	return file{
		name: name, size: info.Size(), executable: info.Mode()&0o111 != 0, head: head, text: bytes.IndexByte(head, 0) < 0,
	}, true
}

// lineAt returns the number of the line that contains the byte at offset.
func lineAt(text []byte, offset int) int { return 1 + bytes.Count(text[:offset], []byte("\n")) }
