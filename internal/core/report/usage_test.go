package report_test

import (
	"math"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/reporttest"
)

func TestUsagesOfAJob(t *testing.T) {
	in := reporttest.Models()
	rows := report.Usages(in.Job, in.Diff)
	if len(rows) != 3 {
		t.Fatalf("%+v", rows)
	}
	for i, want := range []struct{ agent, cells, changed, notes string }{
		{"careful", "8 | 10.0k | 1.0k | $0.40 | 20.0s", "cost −12%, turns +3, input +25%, output ±0%, model time +25%", ""},
		{"priceless", "5 | 4.0k | – | – | 10.0s", "turns ±0, input ±0%, model time ±0%", "the cost of 2 of 2 trials of this job is not known; so costs cannot be compared"},
		{"upgraded", "5 | 8.0k | 1.0k | ≥ $0.50 | 10.0s", "cost +100%, turns ±0, input ±0%, output ±0%, model time ±0%",
			"other models were used: small in the baseline, large now; the cost of 1 of 2 trials of this job is not known"},
	} {
		got := rows[i]
		if cells := strings.Join(got.Cells, " | "); got.Agent != want.agent || cells != want.cells {
			t.Errorf("%s: %s, want %s: %s", got.Agent, cells, want.agent, want.cells)
		}
		if got.Changed() != want.changed {
			t.Errorf("%s: changes %q, want %q", got.Agent, got.Changed(), want.changed)
		}
		if notes := strings.Join(got.Notes, "; "); notes != want.notes {
			t.Errorf("%s: notes %q, want %q", got.Agent, notes, want.notes)
		}
	}
	if rows := report.Usages(in.Job, nil); rows[0].Changes != nil || rows[0].Notes != nil {
		t.Errorf("without a baseline: %+v", rows[0])
	}
	if rows := report.Usages(reporttest.Mixed().Job, nil); rows != nil {
		t.Errorf("a job without models: %+v", rows)
	}
}

func TestUsageOfHostileFiles(t *testing.T) {
	job := result.Job{Agents: map[string]result.Summary{"a": {Usage: &result.UsageSum{
		Trials: 1, Turns: math.MaxInt64, InputTokens: new(int64(math.MaxInt64)), Cost: result.Dollars(math.MaxFloat64), ModelSec: math.MaxFloat64,
	}}, "b": {Usage: &result.UsageSum{Trials: -1}}}}
	rows := report.Usages(job, nil)
	if len(rows) != 1 || len(strings.Join(rows[0].Cells, "")) > 100 {
		t.Errorf("%+v", rows)
	}
}

func TestPercentChanges(t *testing.T) {
	for _, tc := range []struct {
		then, now float64
		want      string
	}{
		{100, 112, "+12%"}, {100, 88, "−12%"}, {100, 100.2, "±0%"}, {0, 0, "±0%"}, {0, 5, "new"}, {5, 0, "−100%"},
		{1e-300, 1e300, "more than +1000000%"}, {1, math.NaN(), "more than +1000000%"},
	} {
		if got := report.PercentChange(tc.then, tc.now); got != tc.want {
			t.Errorf("%g to %g: %s, want %s", tc.then, tc.now, got, tc.want)
		}
	}
	for n, want := range map[float64]string{0: "0", 999: "999", 1000: "1.0k", 99_949: "99.9k", 123_456: "123k", 999_600: "1.00M", 4.56e6: "4.56M", 5e12: "5e+12"} {
		if got := report.Tokens(n); got != want {
			t.Errorf("%g: %s, want %s", n, got, want)
		}
	}
}
