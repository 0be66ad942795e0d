package page

import (
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/test/reporttest"
)

// With several agents, each task is a row of a grid and each agent a column. With one agent there
// is no grid.
func TestGridOfTasksAndAgents(t *testing.T) {
	specs := []reporttest.Spec{
		{Agent: "b", Dataset: "d", Task: "one", Reward: new(1.0), Seconds: 1}, {Agent: "a", Dataset: "d", Task: "one", Reward: new(0.0), Seconds: 1},
		{Agent: "a", Dataset: "e", Task: "two", Reward: new(1.0), Seconds: 1}, {Agent: "nop", Dataset: "d", Task: "one", Reward: new(0.0), Seconds: 1},
	}
	of := func(specs []reporttest.Spec) Page {
		in := reporttest.Make("job", specs)
		cases := report.Cases(in)
		return build(in, cases, detail{rows: len(cases)})
	}
	p := of(specs)
	if !slices.Equal(p.Columns, []string{"a", "b", "nop"}) || !slices.Equal(p.Datasets, []string{"d", "e"}) || len(p.Grid) != 2 {
		t.Fatalf("the grid has the columns %q, the datasets %q and %d rows", p.Columns, p.Datasets, len(p.Grid))
	}
	for _, row := range p.Grid {
		want := []GridCell{{"0/1", "failed", "failed"}, {"1/1", "passed", "passed"}, {"0/1", "failed", ""}}
		if row.Task == "two" {
			want = []GridCell{{"1/1", "passed", "passed"}, {}, {}}
		}
		if !slices.Equal(row.Cells, want) {
			t.Errorf("%s: %+v, want %+v", row.Task, row.Cells, want)
		}
	}
	for _, r := range p.Rows {
		if p.Grid[r.N-1].Task != r.Task || p.Grid[r.N-1].Dataset != r.Dataset {
			t.Errorf("the row of %s belongs to row %d of the grid", r.Task, r.N)
		}
	}
	if p := of(specs[1:2]); p.Grid != nil || p.Columns != nil || p.Datasets != nil || p.Rows[0].N != 0 {
		t.Errorf("of one agent there is a grid: %+v", p.Grid)
	}
}

// A cell compares with the baseline, and says how the task changed.
func TestGridCompares(t *testing.T) {
	r := Row{Result: "3/3 → 0/3", State: "failed", Change: "broken"}
	if got := r.inGrid(); got != (GridCell{"3/3 → 0/3", "broken", "broken"}) {
		t.Errorf("got %+v", got)
	}
	r.Change = "same"
	if got := r.inGrid(); !strings.HasSuffix(got.Result, "0/3") || got.Sign != "failed" {
		t.Errorf("got %+v", got)
	}
}
