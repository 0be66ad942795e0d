package proof

import (
	"fmt"
	"slices"
	"testing"
)

func TestReasonsAreGroupedByKind(t *testing.T) {
	everywhere := []string{"docker", "sandbox"}
	for name, tc := range map[string]struct {
		a, b string
		same bool
	}{
		"quoted text differs":       {`unknown key "a"`, `unknown key "b \" c"`, true},
		"numbers differ":            {"is larger than 16 MiB", "is larger than 8 MiB", true},
		"findings of one rule":      {"the build needs a.pyc, which does not exist [copy-source]", "the build needs b.pyc, which does not exist [copy-source]", true},
		"findings of several rules": {"a [copy-source]", "a [dockerfile]", false},
		"other words":               {"is missing", "cannot be read", false},
	} {
		t.Run(name, func(t *testing.T) {
			board := tally{accepted: map[string]int{}, refused: map[string]*Refused{}}
			board.add("two", kindOf("tests/x", tc.a), tc.a, everywhere)
			board.add("one", kindOf("tests/y", tc.b), tc.b, everywhere)
			got := board.reasons()
			if same := len(got) == 1; same != tc.same {
				t.Fatalf("%+v", got)
			}
			if tc.same && (got[0].Tasks != 2 || got[0].Example != "one" || got[0].Reason != tc.b) {
				t.Errorf("the example is not the first task: %+v", got[0])
			}
		})
	}
}

func TestMostFrequentReasonComesFirst(t *testing.T) {
	board := tally{refused: map[string]*Refused{}}
	for i := range 3 * maxKinds { // a hostile dataset has a reason for each task
		name := fmt.Sprintf("%04d", i)
		board.add(name, name, "reason "+name, []string{"docker"})
	}
	for i := range 5 {
		board.add(fmt.Sprint(i), "0000", "reason", []string{"docker"})
	}
	got := board.reasons()
	if len(got) != maxKinds+1 || got[0].Reason != "other reasons" || got[0].Tasks != 2*maxKinds || got[1].Tasks != 6 || got[1].Example != "0" {
		t.Errorf("%d reasons: %+v", len(got), got[:2])
	}
	total := 0
	for _, r := range got {
		total += r.Tasks
	}
	if total != 3*maxKinds+5 || !slices.IsSortedFunc(got, func(a, b Refused) int { return b.Tasks - a.Tasks }) {
		t.Errorf("%d tasks", total)
	}
}
