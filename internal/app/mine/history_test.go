package mine_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/app/mine"
	"github.com/org/rollout-action/internal/core/task/commits"
	mined "github.com/org/rollout-action/internal/run/mine"
	"github.com/org/rollout-action/internal/test/apptest"
	"github.com/org/rollout-action/internal/test/testenv"
)

// Rollout's own history has commits that change code and tests together. A dry run finds them,
// proposes a Dockerfile for each and leaves no file.
func TestOwnHistoryHasPromisingCommits(t *testing.T) {
	testenv.NeedGit(t)
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	checkout := commits.Around(wd)
	if checkout.Top == "" {
		testenv.Lacks(t, "history", "a git checkout: these are the files alone")
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(checkout.Objects), "shallow")); err == nil {
		testenv.Lacks(t, "history", "the history: this clone is shallow")
	}
	if out, err := exec.CommandContext(t.Context(), "git", "-C", checkout.Top, "rev-parse", "HEAD").CombinedOutput(); err != nil {
		testenv.Lacks(t, "history", "a checkout that git reads, and this one may belong to another user: "+string(out))
	}
	h, _ := apptest.New(t)
	found, err := mine.Run(t.Context(), h, mine.Request{Repository: checkout.Top, Out: "mined", Limit: 5, DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	promising := slices.DeleteFunc(slices.Clone(found.Candidates), func(c mined.Candidate) bool { return c.Reason != mined.Promising })
	if len(promising) != 5 && found.Left+len(found.Candidates) >= 1000 {
		t.Errorf("%d promising among %d commits, want 5", len(promising), len(found.Candidates))
	}
	for _, c := range promising {
		if found.Dockerfiles[c.Task] == "" {
			t.Errorf("%s has no Dockerfile", c.Task)
		}
	}
	for _, name := range []string{"mined", ".rollout-mine"} {
		if left, _ := filepath.Glob(filepath.Join(h.Dir, name+"*")); len(left) > 0 {
			t.Errorf("a dry run leaves %q", left)
		}
	}
}
