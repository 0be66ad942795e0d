package samefiles_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/lib/samefiles"
)

// aRepo is a checkout, and the trees of its commit as git has them.
type aRepo struct {
	t     *testing.T
	dir   string
	limit int // of entries in one listing; 0: none
	asked int
}

func newRepo(t *testing.T, initArgs ...string) *aRepo {
	t.Helper()
	r := &aRepo{t: t, dir: filepath.Join(t.TempDir(), "repo")}
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.git(append([]string{"init", "--quiet"}, initArgs...)...)
	return r
}

func (r *aRepo) git(args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", append([]string{"-C", r.dir, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

func (r *aRepo) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *aRepo) link(target, name string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(target, path)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *aRepo) remove(name string) {
	r.t.Helper()
	if err := os.RemoveAll(filepath.Join(r.dir, name)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *aRepo) commit() {
	r.t.Helper()
	r.git("add", "--all")
	r.git("commit", "--quiet", "-m", "x")
}

func (r *aRepo) Tree(_ context.Context, id string, deep bool) ([]samefiles.Entry, bool, error) {
	r.asked++
	args := []string{"ls-tree", "-z"}
	if deep {
		args = append(args, "-r", "-t")
	}
	var entries []samefiles.Entry
	for line := range strings.SplitSeq(r.git(append(args, id)...), "\x00") {
		if what, name, ok := strings.Cut(line, "\t"); ok {
			f := strings.Fields(what)
			entries = append(entries, samefiles.Entry{Path: name, Mode: f[0], ID: f[2]})
		}
	}
	if r.limit > 0 && deep && len(entries) > r.limit {
		return entries[:r.limit], false, nil
	}
	return entries, true, nil
}

// checker returns a Checker for the current HEAD.
func (r *aRepo) checker() (c *samefiles.Checker, into string) {
	r.t.Helper()
	into = r.t.TempDir()
	c, err := samefiles.New(r, strings.TrimSpace(r.git("rev-parse", "HEAD^{tree}")), r.dir, into)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			r.t.Error(err)
		}
	})
	return c, into
}

