package summary

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
)

func changed(task string, reward float64) result.Outcome {
	return result.Outcome{Key: result.Key{Agent: "a", Dataset: "d", Task: task, Attempt: 1}, Reward: &reward}
}

func TestVerdictListsChangesAndReasons(t *testing.T) {
	base := result.Job{Results: result.OutcomesOf(changed("breaks", 1), changed("mends", 0), changed("stays", 1))}
	head := result.Job{Results: result.OutcomesOf(changed("breaks", 0), changed("mends", 1), changed("stays", 1))}
	diff := result.Compare(base, head)
	var b strings.Builder
	WriteVerdict(&b, VerdictInput{
		Verdict: gate.Verdict{
			Outcome: gate.Fail, Reason: "a task broke", Notes: []string{"three tasks show little"},
			Checks: []gate.Check{
				{Name: "max_broken_tasks", Outcome: gate.Fail, Message: "1 task broke, 0 may", Hint: "look at breaks"},
				{Name: "min_pass_rate", Agent: "a", Outcome: gate.Pass, Message: "67 %"},
				{Name: "max_pass_rate_drop", Outcome: gate.Pass, Skipped: true, Message: "not checked"},
			},
			Quarantined: []gate.Quarantined{{Dataset: "d", Task: "flaky", Reason: "known", Until: "2026-12-31"}},
		},
		Diff: &diff, Baseline: "main at 1234567", Incomplete: []string{"shard 2/4 is missing"}, Notes: []string{"no comment"},
	}, false, 100)
	want := `
✗ incomplete: shard 2/4 is missing

Baseline: main at 1234567

Tasks against the baseline: 1 broken, 1 fixed, 1 same
  broken    a/d/breaks  1.0 → 0.0
  fixed     a/d/mends  0.0 → 1.0

Gate: fail. a task broke
  ✗ max_broken_tasks: 1 task broke, 0 may
    look at breaks
  ✓ min_pass_rate (a): 67 %
  – max_pass_rate_drop: not checked
  - not gated until 2026-12-31: d/flaky (known)
  · three tasks show little

Note: no comment
`
	if b.String() != want {
		t.Errorf("got:\n%s", b.String())
	}
}

func TestVerdictContainsNoCommand(t *testing.T) {
	evil := "\x1b[31m " + strings.Repeat("x", 70) + " ::error::owned ##[error]owned \u202e"
	diff := result.Compare(result.Job{}, result.Job{Results: result.OutcomesOf(changed(evil, 1))})
	var b strings.Builder
	WriteVerdict(&b, VerdictInput{
		Verdict: gate.Verdict{
			Outcome: gate.Fail, Reason: evil, Notes: []string{evil}, Checks: []gate.Check{{Name: evil, Agent: evil, Outcome: gate.Fail, Message: evil, Hint: evil}},
			Quarantined: []gate.Quarantined{{Dataset: evil, Task: evil, Reason: evil, Until: evil}},
		},
		Diff: &diff, Baseline: evil, Incomplete: []string{evil}, Notes: []string{evil},
	}, false, 80)
	noCommands(t, b.String())
	noEscapes(t, b.String())
}

// The output must not say "pass" of a job whose command exits with 1.
func TestIncompleteJobDoesNotPass(t *testing.T) {
	const but = "Gate: the job does not pass, because results are missing. About those that are there: so it is"
	for _, tc := range []struct {
		outcome gate.Outcome
		missing bool
		want    bool
	}{{gate.Pass, true, true}, {gate.Inconclusive, true, true}, {gate.Fail, true, false}, {gate.Pass, false, false}} {
		var b strings.Builder
		WriteVerdict(&b, VerdictInput{Verdict: gate.Verdict{Outcome: tc.outcome, Reason: "so it is"}, Missing: tc.missing}, false, 100)
		if strings.Contains(b.String(), but) != tc.want || strings.Contains(b.String(), "Gate: "+string(tc.outcome)) == tc.want {
			t.Errorf("%s, missing %v: %s", tc.outcome, tc.missing, b.String())
		}
	}
}

func TestCancelledJobHasNoVerdict(t *testing.T) {
	for _, missing := range []bool{false, true} {
		var b strings.Builder
		WriteVerdict(&b, VerdictInput{
			Verdict: gate.Verdict{
				Outcome: gate.Fail, Reason: "a task broke",
				Checks:  []gate.Check{{Name: "max_pass_rate_drop", Outcome: gate.Pass, Message: "rose"}},
				WaysOut: []gate.WayOut{{Text: "more attempts"}},
			},
			Missing: missing, Cancelled: true,
		}, false, 100)
		if want := "\nGate: no verdict, because it was cancelled before all results were there.\n"; b.String() != want {
			t.Errorf("got:\n%s", b.String())
		}
	}
	var b strings.Builder
	if WriteVerdict(&b, VerdictInput{Cancelled: true}, false, 100); b.Len() > 0 {
		t.Errorf("a job without a gate:\n%s", b.String())
	}
}
