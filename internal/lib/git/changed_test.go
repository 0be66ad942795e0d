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
	for workTree, want := range map[bool]string{true: want, false: "tasks/b/task.toml tasks/gone/task.toml tasks/moved/task.toml tasks/moved/x.toml"} {
		got, err := client.Changes(t.Context(), top, "main~1", workTree)
		if err != nil || strings.Join(got.Files, " ") != want || got.Base != in(top, "rev-parse", "start") {
			t.Errorf("with the working tree %v: %+v, %v", workTree, got, err)
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
	in(clone, "update-index", "--add", "--cacheinfo", "160000,"+in(clone, "rev-parse", "HEAD")+",module")
	in(clone, "commit", "--quiet", "--message", "a submodule")
	if got, err := client.Changes(t.Context(), clone, "HEAD~1", false); err != nil || strings.Join(got.Files, " ") != "module" {
		t.Errorf("a submodule with another commit: %+v, %v", got, err)
	}
	in(clone, "clone", "--quiet", "file://"+top, "module")
	if got, err := client.Changes(t.Context(), clone, "HEAD", true); err != nil || len(got.Files) != 0 {
		t.Errorf("a submodule that is checked out: %+v, %v", got, err)
	}
	in(filepath.Join(clone, "module"), "checkout", "--quiet", "--detach", "start")
	in(filepath.Join(clone, "module"), "config", "core.fsmonitor", "echo monitor >> "+ran+" #")
	if got, err := client.Changes(t.Context(), clone, "HEAD", true); err != nil || strings.Join(got.Files, " ") != "module" {
		t.Errorf("a submodule that is checked out at another commit: %+v, %v", got, err)
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

// How the repository's owner wants git to show differences changes nothing.
func TestConfigurationDoesNotChangeWhatChanged(t *testing.T) {
	r := newLocalRepo(t)
	r.git("rm", "--quiet", ".gitattributes")
	r.git("commit", "--quiet", "-m", "without filters")
	r.put("agent/ü two", "2")
	r.git("mv", "tasks/a/task.toml", "tasks/a/moved.toml")
	r.git("add", ".")
	r.git("commit", "--quiet", "-m", "three")
	r.put("job.yaml", "not committed")
	committed := "agent/ü two tasks/a/moved.toml tasks/a/task.toml"
	client := git.New(git.Options{})
	for i, config := range []string{
		"diff.orderFile=/nonexistent", "diff.external=false", "diff.relative=true", "diff.renames=copies", "diff.noprefix=true", "diff.mnemonicPrefix=true",
		"diff.autoRefreshIndex=false", "diff.ignoreSubmodules=all", "diff.submodule=log", "diff.colorMoved=zebra", "color.ui=always", "color.diff=always",
		"core.quotePath=true", "core.pager=false", "pager.diff=true", "log.showSignature=true", "status.showUntrackedFiles=no", "status.relativePaths=true", "core.fsmonitor=false",
		"diff.x.textconv=false", "diff.x.command=false",
	} {
		key, value, _ := strings.Cut(config, "=")
		r.git("config", key, value)
		other := time.Unix(1e9+int64(i), 0) // not that in the index, in which git diff notes it
		if err := os.Chtimes(filepath.Join(r.top, "agent/run.sh"), other, other); err != nil {
			t.Fatal(err)
		}
		for workTree, want := range map[bool]string{false: committed, true: "agent/ü two job.yaml tasks/a/moved.toml tasks/a/task.toml"} {
			if got, err := client.Changes(t.Context(), r.top, "HEAD~1", workTree); err != nil || strings.Join(got.Files, " ") != want {
				t.Errorf("%s, with the working tree %v: %q, %v", config, workTree, got.Files, err)
			}
		}
		r.git("config", "--unset", key)
	}
	// A value that git does not know ends each git diff, but not one of commits.
	r.git("config", "diff.algorithm", "nonsense")
	if got, err := client.Changes(t.Context(), r.top, "HEAD~1", false); err != nil || strings.Join(got.Files, " ") != committed {
		t.Errorf("an unknown algorithm: %q, %v", got.Files, err)
	}
}
