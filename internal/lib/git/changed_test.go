package git_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/lib/git"
)

func TestChanged(t *testing.T) {
	top := t.TempDir()
	in := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(top, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	in(top, "init", "--quiet")
	for _, name := range []string{"a", "b", "c", "gone", "moved"} {
		put("tasks/"+name+"/task.toml", name)
	}
	put(".gitignore", "*.log\n")
	in(top, "add", "--all")
	in(top, "commit", "--quiet", "--message", "one")
	in(top, "tag", "start")
	in(top, "branch", "change")
	put("tasks/a/task.toml", "changed on main since")
	in(top, "commit", "--quiet", "--all", "--message", "two")
	in(top, "checkout", "--quiet", "change")
	put("tasks/b/task.toml", "changed")
	in(top, "mv", "tasks/moved/task.toml", "tasks/moved/x.toml")
	in(top, "rm", "--quiet", "tasks/gone/task.toml")
	in(top, "commit", "--quiet", "--all", "--message", "three")
	put("tasks/ü new/task.toml", "not committed")
	put("tasks/c/run.log", "ignored")

	// git must not run commands that the repository's configuration names.
	ran := filepath.Join(t.TempDir(), "ran")
	in(top, "config", "core.fsmonitor", "echo monitor >> "+ran+" #")
	in(top, "config", "filter.evil.clean", "echo clean >> "+ran+"; cat")
	in(top, "config", "diff.external", "echo external >> "+ran+" #")
	put(".gitattributes", "* filter=evil\n")
	put("tasks/c/task.toml", "x")

	// In a copy of the working tree, times and inodes differ from those in the index.
	touched := filepath.Join(top, "tasks/a/task.toml")
	if err := os.Chtimes(touched, time.Unix(1e9, 0), time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}

	client := git.New(git.Options{})
	want := ".gitattributes tasks/b/task.toml tasks/c/task.toml tasks/gone/task.toml tasks/moved/task.toml tasks/moved/x.toml tasks/ü new/task.toml"
	for _, since := range []string{"main", "start", in(top, "rev-parse", "start"), in(top, "rev-parse", "--short", "main")} {
		got, err := client.Changed(t.Context(), top, since)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("since %s: %q, %v", since, got, err)
		}
	}
	if _, err := os.Stat(ran); err == nil {
		text, _ := os.ReadFile(ran)
		t.Errorf("programs that the repository names were run: %s", text)
	}

	clone := filepath.Join(t.TempDir(), "clone")
	in(top, "clone", "--quiet", "file://"+top, clone)
	if got, err := client.Changed(t.Context(), clone, "main"); err != nil || len(got) != 4 {
		t.Errorf("since a branch that only origin has: %q, %v", got, err)
	}
	shallow := filepath.Join(t.TempDir(), "shallow")
	in(top, "clone", "--quiet", "--depth=1", "--no-single-branch", "file://"+top, shallow)
	for _, c := range []struct{ dir, since string }{{shallow, "main"}, {top, "nowhere"}, {top, "--output=" + ran}, {top, ""}, {top, "main..change"}} {
		if got, err := client.Changed(t.Context(), c.dir, c.since); !errors.Is(err, git.ErrNoCommit) {
			t.Errorf("since %q in %s: %q, %v", c.since, c.dir, got, err)
		}
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("an option was passed on")
	}
}
