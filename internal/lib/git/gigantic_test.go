package git_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/test/testenv"
)

// bomb commits a tree of a few kilobytes that names ten billion files, on top of HEAD.
func (r *localRepo) bomb() {
	r.t.Helper()
	r.put("empty", "")
	kind, id := "100644 blob", r.git("hash-object", "-w", "empty")
	for range 10 {
		var entries strings.Builder
		for n := range 10 {
			fmt.Fprintf(&entries, "%s %s\tn%d\n", kind, id, n)
		}
		r.put(".git/entries", entries.String())
		kind, id = "040000 tree", r.git("-c", "alias.mk=!git mktree < .git/entries", "mk")
	}
	r.git("update-ref", "HEAD", r.git("commit-tree", "-p", "HEAD", "-m", "bomb", id))
}

// A commit that names billions of files ends with an error, before git has taken all memory.
func TestGiganticTrees(t *testing.T) {
	r := newLocalRepo(t)
	r.bomb()
	client := git.New(git.Options{Memory: 96 << 20})
	l, err := client.Local(t.Context(), r.top, filepath.Join(r.top, ".git", "objects"), "HEAD", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = l.Export(t.Context(), func(string) bool { return true }, filepath.Join(t.TempDir(), "tree"))
	if tree, ok := errors.AsType[*git.TreeError](err); !ok || !strings.Contains(tree.Error(), "too many files") {
		t.Errorf("exported: %v; want too many files", err)
	}
	if runtime.GOOS != "linux" {
		testenv.Lacks(t, "sandbox", "Linux, where the memory of git is limited")
	}
	if _, err := client.Changes(t.Context(), r.top, "first", false); err == nil || !strings.Contains(strings.ToLower(err.Error()), "out of memory") {
		t.Errorf("changes: %v; want out of memory", err)
	}
}

// A history goes on after commits that git cannot compare, and says which these are.
func TestHistoryGoesOnAfterGiganticCommits(t *testing.T) {
	if runtime.GOOS != "linux" {
		testenv.Lacks(t, "sandbox", "Linux, where the memory of git is limited")
	}
	r := newLocalRepo(t)
	first := r.git("rev-parse", "HEAD")
	r.bomb()
	r.git("update-ref", "HEAD", r.git("commit-tree", "-p", "HEAD", "-m", "defused", first+"^{tree}"))
	r.git("update-ref", "HEAD", r.git("commit-tree", "-p", "HEAD", "-m", "last", first+"^{tree}"))
	client := git.New(git.Options{Memory: 96 << 20})
	l, err := client.Local(t.Context(), r.top, filepath.Join(r.top, ".git", "objects"), "HEAD", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, most := range []int{2, 10} {
		commits, err := l.History(t.Context(), git.HistoryOptions{Commits: most, Changes: 5})
		var got []string
		for _, c := range commits {
			got = append(got, fmt.Sprint(c.Subject, " ", c.TooLarge, " ", len(c.Changes) > 0, " ", c.Parent != ""))
		}
		want := []string{"last false false true", "defused true false true", "bomb true false true", "two false true true", "one false true false"}
		if want = want[:min(most, len(want))]; err != nil || !slices.Equal(got, want) {
			t.Errorf("%d commits: %q, %v; want %q", most, got, err, want)
		}
	}
}
