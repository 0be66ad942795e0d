package prove

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
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
	size       int64
	executable bool
	head       []byte // its beginning, at most maxHead bytes
	text       bool   // head holds no zero byte
}

// whole reports whether head is the whole file.
func (f file) whole() bool { return int64(len(f.head)) == f.size }

// lint returns the findings in a task's files.
func lint(t *task.Task) []Finding {
	l := layoutOf(t)
	asWritten, findings := read(t.FS)
	files, whole := l.rename(asWritten), len(findings) == 0
	var leaks []leak
	image := installedBy(files)
	for _, f := range files {
		findings = append(findings, fileName(f)...)
		findings = append(findings, largeFile(f)...)
		if f.text {
			leaks = append(leaks, secrets(f)...)
			findings = append(findings, crlf(t, f)...)
			findings = append(findings, stub(f)...)
			findings = append(findings, bom(t, f)...)
			findings = append(findings, shebang(t, f)...)
			findings = append(findings, bashSyntax(t, f)...)
		}
		switch {
		case f.name == instructionFile:
			findings = append(findings, instructionLeak(f, files)...)
		case f.name == dockerfile:
			findings = append(findings, dockerfileRules(t, f)...)
		case f.name == testsDockerfile:
			if apart, bundled := t.Apart(false); bundled {
				findings = append(findings, dockerfileRules(apart, f)...)
			}
		case f.name == configFile:
			findings = append(findings, imageOfConfig(t, f)...)
		case strings.HasPrefix(f.name, "tests/") && isShell(f):
			findings = append(findings, testScript(f, image)...)
		}
	}
	findings = append(findings, secretFinding(leaks)...)
	findings = append(findings, copies(l.context(asWritten))...)
	if whole {
		findings = append(findings, noReward(t, files)...)
	}
	return l.written(append(findings, longTimeouts(t)...))
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
	head, err := io.ReadAll(io.LimitReader(opened, int64(most)))
	if err != nil {
		return file{}, false
	}
	return file{
		name: name, size: info.Size(), executable: info.Mode()&0o111 != 0, head: head, text: bytes.IndexByte(head, 0) < 0,
	}, true
}

// lineAt returns the number of the line that contains the byte at offset.
func lineAt(text []byte, offset int) int { return 1 + bytes.Count(text[:offset], []byte("\n")) }
