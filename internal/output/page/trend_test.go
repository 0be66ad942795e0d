package page

import (
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/core/history"
	"github.com/org/rollout-action/internal/test/reporttest"
)

// The job is the last of its runs, changes are marked, and tasks whose attempts failed come first.
func TestTrends(t *testing.T) {
	in := reporttest.Past()
	in.History = append(in.History, history.PointOf(in.Job, "main", "")) // the file may have the job already
	all := trends(in)
	if len(all) != 1 {
		t.Fatalf("there are %d trends, want 1", len(all))
	}
	got := all[0]
	if len(got.Chart.Dots) != 15 || len(got.Runs) != 15 || !got.Runs[0].Now || got.Runs[0].VerdictClass != "fail" || got.Runs[1].Now {
		t.Errorf("there are %d points and %d runs, the first %+v", len(got.Chart.Dots), len(got.Runs), got.Runs[0])
	}
	if got := trendRun(history.Run{Agent: history.Agent{InputTokens: history.Mean{N: 1, Mean: 1200}, OutputTokens: history.Mean{N: 1, Mean: 30}}}).Tokens; got != "1.2k in, 30 out" {
		t.Errorf("the tokens are %q", got)
	}
	var changes []string
	for _, run := range slices.Backward(got.Runs) {
		if run.Changed != "" {
			changes = append(changes, run.Started+" "+run.Changed)
		}
	}
	if want := []string{"2026-11-10 09:30 tasks", "2026-11-17 09:30 model"}; !slices.Equal(changes, want) {
		t.Errorf("the changes are %q, want %q", changes, want)
	}
	if got.Tasks[0].Name != "library-fines" || got.Tasks[0].Cells[14].Class != "failed" || got.Tasks[0].Cells[14].Text != "0 of 2 passed" {
		t.Errorf("the first task is %+v", got.Tasks[0])
	}
	for _, d := range got.Chart.Dots {
		if d.X < left || d.X > left+wide || d.Y < top || d.Y > top+tall {
			t.Errorf("outside of the chart: %+v", d)
		}
	}
	in.History = nil
	if got := trends(in); got != nil {
		t.Errorf("without a history there is %+v", got)
	}
}
