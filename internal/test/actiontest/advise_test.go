package actiontest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/test/testenv"
)

// A gate that advises is green until its last day, tells its verdict all the same, and says in the
// last week when it ends; afterwards the check is red.
func TestAGateThatAdvises(t *testing.T) {
	testenv.Long(t, "a job that fails in act, three times")
	r := newRepository(t)
	for _, task := range []string{"banana", "cherry", "damson", "elder"} {
		must(t, os.RemoveAll(filepath.Join(r.dir, "evals/tasks", task)))
	}
	const file = "evals/job.yaml"
	job := read(t, r.dir, file)
	for _, c := range []struct {
		days, code   int // until the last day, and act's exit code
		result, said string
	}{
		{30, 0, "success", "no verdict makes the check red before "},
		{4, 0, "success", "more, until "}, // or 3 days, if midnight passes
		{-2, 1, "failure", "since then its verdict decides"},
	} {
		until := time.Now().UTC().AddDate(0, 0, c.days).Format(time.DateOnly)
		write(t, r.dir, map[string]string{file: job + fmt.Sprintf("gate: {min_pass_rate: 1, mode: advise, until: %q}\n", until)})
		r.api.SetBranch(slug, "main", r.commit("until "+until))
		a := r.act("pr-single.yml", "push", map[string]any{"ref": "refs/heads/main", "repository": map[string]any{"full_name": slug}})
		if got := a.output("evaluate", "rollout", "verdict"); a.code != c.code || got != "fail" {
			t.Errorf("%d days: act ends with %d, and the verdict is %q", c.days, a.code, got)
		}
		a.wantResults(map[string]string{"evaluate": c.result})
		if text := a.summary("evaluate"); !strings.Contains(text, c.said) || !strings.Contains(text, until) {
			t.Errorf("%d days: the summary does not say %q:\n%s", c.days, c.said, text)
		}
	}
}