// admitted returns the files of the copy after a path was admitted.
func (r *aRepo) admitted(name string) []string {
	r.t.Helper()
	c, into := r.checker()
	at, err := c.Admit(r.t.Context(), filepath.Join(r.dir, name))
	if err != nil || at != filepath.Join(into, name) {
		r.t.Fatalf("admitted %q, %v", at, err)
	}
	return files(r.t, into)
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(dir, path)
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func (r *aRepo) refused(name, why string) {
	r.t.Helper()
	c, _ := r.checker()
	at, err := c.Admit(r.t.Context(), filepath.Join(r.dir, name))
	var refusal *samefiles.Refusal
	if !errors.As(err, &refusal) || !strings.Contains(err.Error(), why) {
		r.t.Errorf("admitted %q, %v, want a refusal with %q", at, err, why)
	}
}

func TestOnlyAdmittedFilesAreCopied(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		r := newRepo(t, "--object-format="+format)
		r.write("job.yaml", "a")
		r.write("evals/one/x.sh", "b")
		r.write("evals/two/y.sh", "b")
		r.write("other/z", "c")
		if err := os.Chmod(filepath.Join(r.dir, "evals/one/x.sh"), 0o755); err != nil {
			t.Fatal(err)
		}
		r.commit()
		if err := os.Chmod(filepath.Join(r.dir, "evals/two/y.sh"), 0o777); err != nil { // as the commit says, not as the disk
			t.Fatal(err)
		}
		if got := r.admitted("evals"); !slices.Equal(got, []string{"evals/one/x.sh", "evals/two/y.sh"}) {
			t.Errorf("copied %q", got)
		}
		c, into := r.checker()
		if _, err := c.Admit(t.Context(), r.dir+"/evals/one/"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Admit(t.Context(), filepath.Join(into, "evals", "two")); err != nil { // named by a file of the copy
			t.Fatal(err)
		}
		for name, want := range map[string]fs.FileMode{"evals/one/x.sh": 0o755, "evals/two/y.sh": 0o644} {
			if info, err := os.Lstat(filepath.Join(into, name)); err != nil || info.Mode() != want {
				t.Errorf("%s has %v, %v, want %v", name, info.Mode(), err, want)
			}
		}
		if at, err := c.Admit(t.Context(), filepath.Join(r.dir, "evals/none")); err != nil || at != filepath.Join(into, "evals/none") {
			t.Errorf("what is nowhere: %q, %v", at, err)
		}
		if got := r.admitted("."); len(got) != 4 {
			t.Errorf("of everything, %q was copied", got)
		}
	}
}

// A file that changes after the check does not change in the copy.
func TestCopyIsWhatWasChecked(t *testing.T) {
	r := newRepo(t)
	r.write("x/a", "right")
	r.write("x/b", "right")
	r.commit()
	c, into := r.checker()
	if _, err := c.Admit(t.Context(), filepath.Join(r.dir, "x")); err != nil {
		t.Fatal(err)
	}
	r.write("x/a", "wrong")
	r.remove("x/b")
	r.link("/etc/passwd", "x/b")
	if _, err := c.Admit(t.Context(), filepath.Join(r.dir, "x")); err != nil {
		t.Errorf("what has been copied is not looked at again: %v", err)
	}
	for _, name := range []string{"x/a", "x/b"} {
		if text, err := os.ReadFile(filepath.Join(into, name)); err != nil || string(text) != "right" {
			t.Errorf("%s has %q, %v", name, text, err)
		}
	}
}

func TestLinks(t *testing.T) {
	r := newRepo(t)
	r.write("shared/lib.sh", "a")
	r.write("evals/one/x", "b")
	r.link("../../shared/lib.sh", "evals/one/lib.sh")
	r.link("one", "evals/same")
	r.link("evals", "data")
	r.link("loop", "loop")
	r.link("/etc/passwd", "away/absolute")
	r.link("../../outside", "away2/up")
	r.commit()
	if got := r.admitted("data"); !slices.Equal(got, []string{"data", "evals/one/lib.sh", "evals/one/x", "evals/same", "shared/lib.sh"}) {
		t.Errorf("copied %q", got)
	}
	if got := r.admitted("data/same/x"); !slices.Equal(got, []string{"data", "evals/one/x", "evals/same"}) {
		t.Errorf("copied %q", got)
	}
	r.refused("loop/x", "leads through too many links")
	r.refused("away", "away/absolute is a link that leads out of the checkout")
	r.refused("away2", "away2/up is a link that leads out of the checkout")
	r.remove("data")
	r.link("shared", "data")
	r.refused("data", "data leads elsewhere than in that commit")
	r.remove("data")
	r.write("data/x", "")
	r.refused("data", "data is a link in that commit, and not here")
}

func TestLFSFilesMatchTheirPointers(t *testing.T) {
	content := strings.Repeat("a model ", 1000)
	r := newRepo(t)
	r.write("model", fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%x\nsize %d\n", sha256.Sum256([]byte(content)), len(content)))
	r.commit()
	r.write("model", content)
	if got := r.admitted("model"); !slices.Equal(got, []string{"model"}) {
		t.Errorf("copied %q", got)
	}
	r.write("model", content+"x")
	r.refused("model", "model differs")
}

// The attributes of the directories on the way are in the copy, also of those that links lead to.
// Others that only the checkout has are not.
func TestAttributesOnTheWayAreCopied(t *testing.T) {
	r := newRepo(t)
	for _, name := range []string{".gitattributes", "a/.gitattributes", "a/b/x", "other/.gitattributes", "real/.gitattributes", "real/deep/y"} {
		r.write(name, "*.bin filter=lfs\n")
	}
	r.link("../real/deep", "a/to")
	r.commit()
	r.write("a/b/.gitattributes", "* -filter\n")
	if got, want := r.admitted("a/b/x"), []string{".gitattributes", "a/.gitattributes", "a/b/x"}; !slices.Equal(got, want) {
		t.Errorf("copied %q, want %q", got, want)
	}
	if got, want := r.admitted("a/to/y"), []string{".gitattributes", "a/.gitattributes", "a/to", "real/.gitattributes", "real/deep/y"}; !slices.Equal(got, want) {
		t.Errorf("copied %q, want %q", got, want)
	}
	r.write("a/.gitattributes", "* -filter\n")
	r.refused("a/b/x", "a/.gitattributes differs")
}

func TestFilesThatDifferAreRefused(t *testing.T) {
	r := newRepo(t)
	r.write("evals/one/x", "a\nb\n")
	r.write("evals/two/x", "c")
	r.commit()
	sub := newRepo(t)
	sub.write("x", "")
	sub.commit()
	r.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub.dir, "evals/sub")
	r.git("commit", "--quiet", "-m", "sub")
	r.refused("evals/sub", "evals/sub is a submodule, whose files are another repository's")
	r.refused("evals", "evals/sub is a submodule")
	r.refused("evals/sub/x", "evals/sub/x is not in that commit")
	r.git("reset", "--quiet", "--hard", "HEAD~1")
	r.remove("evals/sub")

	for _, tc := range []struct {
		name, why string
		change    func()
	}{
		{"a changed file", "evals/one/x differs", func() { r.write("evals/one/x", "a\nc\n") }},
		{"a longer file", "evals/one/x differs", func() { r.write("evals/one/x", "a\nb\n\n") }},
		{"other line endings", "only in line endings", func() { r.write("evals/one/x", "a\r\nb\r\n") }},
		{"another file", "evals/one/y is not in that commit", func() { r.write("evals/one/y", "") }},
		{"a hidden file", "evals/.x is not in that commit", func() { r.write("evals/.x", "") }},
		{"a repository", "evals/one/.git is not in that commit", func() { r.write("evals/one/.git/HEAD", "x") }},
		{"a file in a directory of its own", "evals/new is not in that commit", func() { r.write("evals/new/a/b", "") }},
		{"a missing file", "evals/two/x is missing here", func() { r.remove("evals/two/x") }},
		{"a missing directory", "evals/two is missing here", func() { r.remove("evals/two") }},
		{"a directory for a file", "evals/two/x is a file in that commit, and something else here", func() { r.remove("evals/two/x"); r.write("evals/two/x/y", "") }},
		{"a file for a directory", "evals/two is a directory in that commit, and something else here", func() { r.remove("evals/two"); r.write("evals/two", "") }},
		{"a link", "evals/two/x is a file in that commit, and a link here", func() { r.remove("evals/two/x"); r.link("../one/x", "evals/two/x") }},
		{"a link to the same", "evals/two is a directory in that commit, and something else here", func() {
			r.remove("evals/two")
			r.write("same/x", "c")
			r.link("../same", "evals/two")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r.t = t
			tc.change()
			r.refused("evals", tc.why)
			r.git("clean", "--quiet", "-ffdx")
			r.remove("evals/one/.git")
			r.git("checkout", "--quiet", "--force", "HEAD", "--", ".")
		})
	}
	r.t = t
	r.refused("../x", "lies outside of the checkout")
	if got := r.admitted("evals"); len(got) != 2 {
		t.Errorf("copied %q", got)
	}
}

func TestFewRequestsForManyDirectories(t *testing.T) {
	r := newRepo(t)
	for i := range 60 {
		r.write(fmt.Sprintf("a/evals/task-%02d/tests/test.sh", i), fmt.Sprint(i))
	}
	r.commit()
	if got := r.admitted("a/evals"); len(got) != 60 || r.asked > 3 {
		t.Errorf("%d files were copied, with %d requests", len(got), r.asked)
	}
	r.limit = 50
	if got := r.admitted("a/evals"); len(got) != 60 {
		t.Errorf("%d files were copied from listings that were cut", len(got))
	}
}
