package github

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/githubtest"
)

// The newest runs come first, runs without a usable artifact are left out, and runs of others do
// not count.
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

// A verdict.json is extracted from the directory of the result.json, and one that cannot be used
// counts as none.
func TestVerdictsOfResults(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"next to it":     {map[string]string{"job/verdict.json": "v"}, true},
		"of a judge":     {map[string]string{"job/a/d/t__1/judges/j/verdict.json": "v", "verdict.json": "v"}, false},
		"too large":      {map[string]string{"job/verdict.json": strings.Repeat(" ", result.MaxVerdictFile+1)}, false},
		"of old version": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := history(t)
			ran(t, s, 6, func(_ *githubtest.Run, a *githubtest.Artifact) {
				a.Files = map[string]string{"job/result.json": contents(6)}
				maps.Copy(a.Files, tc.files)
			})
			found, err := c.FindResults(t.Context(), query(), 20, t.TempDir())
			if err != nil || len(found) != 1 {
				t.Fatal(found, err)
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(found[0].Path), result.VerdictFile)); (err == nil) != tc.want {
				t.Error(err)
			}
		})
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
