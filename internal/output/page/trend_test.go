package page

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/gate"
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
	if len(got.Charts) != 4 || len(got.Charts[0].Dots) != 15 || len(got.Runs) != 15 || !got.Runs[0].Now || got.Runs[0].VerdictClass != "fail" || got.Runs[1].Now {
		t.Errorf("there are %d points and %d runs, the first %+v", len(got.Charts[0].Dots), len(got.Runs), got.Runs[0])
	}
	if got := trendRun(history.Run{Agent: history.Agent{InputTokens: history.Mean{N: 1, Mean: 1200}, OutputTokens: history.Mean{N: 1, Mean: 30}}}).Tokens; got != (TrendMean{Text: "1.2k in, 30 out"}) {
		t.Errorf("the tokens are %+v", got)
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
	for _, c := range got.Charts {
		if len(c.Dots) != 15 || (len(c.Keys) > 0) != (c.Title == "Pass rate over runs") {
			t.Errorf("%s has %d points and the keys %v", c.Title, len(c.Dots), c.Keys)
		}
	}
	for _, d := range got.Charts[0].Dots {
		if d.X < left || d.X > left+wide || d.Y < top || d.Y > top+tall {
			t.Errorf("outside of the chart: %+v", d)
		}
	}
	in.History = nil
	if got := trends(in); got != nil {
		t.Errorf("without a history there is %+v", got)
	}
}

// Charts draw the runs of all tasks only, and the page says how many others there are.
func TestChartsLeaveOutRunsOfAPart(t *testing.T) {
	in := reporttest.Past()
	in.History[2].Agents[0].LeftOut, in.History[9].Agents[0].LeftOut = 4, 5
	got := trends(in)[0]
	for _, c := range got.Charts {
		if len(c.Dots) != 13 {
			t.Errorf("%s has %d points", c.Title, len(c.Dots))
		}
	}
	if len(got.Runs) != 15 || !strings.Contains(got.Runs[5].Changed, "part of the tasks") || !strings.HasPrefix(got.Parts, "2 runs had only a part of the tasks") {
		t.Errorf("%d runs, %+v, %q", len(got.Runs), got.Runs[5], got.Parts)
	}
	for i := range in.History {
		in.History[i].Agents[0].LeftOut = 1
	}
	if got := trends(in)[0]; len(got.Charts) != 0 || got.Level != "" || len(got.Runs) != 15 {
		t.Errorf("with one whole run there are %d charts of %d runs, and the level %q", len(got.Charts), len(got.Runs), got.Level)
	}
}

// Unknown values of a run have no point, and points without an interval are counted.
func TestChartsOverRunsOmitTheUnknown(t *testing.T) {
	interval := &gate.Interval{Low: 0.5, High: 3}
	var runs []history.Run
	for i, a := range []history.Agent{
		{Cost: history.Mean{Mean: 1, N: 4, Interval: interval}},
		{Cost: history.Mean{Mean: 2, N: 4}, CostAtLeast: true, InputTokens: history.Mean{Mean: 100, N: 4}, OutputTokens: history.Mean{Mean: 10, N: 4}},
		{InputTokens: history.Mean{Mean: 100, N: 4}, OutputTokens: history.Mean{Mean: 10, N: 3}},
	} {
		runs = append(runs, history.Run{Point: history.Point{StartedAt: time.Date(2026, 1, i+1, 0, 0, 0, 0, time.UTC)}, Agent: a})
	}
	charts := trendCharts(runs)
	var got []string
	for _, c := range charts {
		got = append(got, c.Title+": "+c.Says)
	}
	want := []string{
		"Cost per trial over runs: 2 runs, $1.00 to $2.00; not known of 1 run; 1 of them without an interval",
		"Tokens per trial over runs: 1 run, 110 to 110; not known of 2 runs; without intervals",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	c := charts[0]
	if len(c.Dots) != 2 || c.Dots[0].Tip != "2026-01-01 00:00: $1.00 ($0.50 to $3.00)" || c.Dots[1].Tip != "2026-01-02 00:00: ≥ $2.00" || c.Dots[0].Y <= c.Dots[1].Y || c.Texts[1].Text != "$3.00" {
		t.Errorf("the points are %+v on an axis to %s", c.Dots, c.Texts[1].Text)
	}
	if line := c.Lines[len(c.Lines)-1]; line.Y1 != top || line.X1 != c.Dots[0].X {
		t.Errorf("the interval is %+v", line)
	}
}
