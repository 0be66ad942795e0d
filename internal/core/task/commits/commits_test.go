package commits

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/internal/test/testprogram"
)

const (
	commitA = "0123456789abcdef0123456789abcdef01234567"
	commitB = "89abcdef0123456789abcdef0123456789abcdef"
)

func TestCommitOfARepository(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files map[string]string // below the parent of the repository "repo", which has the directory "tasks/x"
		want  string            // "" is nil
	}{
		{"no repository", nil, ""},
		{"a branch", map[string]string{"repo/.git/HEAD": "ref: refs/heads/main\n", "repo/.git/refs/heads/main": commitA + "\n"}, commitA},
		{"a detached HEAD", map[string]string{"repo/.git/HEAD": commitA + "\n"}, commitA},
		{"SHA-256", map[string]string{"repo/.git/HEAD": strings.Repeat("ab", 32) + "\n"}, strings.Repeat("ab", 32)},
		{"packed refs", map[string]string{
			"repo/.git/HEAD":        "ref: refs/heads/main\n",
			"repo/.git/packed-refs": "# pack-refs with: peeled fully-peeled sorted\n" + commitB + " refs/heads/mai\n" + commitA + " refs/heads/main\n^" + commitB + "\n",
		}, commitA},
		{"a loose ref wins over a packed one", map[string]string{
			"repo/.git/HEAD":            "ref: refs/heads/main\n",
			"repo/.git/refs/heads/main": commitA + "\n",
			"repo/.git/packed-refs":     commitB + " refs/heads/main\n",
		}, commitA},
		{"a ref that names a ref", map[string]string{
			"repo/.git/HEAD":             "ref: refs/heads/alias\n",
			"repo/.git/refs/heads/alias": "ref: refs/heads/main\n",
			"repo/.git/refs/heads/main":  commitA + "\n",
		}, commitA},
		{"refs in a loop", map[string]string{"repo/.git/HEAD": "ref: refs/heads/a\n", "repo/.git/refs/heads/a": "ref: refs/heads/a\n"}, ""},
		{"no commit yet", map[string]string{"repo/.git/HEAD": "ref: refs/heads/main\n"}, ""},
		{"an invalid HEAD", map[string]string{"repo/.git/HEAD": "nonsense\n"}, ""},
		{"a ref that points outside", map[string]string{"repo/.git/HEAD": "ref: ../../secret\n", "secret": commitA + "\n"}, ""},
		{"a worktree", map[string]string{
			"repo/.git":                          "gitdir: ../main/.git/worktrees/repo\n",
			"main/.git/worktrees/repo/HEAD":      "ref: refs/heads/topic\n",
			"main/.git/worktrees/repo/commondir": "../..\n",
			"main/.git/HEAD":                     commitB + "\n",
			"main/.git/refs/heads/topic":         commitA + "\n",
		}, commitA},
		{"a submodule", map[string]string{
			"repo/.git":              "gitdir: ../.git/modules/repo\n",
			".git/modules/repo/HEAD": commitA + "\n",
			".git/HEAD":              commitB + "\n",
		}, commitA},
		{"a broken .git file", map[string]string{"repo/.git": "gitdir: ../gone\n"}, ""},
		{"an empty .git directory does not count", map[string]string{"repo/.git/x": "", ".git/HEAD": commitA + "\n"}, commitA},
		{"the nearest repository counts", map[string]string{"repo/tasks/.git/HEAD": commitA + "\n", "repo/.git/HEAD": commitB + "\n"}, commitA},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("PATH", t.TempDir()) // git is not needed
			t.Setenv("GIT_DIR", "/nowhere")
			dir := t.TempDir()
			must(t, os.MkdirAll(filepath.Join(dir, "repo/tasks/x"), 0o755))
			for name, content := range tc.files {
				writeFile(t, filepath.Join(dir, name), content)
			}
			wantCommit(t, filepath.Join(dir, "repo/tasks/x"), tc.want)
		})
	}
}

func wantCommit(t *testing.T, dir, want string) {
	t.Helper()
	got := Around(dir).Commit
	if (got == nil) != (want == "") || got != nil && *got != want {
		t.Errorf("commit %v, want %q", deref(got), want)
	}
}

func deref(s *string) string {
	if s == nil {
		return "nil"
	}
	return *s
}

