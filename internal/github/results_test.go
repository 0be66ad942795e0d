package github

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/github/githubtest"
)

// The newest runs come first, what has no usable artifact is left out, and runs of others do not count.
func TestResultsOfABranch(t *testing.T) {
	s, c := history(t)
	for n := 1; n <= 6; n++ {
		ran(t, s, n, func(r *githubtest.Run, a *githubtest.Artifact) {
			switch n {
			case 3:
				a.Files = map[string]string{"other.txt": "x"}
			case 4:
				a.Expired = true
			case 5:
				r.Event, r.Branch = "pull_request", "feature"
			}
		})
	}
	q := query()
	q.Commit = ""
	for limit, want := range map[int]string{1: "6", 2: "6 2", 20: "6 2 1"} {
		found, err := c.FindResults(t.Context(), q, limit, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range found {
			for n := 1; n <= 6; n++ {
				if text, err := os.ReadFile(f.Path); err == nil && string(text) == contents(n) && f.Commit == sha(n) && f.RunID != 0 {
					got = append(got, fmt.Sprint(n))
				}
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("limit %d: got the results of commits %q, want %q", limit, got, want)
		}
	}
}

func TestReasonsForNoResults(t *testing.T) {
	for want, n := range map[string]func(*githubtest.Run, *githubtest.Artifact){
		"has not completed a run on main yet": func(r *githubtest.Run, _ *githubtest.Artifact) { r.Status = "in_progress" },
		"have expired":                        func(_ *githubtest.Run, a *githubtest.Artifact) { a.Expired = true },
		"can be used":                         func(_ *githubtest.Run, a *githubtest.Artifact) { a.Files = map[string]string{"x": "y"} },
		`has an artifact "rollout-result"`:    func(_ *githubtest.Run, a *githubtest.Artifact) { a.Name = "other" },
	} {
		s, c := history(t)
		ran(t, s, 6, n)
		if found, err := c.FindResults(t.Context(), query(), 20, t.TempDir()); !errors.Is(err, ErrNoBaseline) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %+v, %v, want no result because of %q", found, err, want)
		}
	}
}
