package git_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/lib/git"
)

// history returns a line for each commit of the history of HEAD: its subject, then its changes.
func (r *localRepo) history(opts git.HistoryOptions) []string {
	r.t.Helper()
	l, err := r.local(r.top, "HEAD")
	if err != nil {
		r.t.Fatal(err)
	}
	commits, err := l.History(r.t.Context(), opts)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, c := range commits {
		line := fmt.Sprintf("%q", c.Subject)
		if c.Parent == "" {
			line += " root"
		}
		for _, change := range c.Changes {
			switch {
			case change.Removed():
				line += " -" + change.Name
			case change.Moved():
				line += " " + change.OldName + ">" + change.Name
			default:
				line += fmt.Sprintf(" %q", change.Name)
			}
		}
		out = append(out, fmt.Sprintf("%s (%d)", line, c.Changed))
	}
	return out
}

// Histories are those of first parents, whatever the configuration and the names in them are.
func TestHistory(t *testing.T) {
	r := newLocalRepo(t)
	r.git("config", "diff.renames", "copies")
	r.git("config", "log.follow", "true")
	r.git("config", "diff.external", "touch "+r.ran)
	r.git("mv", "tasks/a/task.toml", "tasks/moved.toml")
	r.git("commit", "--quiet", "-m", "move")
	r.git("checkout", "--quiet", "-b", "side")
	for _, name := range []string{"b", "c"} {
		r.put(name, name)
		r.git("add", name)
		r.git("commit", "--quiet", "-m", "add "+name)
	}
	r.git("checkout", "--quiet", "main")
	r.git("rm", "--quiet", "agent/link")
	r.put(":odd\n\x01name", "x")
	r.git("add", "--all")
	r.git("commit", "--quiet", "-m", "odd \x01\x02\x1b[31m subject")
	r.git("merge", "--quiet", "--no-ff", "-m", "merge side", "side")
	r.git("commit", "--quiet", "--allow-empty", "-m", "empty")
	_ = os.Remove(r.ran)
	want := []string{
		`"empty" (0)`,
		`"merge side" "b" "c" (2)`,
		"\"odd \\x01\\x02\\x1b[31m subject\" \":odd\\n\\x01name\" -agent/link (2)",
		`"move" tasks/a/task.toml>tasks/moved.toml (1)`,
		`"two" ".gitattributes" "job.yaml" (2)`,
		`"one" root "agent/.gitignore" "agent/link" "agent/run.sh" "job.yaml" "tasks/a/task.toml" (5)`,
	}
	if got := r.history(git.HistoryOptions{Commits: 100, Changes: 10}); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := r.history(git.HistoryOptions{Commits: 2, Changes: 1}); !slices.Equal(got, []string{want[0], `"merge side" "b" (2)`}) {
		t.Errorf("two commits with one change each are %q", got)
	}
	if got := r.history(git.HistoryOptions{Commits: 100, Since: time.Now().Add(time.Hour * 24)}); len(got) > 0 {
		t.Errorf("%q were made tomorrow", got)
	}
	if _, err := os.Stat(r.ran); err == nil {
		t.Error("a command of the repository's configuration ran")
	}
	r.git("commit", "--quiet", "--allow-empty", "--date", "2001-02-03T04:05:06Z", "-m", "written long ago")
	if got := r.history(git.HistoryOptions{Commits: 100, Since: time.Now().Add(-24 * time.Hour)}); len(got) == 0 || strings.Contains(got[0], "long ago") {
		t.Errorf("got %q, want those that were written today", got)
	}
}

// The history of a shallow clone ends where the clone ends.
func TestHistoryOfAShallowClone(t *testing.T) {
	r := newLocalRepo(t)
	clone := filepath.Join(t.TempDir(), "clone")
	r.git("clone", "--quiet", "--depth=1", "file://"+r.top, clone)
	r.top = clone
	if got := r.history(git.HistoryOptions{Commits: 100, Changes: 1}); len(got) != 1 || !strings.Contains(got[0], `"two" root`) {
		t.Errorf("got %q", got)
	}
}

func TestMessageAndPatch(t *testing.T) {
	r := newLocalRepo(t)
	r.put("job.yaml", "  two\n")
	r.git("commit", "--quiet", "-am", "indent\n\n"+strings.Repeat("x", 100_000))
	l, err := r.local(r.top, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	message, err := l.Message(t.Context())
	if err != nil || !strings.HasPrefix(message, "indent\n\nxxx") || len(message) > 64<<10 {
		t.Errorf("a message of %d bytes, %v", len(message), err)
	}
	first := r.git("rev-parse", "HEAD~")
	patch, err := l.Patch(t.Context(), first, false, "job.yaml")
	if err != nil || !strings.Contains(string(patch), "\n-two\n+  two\n") {
		t.Errorf("%q, %v", patch, err)
	}
	if patch, err = l.Patch(t.Context(), first, true, "job.yaml"); err != nil || len(patch) > 0 {
		t.Errorf("without white space: %q, %v", patch, err)
	}
	if message, err = l.At(first).Message(t.Context()); err != nil || strings.TrimSpace(message) != "two" {
		t.Errorf("the message of the parent is %q, %v", message, err)
	}
}

// A tree that is too large is an error of its own kind.
func TestLocalExportSaysWhatIsWrongWithATree(t *testing.T) {
	r := newLocalRepo(t)
	l, err := git.New(git.Options{MaxFiles: 2}).Local(t.Context(), r.top, filepath.Join(r.top, ".git", "objects"), "HEAD", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = l.Export(t.Context(), func(string) bool { return true }, filepath.Join(t.TempDir(), "tree"))
	if tree, ok := errors.AsType[*git.TreeError](err); !ok || len(tree.Problems) != 1 || !strings.Contains(tree.Error(), "files, more than") {
		t.Errorf("got %v", err)
	}
}
