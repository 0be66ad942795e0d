package cli

import (
	"fmt"
	"strings"
	"testing"
)

// TestARunThatCostsMoreIsRed: from calls of a model to the verdict of the gate, the summary, the
// job summary and diff.
func TestARunThatCostsMoreIsRed(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "job.yaml", `environment: {type: fake}
models: {m: {api: scripted, script: answers.yaml, price: {input: 3, output: 15}}}
agents: [{name: baseline, preset: shell, model: m}]
datasets: [{path: evals}]
gate: {max_cost_increase: 20%}
`)
	for i := range 6 {
		writeTask(t, dir, fmt.Sprintf("evals/t%d", i))
	}
	answers := func(input int) {
		write(t, dir, "answers.yaml", fmt.Sprintf("answers: [{text: I write it., run: \"true\", usage: {input: %d, output: 100}}, {text: Done., usage: {input: %d, output: 100}}]\n", input, input))
	}
	answers(100_000)
	rollout(t, t.Context(), nil, dir, "run", "job.yaml", "--log-format", "plain", "--name", "main").check(t, 0)
	answers(300_000)
	s := rollout(t, t.Context(), nil, dir, "run", "job.yaml", "--log-format", "plain", "--name", "pr", "--baseline", "jobs/main")
	s.check(t, 1)
	text := strings.Join(strings.Fields(s.stdout+s.stderr), " ")
	for _, want := range []string{
		"max_cost_increase: mean cost of a trial rose from $0.60 to $1.80 (+199.0%", "and the limit for a typical trial is 20.0%", "baseline: cost +199%, turns ±0, input +200%",
		"Means per trial",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s%s", want, s.stdout, s.stderr)
		}
	}
	rollout(t, t.Context(), nil, dir, "report", "jobs/pr", "--baseline", "jobs/main", "--max-cost-increase", "250%").check(t, 0)
	if s := rollout(t, t.Context(), nil, dir, "report", "jobs/pr", "--baseline", "jobs/main", "--format", "markdown"); !strings.Contains(s.stdout, "| `baseline` | `m` | 6 | 2 (±0) | 600k (+200%) | 200 (±0%) | $1.80 (+199%) |") {
		t.Errorf("%s%s", s.stdout, s.stderr)
	}
	if s := rollout(t, t.Context(), nil, dir, "diff", "jobs/main", "jobs/pr"); !strings.Contains(s.stdout, "200k → 600k (+200%)") {
		t.Errorf("%s%s", s.stdout, s.stderr)
	}
}
