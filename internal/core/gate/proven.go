package gate

import (
	"fmt"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
)

// measureProven replaces the measures of a job that ended because a look proved a drop: how far a
// limit is exceeded is measured on the attempts that the look compared. A stored baseline has later
// attempts, too. With those, a drop could be within its limit that was proven to exceed it, and the
// job would be green although no further round can show anything else.
func (k *checker) measureProven(head result.Job, now time.Time) {
	r := head.Rounds
	if r == nil || r.Reason != result.EndProven || k.diff == nil {
		return
	}
	before, after := pairsOf(k.diff.Base, head, r.Made)
	diff := result.Compare(before, after)
	looked, _ := gather(k.policy, after, &diff, now)
	replaced := false
	for i, t := range k.tests {
		c := &k.checks[t.index()]
		if isLate(t, *c) {
			continue
		}
		for _, l := range looked.tests {
			if o := looked.checks[l.index()]; o.Name == c.Name && o.Agent == c.Agent && o.Dataset == c.Dataset {
				k.tests[i], c.Value = movedTo(l, t.index()), o.Value
				replaced = true
			}
		}
	}
	if replaced && r.Made < r.Attempts {
		k.notes = append(k.notes, fmt.Sprintf("drops and broken tasks are those of the first %s of both jobs, after which this one ended", plural.Count(r.Made, "attempt")))
	}
}

// movedTo returns a test with another check.
func movedTo(t comparison, check int) comparison {
	switch t := t.(type) {
	case drop:
		t.check = check
		return t
	case *brokenTasks:
		moved := *t
		moved.check = check
		return &moved
	}
	return t
}
