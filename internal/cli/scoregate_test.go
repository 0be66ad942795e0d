package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Scores are gated and compared with a baseline, unless the judge has changed.
func TestScoresInGateAndDiff(t *testing.T) {
	const judges = "judges:\n  - {name: a, agent: call, model: up, " + scored + "}\n"
	dir := rejudgeDir(t, judges) // one has the score 0.1
	edit := func(from, to string) {
		t.Helper()
		path := filepath.Join(dir, "job.yaml")
		text, err := os.ReadFile(path)
		if err == nil && !strings.Contains(string(text), from) {
			t.Fatalf("%q is not in the job file", from)
		}
		if err == nil {
			err = os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	expect := func(code int, args []string, want ...string) {
		t.Helper()
		o := inDir(t.Context(), t, dir, args...)
		if o.code != code {
			t.Errorf("%s ended with %d, want %d", args, o.code, code)
		}
		for _, w := range want {
			if !strings.Contains(o.stdout+o.stderr, w) {
				t.Errorf("%s: %q is missing", args, w)
			}
		}
		if t.Failed() || testing.Verbose() {
			t.Logf("%s%s", o.stdout, o.stderr)
		}
	}
	edit("judges:", "gate: {noise: ignore, scores: {a: {min: 0.15, max_drop: 0.05}}, max_judge_cost_usd: 0.001}\njudges:")
	expect(1, []string{"run", "job.yaml", "--name", "two", "--baseline", "jobs/one"}, // 0.2
		"✓ scores.a.min: mean score a 0.2 over 1 trial", "✓ scores.a.max_drop: mean score a rose from 0.1 to 0.2", "✗ max_judge_cost_usd: judges cost $0.002, at most $0.001 is allowed")
	edit("max_judge_cost_usd: 0.001", "max_judge_cost_usd: 0.002")
	expect(0, []string{"run", "job.yaml", "--name", "three", "--baseline", "jobs/two"}, "Gate: pass") // 0.3
	expect(0, []string{"diff", "jobs/three", "jobs/one"}, "mine   a      0.3       0.1  −0.2    1")
	expect(0, []string{"report", "jobs/one", "--baseline", "jobs/three", "--format", "markdown"}, "| `mine` | `a` | 0.3 | 0.1 | −0.2 | 1 |")

	edit("min: 0.15, max_drop", "max_drop")
	expect(0, []string{"run", "job.yaml", "--name", "four", "--baseline", "jobs/three"}, "✓ scores.a.max_drop") // 0.4
	edit("How good?", "How very good?")
	expect(0, []string{"run", "job.yaml", "--name", "five", "--baseline", "jobs/four"}, "– scores.a.max_drop: not checked: the judge of the score a has changed")
	expect(0, []string{"diff", "jobs/four", "jobs/five"}, "Note: agent mine: the judge changed, so scores are not compared (a on 1 task); rewards that depend on them may differ because of that.")
	edit("scores: {a:", "scores: {aa:")
	expect(2, []string{"validate", "job.yaml"}, `job.yaml:`, `no judge gives the score "aa"`, `did you mean "a"?`)
}
