package git_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/test/gittest"
)

func TestParents(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			r := gittest.NewRepo(t, filepath.Join(t.TempDir(), "r.git"), "--object-format="+format)
			tree := r.Git("", "mktree")
			first := r.Git("parent "+strings.Repeat("0", 40)+"\n", "commit-tree", tree)
			second := r.Git("second", "commit-tree", tree)
			merge := r.Git("merge", "commit-tree", tree, "-p", first, "-p", second)
			objects := filepath.Join(r.Dir, "objects")
			c := git.New(git.Options{})
			for commit, want := range map[string][]string{first: {}, merge: {first, second}} {
				if got, err := c.Parents(t.Context(), objects, commit); err != nil || !slices.Equal(got, want) {
					t.Errorf("the parents of %s are %q, %v, want %q", commit, got, err, want)
				}
			}

			// Files of the repository other than its objects have no effect.
			r.Git("", "replace", merge, second)
			r.Config("core.fsmonitor", "touch "+filepath.Join(r.Dir, "ran"))
			r.Config("extensions.partialClone", "evil")
			r.Config("remote.evil.url", "ext::touch "+filepath.Join(r.Dir, "ran"))
			r.Config("remote.evil.promisor", "true")
			r.Config("protocol.allow", "always")
			if got, err := c.Parents(t.Context(), objects, merge); err != nil || len(got) != 2 {
				t.Errorf("with a replacement the parents are %q, %v", got, err)
			}
			if got, err := c.Parents(t.Context(), objects, strings.Repeat("12", len(merge)/2)); err == nil {
				t.Errorf("a missing commit has the parents %q", got)
			}
			if _, err := os.Stat(filepath.Join(r.Dir, "ran")); err == nil {
				t.Error("a command of the repository was run")
			}

			// An object stored under another id.
			loose := func(id string) string { return filepath.Join(objects, id[:2], id[2:]) }
			data, err := os.ReadFile(loose(second))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(loose(merge)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(loose(merge), data, 0o444); err != nil {
				t.Fatal(err)
			}
			if got, err := c.Parents(t.Context(), objects, merge); err == nil {
				t.Errorf("a forged object has the parents %q", got)
			}
		})
	}
}