// Repositories that git creates are read as git itself reads them.
func TestCommitAgreesWithGit(t *testing.T) {
	testenv.NeedGit(t)
	base := t.TempDir()
	t.Setenv("HOME", base)
	git := func(dir string, args ...string) string { t.Helper(); return runGit(t, dir, args...) }
	repo := filepath.Join(base, "repo")
	must(t, os.Mkdir(repo, 0o755))
	git(repo, "init", "-q", "-b", "main")
	wantCommit(t, repo, "")
	commit := func() {
		writeFile(t, filepath.Join(repo, "tasks/x/task.toml"), fmt.Sprintf("# %s", git(repo, "count-objects")))
		git(repo, "add", ".")
		git(repo, "commit", "-qm", "x")
	}
	commit()
	commit()
	head := git(repo, "rev-parse", "HEAD")
	wantCommit(t, filepath.Join(repo, "tasks/x"), head)

	git(repo, "worktree", "add", "-q", filepath.Join(base, "tree"), "-b", "topic", "HEAD~1")
	wantCommit(t, filepath.Join(base, "tree/tasks/x"), git(repo, "rev-parse", "topic"))

	git(base, "clone", "-q", "--depth", "1", "file://"+repo, "shallow")
	wantCommit(t, filepath.Join(base, "shallow/tasks/x"), head)

	git(repo, "checkout", "-q", "--detach", "HEAD~1")
	wantCommit(t, repo, git(repo, "rev-parse", "HEAD"))

	git(repo, "checkout", "-q", "main")
	git(repo, "pack-refs", "--all")
	wantCommit(t, repo, head)

	must(t, os.Symlink(filepath.Join(repo, "tasks/x"), filepath.Join(base, "linked")))
	wantCommit(t, filepath.Join(base, "linked"), head)
}

func TestCommitInARepositoryWithRefTables(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", "--ref-format=reftable", dir).CombinedOutput(); err != nil {
		t.Skipf("git cannot make such a repository: %v %s", err, out)
	}
	runGit(t, dir, "commit", "-q", "--allow-empty", "-m", "x")
	head := runGit(t, dir, "rev-parse", "HEAD")
	t.Setenv("GIT_DIR", "/nowhere")
	wantCommit(t, dir, head)
}

func runGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	settings := []string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"}
	cmd := exec.Command("git", append(settings, args...)...)
	cmd.Env = append(envWithoutGit(), "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// A fake git records how it is called.
func TestCommitAsksGitOnlyAboutRefTables(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(dir, ".git/HEAD"), "ref: refs/heads/.invalid\n")
	must(t, os.Mkdir(filepath.Join(dir, ".git/reftable"), 0o755))
	t.Setenv("GIT_DIR", "/nowhere")

	t.Run("without git", func(t *testing.T) {
		t.Setenv("PATH", bin)
		wantCommit(t, dir, "")
	})
	t.Run("with git", func(t *testing.T) {
		script := fmt.Sprintf("#!/bin/sh\n[ -z \"$GIT_DIR\" ] && [ \"$*\" = \"--git-dir=%s/.git rev-parse --verify --quiet HEAD\" ] && echo %s\n", dir, commitA)
		testprogram.Write(t, filepath.Join(bin, "git"), script)
		t.Setenv("PATH", bin)
		wantCommit(t, dir, commitA)
	})
	t.Run("git fails", func(t *testing.T) {
		testprogram.Write(t, filepath.Join(bin, "git"), "#!/bin/sh\nexit 128\n")
		t.Setenv("PATH", bin)
		wantCommit(t, dir, "")
	})
}

func TestFinderReadsEachRepositoryOnce(t *testing.T) {
	dir := t.TempDir()
	head := filepath.Join(dir, ".git/HEAD")
	writeFile(t, head, commitA)
	must(t, os.MkdirAll(filepath.Join(dir, "x"), 0o755))
	must(t, os.MkdirAll(filepath.Join(dir, "y"), 0o755))
	var finder Finder
	first, _ := finder.Of(filepath.Join(dir, "x"))
	writeFile(t, head, commitB)
	if second, below := finder.Of(filepath.Join(dir, "y")); deref(first.Commit) != commitA || deref(second.Commit) != commitA || below != "y" {
		t.Errorf("commits %s and %s of one finder", deref(first.Commit), deref(second.Commit))
	}
	wantCommit(t, filepath.Join(dir, "y"), commitB)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, name, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, []byte(content), 0o600))
}
