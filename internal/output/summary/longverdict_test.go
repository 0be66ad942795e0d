package summary

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
)

func TestLongListsOfAVerdictAreBounded(t *testing.T) {
	in := VerdictInput{Verdict: gate.Verdict{Outcome: gate.Fail, Reason: "tasks broke"}, Stored: &result.Comparison{Changes: map[result.Change]int{result.Broken: 50}}, All: "--json has all"}
	for i := range 50 {
		outcome := gate.Pass
		if i == 49 {
			outcome = gate.Fail
		}
		in.Verdict.Checks = append(in.Verdict.Checks, gate.Check{Name: fmt.Sprintf("check-%02d", i), Outcome: outcome, Message: "seen"})
		in.Verdict.Quarantined = append(in.Verdict.Quarantined, gate.Quarantined{Dataset: "d", Task: fmt.Sprintf("kept-%02d", i)})
		in.Verdict.Notes = append(in.Verdict.Notes, fmt.Sprintf("note-%02d", i))
		in.Stored.Tasks = append(in.Stored.Tasks, result.ComparedTask{Agent: "a", Dataset: "d", Task: fmt.Sprintf("task-%02d", i), Change: result.Broken,
			Base: &result.ComparedSide{Attempts: 2, Passed: 2, MeanReward: new(1.0)}, Head: &result.ComparedSide{Attempts: 2}})
	}
	count := func() map[string]int {
		var b bytes.Buffer
		WriteVerdict(&b, in, false, 100)
		n := map[string]int{"more": strings.Count(b.String(), "… and 30 more; --json has all")}
		for _, what := range []string{"check-", "kept-", "note-", "task-"} {
			n[what] = strings.Count(b.String(), what)
		}
		if !strings.Contains(b.String(), "check-49") || !strings.Contains(b.String(), "a/d/task-00  1.0 (2 of 2 passed) → no reward") {
			t.Errorf("it has:\n%s", b.String())
		}
		return n
	}
	if n := count(); n["more"] != 4 || n["check-"] != 20 || n["kept-"] != 20 || n["note-"] != 20 || n["task-"] != 20 {
		t.Errorf("bounded: %v", n)
	}
	in.Whole = true
	if n := count(); n["more"] != 0 || n["check-"] != 50 || n["kept-"] != 50 || n["note-"] != 50 || n["task-"] != 50 {
		t.Errorf("whole: %v", n)
	}
}
