package cli

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/core/result"
)

func TestTableOfAgentsWithModels(t *testing.T) {
	for _, models := range []bool{true, false} {
		row := app.TableRow{Agent: "a", Cost: result.Dollars(1)}
		if models {
			row.Usage = &result.UsageMeans{Turns: new(8.0), InputTokens: new(12800.0), Cost: result.Dollars(0.4), Models: []string{"small"}}
		}
		table := app.Table{Rows: []app.TableRow{row, {Agent: "without"}}}
		for format, wants := range map[string][]string{"text": {"COST/TRIAL", "8 ", "12.8k", "$0.40"}, "csv": {"mean_turns", ",8,12800,,0.4,,small"}, "json": {`"turns": 8`}} {
			var out strings.Builder
			if err := (Env{Stdout: &out, Stderr: io.Discard}).printTable(table, compareOptions{by: "agent", format: format}); err != nil {
				t.Fatal(err)
			}
			for _, want := range wants {
				if strings.Contains(out.String(), want) != models {
					t.Errorf("models %v: %q in:\n%s", models, want, out.String())
				}
			}
		}
	}
}

func TestDiffOfJobsWithModels(t *testing.T) {
	job := func(model string, turns int64, cost float64) result.Job {
		var plan result.Plan
		var trials []result.Trial
		for _, agent := range []string{"careful", "other"} {
			for _, task := range []string{"hello", "parse"} {
				trial := result.Trial{
					Key: result.Key{Agent: agent, Dataset: "core", Task: task, Attempt: 1}, Reward: new(1.0),
					Usage: &result.Usage{Turns: turns, Calls: turns, InputTokens: new(1600 * turns), OutputTokens: new(int64(1000)), ModelSec: 2 * float64(turns), Requested: "small"},
				}
				if agent == "other" {
					trial.Usage.Requested, trial.Usage.Unpriced = model, 1
				} else {
					trial.Costs.Model = result.Dollars(cost)
				}
				trial.Cost = trial.Costs.Total()
				trials, plan.Trials = append(trials, trial), append(plan.Trials, trial.Key)
			}
		}
		return result.Summarize(plan, trials)
	}
	var b strings.Builder
	writeDiff(&b, result.Compare(job("small", 5, 0.455), job("large", 8, 0.4)), 20)
	for _, want := range []string{
		"TURNS", "COST/TRIAL", "5 → 8 (+3)", "8.0k → 12.8k (+60%)", "$0.46 → $0.40 (−12%)", "10.0s → 16.0s (+60%)",
		"$0.46 → $0.40 (not comparable)",
		"Note: other: other models were used: small in the baseline, large now; the cost of 2 of 2 trials of the baseline is not known; the cost of 2 of 2 trials of this job is not known; so costs cannot be compared.",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
	b.Reset()
	plain := result.Job{Results: []result.Outcome{{Key: result.Key{Agent: "a", Dataset: "d", Task: "t", Attempt: 1}, Reward: new(1.0)}}}
	writeDiff(&b, result.Compare(plain, plain), 20)
	if strings.Contains(b.String(), "TURNS") || strings.Contains(b.String(), "models") {
		t.Errorf("a job without models:\n%s", b.String())
	}
}

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
		"max_cost_increase: mean cost of a trial rose from $0.60 to $1.80 (+199.0%", "and the limit is 20.0%", "baseline: cost +199%, turns ±0, input +200%",
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
