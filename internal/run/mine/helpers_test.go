package mine_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/run/mine"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// repo is a repository with a working tree.
type repo struct {
	t   *testing.T
	top string
}

func newRepo(t *testing.T) *repo {
	t.Helper()
	r := &repo{t, t.TempDir()}
	r.git("init", "--quiet", "-b", "main")
	return r
}

func (r *repo) git(args ...string) {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir = r.top
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// put writes files: names and texts in turn. Texts that begin with #! can be executed.
func (r *repo) put(files ...string) {
	r.t.Helper()
	for i := 0; i < len(files); i += 2 {
		path, mode := filepath.Join(r.top, files[i]), os.FileMode(0o644)
		if strings.HasPrefix(files[i+1], "#!") {
			mode = 0o755
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(files[i+1]), mode)); err != nil {
			r.t.Fatal(err)
		}
	}
}

// commit commits all files, after writing some.
func (r *repo) commit(message string, files ...string) {
	r.t.Helper()
	r.put(files...)
	r.git("add", "--all")
	r.git("commit", "--quiet", "-m", message)
}

// look returns the repository's history as Look sees it.
func (r *repo) look(opts mine.Options) (*git.Local, []mine.Candidate) {
	r.t.Helper()
	l, err := git.New(git.Options{}).Local(r.t.Context(), r.top, filepath.Join(r.top, ".git", "objects"), "HEAD", r.t.TempDir())
	if err != nil {
		r.t.Fatal(err)
	}
	commits, err := l.History(r.t.Context(), git.HistoryOptions{Commits: 100, Changes: mine.MaxFiles + 1})
	if err != nil {
		r.t.Fatal(err)
	}
	if opts.Limit == 0 {
		opts.Limit = 100
	}
	candidates, err := mine.Look(r.t.Context(), l, commits, opts)
	if err != nil {
		r.t.Fatal(err)
	}
	return l, candidates
}

// write writes the tasks of the promising candidates and returns their directory.
func (r *repo) write(l *git.Local, candidates []mine.Candidate, opts mine.WriteOptions) string {
	r.t.Helper()
	dir := r.t.TempDir()
	if opts.Skip == nil {
		opts.Skip = func(string) bool { return false }
	}
	opts.VerifierSec = 60
	for i := range candidates {
		if c := &candidates[i]; c.Reason == mine.Promising {
			if err := mine.Write(r.t.Context(), l, c, filepath.Join(dir, c.Task), opts); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	return dir
}

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-update rewrites it); got\n%s", path, got)
	}
}

// table returns a line for each candidate.
func table(candidates []mine.Candidate) string {
	var b strings.Builder
	for _, c := range candidates {
		line := fmt.Sprintf("%-14s  %-3d %-4d %-12s %s", c.Reason, c.Files, c.Lines, strings.Join(c.Languages, ","), c.Subject)
		if c.Detail != "" {
			line += "  (" + c.Detail + ")"
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
