package git_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/lib/git"
)

// localRepo is a repository with a working tree, whose configuration and hooks leave a file when
// they run.
type localRepo struct {
	t   *testing.T
	top string
	ran string
}

func newLocalRepo(t *testing.T) *localRepo {
	t.Helper()
	r := &localRepo{t: t, top: t.TempDir(), ran: filepath.Join(t.TempDir(), "ran")}
	r.git("init", "--quiet", "-b", "main")
	r.put("job.yaml", "one")
	r.put("agent/run.sh", "#!/bin/sh\n")
	r.put("agent/.gitignore", "*.log\n")
	r.put("tasks/a/task.toml", "a")
	if err := errors.Join(os.Chmod(filepath.Join(r.top, "agent/run.sh"), 0o755), os.Symlink("run.sh", filepath.Join(r.top, "agent/link"))); err != nil {
		t.Fatal(err)
	}
	r.git("add", ".")
	r.git("commit", "--quiet", "-m", "one")
	r.git("tag", "first")
	r.put(".gitattributes", "* filter=evil text eol=crlf ident\n")
	r.put("job.yaml", "two\n")
	r.git("add", ".")
	r.git("commit", "--quiet", "-m", "two")
	for _, key := range []string{"filter.evil.smudge", "filter.evil.clean", "core.fsmonitor", "core.sshCommand", "uploadpack.packObjectsHook"} {
		r.git("config", key, "touch "+r.ran+"; cat")
	}
	r.git("config", "filter.evil.required", "true")
	return r
}

func (r *localRepo) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	cmd.Dir = r.top
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r *localRepo) put(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.top, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *localRepo) local(top, rev string) (*git.Local, error) {
	return git.New(git.Options{}).Local(r.t.Context(), top, filepath.Join(r.top, ".git", "objects"), rev, r.t.TempDir())
}

func TestLocalNamesCommits(t *testing.T) {
	r := newLocalRepo(t)
	first := r.git("rev-parse", "first")
	r.git("update-ref", "refs/remotes/origin/theirs", first)
	r.git("worktree", "add", "--quiet", filepath.Join(r.top, "..", "other"), "first")
	for _, rev := range []string{"first", first, first[:8], "main~1", "main^", "HEAD~", "theirs", "origin/theirs", "refs/tags/first"} {
		l, err := r.local(r.top, rev)
		if err != nil || l.ID != first {
			t.Errorf("%s is %+v, %v; want %s", rev, l, err, first)
		}
	}
	if l, err := r.local(filepath.Join(r.top, "..", "other"), "HEAD"); err != nil || l.ID != first {
		t.Errorf("in another working tree: %+v, %v", l, err)
	}
	for _, rev := range []string{"", "nowhere", strings.Repeat("0", 40), "--output=x", "-h", "main..first", "main@{1}", "main:job.yaml", ":/one", "main~x", "~", "a\nb"} {
		if l, err := r.local(r.top, rev); !errors.Is(err, git.ErrNoCommit) {
			t.Errorf("%q is %+v, %v; want no commit", rev, l, err)
		}
	}
}

// Contents are those of the commit, byte for byte, whatever the repository's configuration and
// attributes say.
func TestLocalExport(t *testing.T) {
	r := newLocalRepo(t)
	_ = os.Remove(r.ran) // made by the commands above
	for rev, job := range map[string]string{"first": "one", "main": "two\n"} {
		l, err := r.local(r.top, rev)
		if err != nil {
			t.Fatal(err)
		}
		into := filepath.Join(t.TempDir(), "tree")
		n, warnings, err := l.Export(t.Context(), func(name string) bool { return !strings.HasPrefix(name, "tasks/") && name != ".gitattributes" }, into)
		if err != nil || n != 4 || len(warnings) > 0 {
			t.Fatalf("%d files, %v, %v; want 4", n, warnings, err)
		}
		if text, err := os.ReadFile(filepath.Join(into, "job.yaml")); err != nil || string(text) != job {
			t.Errorf("job.yaml of %s is %q, %v", rev, text, err)
		}
		if info, err := os.Stat(filepath.Join(into, "agent/run.sh")); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("run.sh: %v, %v", info, err)
		}
		if to, err := os.Readlink(filepath.Join(into, "agent/link")); err != nil || to != "run.sh" {
			t.Errorf("the link leads to %q, %v", to, err)
		}
		if _, err := os.Lstat(filepath.Join(into, "tasks")); err == nil {
			t.Error("files are there that were not wanted")
		}
	}
	if _, err := os.Stat(r.ran); err == nil {
		t.Error("a command of the repository's configuration ran")
	}
}

// A shallow clone does not have the commit, and nothing is fetched.
func TestLocalInAShallowClone(t *testing.T) {
	r := newLocalRepo(t)
	first := r.git("rev-parse", "first")
	clone := filepath.Join(t.TempDir(), "clone")
	r.git("clone", "--quiet", "--depth=1", "--no-tags", "--no-checkout", "file://"+r.top, clone)
	for _, rev := range []string{first, "HEAD~1", "first"} {
		_, err := git.New(git.Options{}).Local(t.Context(), clone, filepath.Join(clone, ".git", "objects"), rev, t.TempDir())
		if !errors.Is(err, git.ErrNoCommit) || !strings.Contains(err.Error(), "fetch-depth: 0") {
			t.Errorf("%s: %v", rev, err)
		}
	}
}
