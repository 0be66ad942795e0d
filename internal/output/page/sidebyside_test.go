package page

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/test/reporttest"
)

func said(texts ...string) map[string]string {
	steps := `{"source": "user", "message": "Do it."}`
	for _, text := range texts {
		steps += `, {"source": "agent", "message": "` + text + `", "tool_calls": [{"tool_call_id": "c", "function_name": "bash", "arguments": {"command": "` + text + `"}}],
			"observation": {"results": [{"source_call_id": "c", "content": "no", "extra": {"is_error": true}}]}}`
	}
	return map[string]string{"trajectory.json": `{"steps": [` + steps + `]}`}
}

// A trial is shown with the baseline's attempt if its files are at hand, and otherwise with an
// attempt that passed.
func TestBeside(t *testing.T) {
	spec := reporttest.Spec{Agent: "a", Dataset: "d", Task: "one", Reward: new(0.0), Seconds: 1, Logs: said("x", "y", "z")}
	second, third := spec, spec
	second.Attempt, second.Logs = 2, said("q")
	third.Attempt, third.Reward, third.Logs = 3, new(1.0), said("x", "y", "w", "v")
	in := reporttest.Make("job", []reporttest.Spec{spec, second, third})
	get := func(in report.Input, size int) *SideBySide {
		v := Trial{}
		this, err := report.Trajectory(in, in.Trials[0].Key().Dir()+"/trajectory.json")
		if err != nil {
			t.Fatal(err)
		}
		v.addSideBySide(in, *in.Trials[0].Unpack(), this, size)
		return v.SideBySide
	}
	b := get(in, 10_000)
	if b == nil || b.Other != "attempt 3, reward 1" || b.This != "this attempt, reward 0" || b.Alike != 1 || len(b.Rows) != 3 || b.More != 0 {
		t.Fatalf("side by side: %+v", b)
	}
	if r := b.Rows[1]; r.N != 3 || !r.First || r.Other.Text != "w\n→ bash command: w\n← failed: no" || !r.This.Failed || b.Rows[0].First {
		t.Errorf("the row is %+v", r)
	}
	if r := b.Rows[2]; r.This.Text != "" || r.Other.Text == "" {
		t.Errorf("the last row is %+v", r)
	}
	if b := get(in, minBeside-1); b != nil {
		t.Errorf("without room there is %+v", b)
	}
	base := reporttest.Make("main", []reporttest.Spec{{Agent: "a", Dataset: "d", Task: "one", Reward: new(1.0), Seconds: 1, Logs: said("x", "u")}})
	in = reporttest.Against(in, base)
	if b := get(in, 10_000); b.Other != "attempt 3, reward 1" {
		t.Errorf("with a baseline of which only numbers are known, side by side: %+v", b)
	}
	in.BaseFiles = base.Files
	if b := get(in, 10_000); b.Other != "the baseline's attempt 1, reward 1" || b.Alike != 0 || len(b.Rows) != 3 || !b.Rows[1].First {
		t.Errorf("next to the baseline: %+v", b)
	}
	in.BaseFiles = fstest.MapFS{base.Trials[0].Key().Dir() + "/trajectory.json": {Data: []byte("{")}}
	v := Trial{}
	this, err := report.Trajectory(in, in.Trials[0].Key().Dir()+"/trajectory.json")
	if err != nil {
		t.Fatal(err)
	}
	if v.addSideBySide(in, *in.Trials[0].Unpack(), this, 10_000); v.SideBySide != nil || len(v.LeftOut) != 1 {
		t.Errorf("with a conversation that cannot be read, side by side: %+v, left out: %q", v.SideBySide, v.LeftOut)
	}
}

// Trajectories that are read for one page have a bound together.
func TestTrajectoriesWithinABound(t *testing.T) {
	files := fstest.MapFS{"one.json": {Data: []byte(said("x")["trajectory.json"])}}
	room := int64(len(files["one.json"].Data)) + 1
	in := report.Input{Files: files}
	if _, err := trajectoryWithin(in, "one.json", &room); err != nil || room != 1 {
		t.Errorf("%v, room for %d bytes is left", err, room)
	}
	if _, err := trajectoryWithin(in, "one.json", &room); !errors.Is(err, errNoRoom) || room != 1 {
		t.Errorf("without room: %v, %d", err, room)
	}
}
