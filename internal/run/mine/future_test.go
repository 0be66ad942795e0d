package mine_test

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/mine"
)

// Nothing of a change is in the environment of its task: it has the files of the commit before,
// byte for byte, a Dockerfile, and nothing else. The repository has the change in packed and loose
// objects, tags, notes, reflogs, a stash, and in ignored files that a build left.
func TestNothingOfTheFutureIsInTheEnvironment(t *testing.T) {
	r := newRepo(t)
	r.commit("begin", "go.mod", goMod, "calc.go", goCode, "calc_test.go", goTest, ".gitignore", "*.log\ncache/\n", "run.sh", "#!/bin/sh\n", "evals/mined/old/x.txt", "MARK in the dataset\n", "in/dir/x.txt", "x")
	r.git("tag", "v1")
	must(t, os.Symlink("/etc/hostname", filepath.Join(r.top, "outside")))
	must(t, os.Symlink("../../../../../../../../../../etc", filepath.Join(r.top, "above")))
	r.commit("links")
	r.commit("MARK in the subject", "calc.go", goCode+"// MARK in code\n", "calc_test.go", goTest+"// MARK in a test\n", "MARK.go", "package calc\n", "MARK_test.go", "package calc\n", "go.sum", "MARK\n")
	r.git("tag", "-a", "-m", "MARK in a tag", "MARK-v2")
	r.git("notes", "add", "-m", "MARK in a note")
	r.git("gc", "--quiet")
	r.commit("later", "later.txt", "MARK later\n")
	r.git("branch", "MARK-branch")
	r.put("calc.go", "MARK in a stash\n")
	r.git("stash", "--quiet")
	r.put("build.log", "MARK in an ignored file\n", "cache/calc.o", "MARK in a cache\n", "new.txt", "MARK in the working tree\n")
	outside, err := os.Stat("/etc/hostname")
	must(t, err)

	l, candidates := r.look(mine.Options{})
	dir := r.write(l, candidates, mine.WriteOptions{Skip: func(name string) bool { return strings.HasPrefix(name, "evals/mined/") }})
	of := filepath.Join(dir, candidates[1].Task)
	want := r.treeOf(candidates[1].Parent, "repo/")
	delete(want, "repo/evals/mined/old/x.txt")
	got, times := contents(t, filepath.Join(of, "environment"))
	if dockerfile := got["Dockerfile"]; !strings.HasPrefix(dockerfile, "# Proposed by rollout mine.") || strings.Contains(dockerfile, "MARK") {
		t.Errorf("the Dockerfile is %q", dockerfile)
	}
	delete(got, "Dockerfile")
	if !maps.Equal(got, want) {
		t.Errorf("the environment has %q, want the files of the commit before", slices.Sorted(maps.Keys(got)))
	}
	for name, text := range got {
		for _, of := range []string{"MARK", candidates[0].Commit[:7], candidates[1].Commit[:7], candidates[1].Date[:10]} {
			if strings.Contains(name+text, of) {
				t.Errorf("%s has %s", name, of)
			}
		}
	}
	if year2000 := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); len(times) != 1 || !times[0].Equal(year2000) {
		t.Errorf("the files have the times %v, want %v", times, year2000)
	}
	if info, err := os.Stat("/etc/hostname"); err != nil || !info.ModTime().Equal(outside.ModTime()) {
		t.Errorf("the time of a file outside changed: %v", err)
	}
}

// contents returns the files below dir, links as an arrow and their target; and the times of all
// files and directories that are no links, each once.
func contents(t *testing.T, dir string) (files map[string]string, times []time.Time) {
	t.Helper()
	files = map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		info, err := e.Info()
		if err != nil {
			return err
		}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			files[name] = "-> " + to
			return err
		case !info.IsDir():
			text, err := os.ReadFile(path)
			files[name] = string(text)
			if err != nil {
				return err
			}
		}
		if !slices.ContainsFunc(times, info.ModTime().Equal) {
			times = append(times, info.ModTime())
		}
		return nil
	}))
	return files, times
}

// treeOf returns the files of a commit as git itself tells them, links as an arrow and their
// target. Their names begin with prefix.
func (r *repo) treeOf(commit, prefix string) map[string]string {
	r.t.Helper()
	files := map[string]string{}
	for _, line := range strings.Split(strings.TrimSuffix(r.output("ls-tree", "-r", "-z", commit), "\x00"), "\x00") {
		head, name, _ := strings.Cut(line, "\t")
		words, name := strings.Fields(head), prefix+name
		files[name] = r.output("cat-file", "blob", words[2])
		if words[0] == "120000" {
			files[name] = "-> " + files[name]
		}
	}
	return files
}

func (r *repo) output(args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", args...)
	cmd.Dir = r.top
	out, err := cmd.Output()
	must(r.t, err)
	return string(out)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The parts of a change are where its task needs them, and nowhere else.
func TestPartsOfATask(t *testing.T) {
	r := newRepo(t)
	r.commit("begin", "go.mod", goMod, "calc.go", goCode, "calc_test.go", goTest, ".gitignore", "*.log\n")
	r.commit("change", "calc.go", goCode+"// MARK in code\n", "calc_test.go", goTest+"// MARK in a test\n", "MARK.go", "package calc\n", "MARK_test.go", "package calc\n", "go.sum", "MARK\n")
	l, candidates := r.look(mine.Options{})
	of := filepath.Join(r.write(l, candidates, mine.WriteOptions{}), candidates[0].Task)
	for name, want := range map[string]string{
		"solution/_files/calc.go": "MARK in code", "solution/_files/MARK.go": "package calc", "solution/_files/go.sum": "MARK", "solution/change.patch": "+// MARK in code",
		"tests/_files/calc_test.go": "MARK in a test", "tests/_files/MARK_test.go": "package calc", "tests/replaced.txt": "MARK_test.go\ncalc_test.go\n", "tests/targets.txt": "./.\n",
	} {
		if text, err := os.ReadFile(filepath.Join(of, name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %q, %v; want %q", name, text, err, want)
		}
	}
	for _, name := range []string{"solution/_files/calc_test.go", "tests/_files/calc.go", "solution/_files/.gitignore"} {
		if _, err := os.Lstat(filepath.Join(of, name)); err == nil {
			t.Errorf("%s is where it does not belong", name)
		}
	}
	if text, err := os.ReadFile(filepath.Join(of, "solution/change.patch")); err != nil || strings.Contains(string(text), "in a test") {
		t.Errorf("the patch of the solution: %q, %v", text, err)
	}
	if loaded := task.Load(of); loaded.Err() != nil {
		t.Error(loaded.Err())
	}
}
