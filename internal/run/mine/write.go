package mine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/org/rollout-action/internal/lib/git"
)

// WriteOptions say how tasks are written.
type WriteOptions struct {
	Image       string                 // of the proposed Dockerfile; "": the language's
	Dockerfile  []byte                 // in place of the proposed one; nil: propose one
	VerifierSec int                    // how long the tests may take
	Skip        func(name string) bool // files of the repository that no environment gets
	// PullText returns the title and description of a merged pull request; nil: they are not read.
	// With an error, the message of the commit is the instruction.
	PullText func(ctx context.Context, number int) (title, body string, err error)
}

const (
	// repoDir is the directory below environment that has the repository before the change.
	repoDir = "repo"
	// changedDir is the directory below tests and solution that has the files of the change. The
	// underscore hides them from go build ./... in the repository that has the dataset.
	changedDir = "_files"
)

// Write writes the task of a promising candidate into the new directory dir. Its names of tests are
// not known yet. It drops the candidate if its files cannot be written or its tests cannot be run.
// The environment has only the tree of the parent: nothing of the change, and nothing of git.
func Write(ctx context.Context, repo *git.Local, c *Candidate, dir string, opts WriteOptions) error {
	environment := filepath.Join(dir, "environment")
	if err := os.MkdirAll(environment, 0o755); err != nil {
		return err
	}
	var names []string
	keep := func(name string) bool {
		if opts.Skip(name) {
			return false
		}
		names = append(names, name)
		return true
	}
	if err := export(ctx, repo.At(c.Parent), c, filepath.Join(environment, repoDir), keep); err != nil || c.Reason != Promising {
		return err
	}
	c.findNear(names)
	dockerfile := opts.Dockerfile
	if dockerfile == nil {
		dockerfile = []byte(c.Dockerfile(opts.Image))
	}
	message, err := repo.At(c.Commit).Message(ctx)
	if err != nil {
		return err
	}
	text, from := instructionOf(message)
	if number := numberOf(message); number > 0 && opts.PullText != nil {
		if title, body, err := opts.PullText(ctx, number); err == nil {
			if said, of := instructionOfPull(title, body); of != isStub && (from == isStub || len(said) > len(text)) {
				text, from = said, of
			}
		}
	}
	toml, err := taskFile(c, from, opts.VerifierSec)
	if err != nil {
		return err
	}
	if err := c.writeParts(ctx, repo.At(c.Commit), dir); err != nil || c.Reason != Promising {
		return err
	}
	patch, err := c.patch(ctx, repo)
	if err != nil {
		return err
	}
	parts := map[string][]byte{
		"task.toml": toml, "instruction.md": []byte(text), "environment/Dockerfile": dockerfile,
		"solution/solve.sh": script("solve.sh"), "solution/change.patch": patch,
		"tests/test.sh": script("test.sh"), "tests/targets.txt": lines(c.plan.targets), "tests/project.txt": lines([]string{c.plan.dir}),
		"tests/near.txt": lines(c.near), "tests/near_names.txt": nil,
	}
	scripts := runners[c.runner].scripts
	if c.runner == "node" && c.plan.command[0] == "node" {
		scripts = scripts[1:]
	}
	for i, name := range scripts {
		to := name
		if i == 0 {
			to = "run.sh"
		}
		if i == 0 || path.Ext(name) != ".sh" {
			parts["tests/"+to] = script(name)
		}
	}
	if c.plan.command != nil {
		parts["tests/command.txt"] = lines(c.plan.command)
	}
	if err := writeAll(dir, parts); err != nil {
		return err
	}
	return setTimes(environment)
}

// fileTime is when the files of an environment were changed, as they say: all at the same time,
// which is that of no commit.
var fileTime = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// setTimes sets the time of all files and directories in dir, and dir. It leaves links alone,
// because the times of what they point to are not ours.
func setTimes(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		return root.Chtimes(name, fileTime, fileTime)
	})
}

// Dockerfile returns the Dockerfile that Rollout proposes for a promising candidate; image replaces
// the proposed one, if it is not "".
func (c *Candidate) Dockerfile(image string) string { return c.plan.dockerfile(image) }

// writeParts writes the files of the change: those of tests below tests, the others below solution.
func (c *Candidate) writeParts(ctx context.Context, after *git.Local, dir string) error {
	var replaced, removed []string
	written := map[bool]map[string]bool{true: {}, false: {}} // by whether they are tests
	for _, change := range c.changes {
		isTest := kindOf(change.Name) == test
		wasTest := kindOf(change.OldName) == test
		if !change.Removed() {
			written[isTest][change.Name] = true
		}
		if isTest {
			replaced = append(replaced, change.Name)
		}
		if gone := change.Removed() || change.Moved(); gone && wasTest {
			replaced = append(replaced, change.OldName)
		} else if gone {
			removed = append(removed, change.OldName)
		}
	}
	for _, name := range c.nearFiles { // the agent may have changed them
		written[true][name] = true
		replaced = append(replaced, name)
	}
	for of, into := range map[bool]string{true: "tests", false: "solution"} {
		if err := os.MkdirAll(filepath.Join(dir, into), 0o755); err != nil {
			return err
		}
		if err := export(ctx, after, c, filepath.Join(dir, into, changedDir), func(name string) bool { return written[of][name] }); err != nil {
			return err
		}
	}
	return writeAll(dir, map[string][]byte{"tests/replaced.txt": lines(unique(replaced)), "solution/removed.txt": lines(unique(removed))})
}

// export writes files of a commit, or drops the candidate if they cannot be written.
func export(ctx context.Context, from *git.Local, c *Candidate, into string, keep func(string) bool) error {
	_, _, err := from.Export(ctx, keep, into)
	if tree, ok := errors.AsType[*git.TreeError](err); ok {
		c.drop(Tree, "%s", strings.Join(tree.Problems, "; "))
		return nil
	}
	if err != nil {
		return fmt.Errorf("write the files of commit %s: %w", from.ID[:12], err)
	}
	return os.MkdirAll(into, 0o755) // also if there is no file
}

// taskFile returns the task.toml of a candidate.
func taskFile(c *Candidate, from string, verifierSec int) ([]byte, error) {
	t, err := template.New("task.toml").Parse(string(script("task.toml")))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, struct {
		*Candidate
		Language, Instruction string
		VerifierSec           int
	}{c, c.language, from, verifierSec})
	return b.Bytes(), err
}

// SetNames writes the names of the tests that a task requires: those of the change, and those near
// it.
func SetNames(c *Candidate, dir string, names, near []string) error {
	c.Tests = len(names) + len(near)
	file := filepath.Join(dir, "task.toml")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text = bytes.Replace(text, []byte("\ntests = 0\n"), fmt.Appendf(nil, "\ntests = %d\n", c.Tests), 1)
	return writeAll(dir, map[string][]byte{"task.toml": text, "tests/names.txt": lines(names), "tests/near_names.txt": lines(near)})
}

func lines(of []string) []byte {
	var b bytes.Buffer
	for _, line := range of {
		b.WriteString(line + "\n")
	}
	return b.Bytes()
}

// writeAll writes files below dir. Scripts can be executed.
func writeAll(dir string, files map[string][]byte) error {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		mode := os.FileMode(0o644)
		if path.Ext(name) == ".sh" {
			mode = 0o755
		}
		target := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, files[name], mode); err != nil {
			return err
		}
	}
	return nil
}
