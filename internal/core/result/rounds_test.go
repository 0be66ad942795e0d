package result

import (
	"strings"
	"testing"
)

// The rates of a job that ended early are of fewer attempts, and biased if these depend on the
// task.
func TestFewerAttempts(t *testing.T) {
	key := func(attempt int) Key { return Key{Agent: "a", Dataset: "d", Task: "t", Attempt: attempt} }
	for name, c := range map[string]struct {
		rounds *Rounds
		want   string // part of it; "": it says nothing
	}{
		"no rounds":       {nil, ""},
		"all attempts":    {&Rounds{Attempts: 3, Made: 3}, ""},
		"whole rounds":    {&Rounds{Attempts: 3, Made: 2, NotNeeded: []Key{key(3)}}, "after 2 of 3 rounds"},
		"single attempts": {&Rounds{Attempts: 3, Made: 2, NotNeeded: []Key{key(2), key(3)}}, "biased"},
		"all rounds":      {&Rounds{Attempts: 3, Made: 3, NotNeeded: []Key{key(3)}}, "biased"},
	} {
		if got := c.rounds.Fewer(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: it says %q", name, got)
		}
	}
}
