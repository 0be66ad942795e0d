package gate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

// TestWaysOut: an inconclusive verdict ends with the ways out of it, with the trials and costs that
// each takes by this job's own numbers.
func TestWaysOut(t *testing.T) {
	zero := 0
	limit := 0.05
	broken := Policy{Thresholds: Thresholds{MaxBrokenTasks: &zero}}
	drop := Policy{Thresholds: Thresholds{MaxPassRateDrop: &limit}}
	both := Policy{Thresholds: Thresholds{MaxBrokenTasks: &zero, MaxPassRateDrop: &limit}}
	advising := broken
	advising.Mode = ModeAdvise
	early := broken
	early.Stop = StopEarly
	three := func(tasks, fell int) (base, head result.Job) { // of three attempts each
		var pairs [][2][]float64
		for i := range tasks {
			v := 1.0
			if i < fell {
				v = 0
			}
			pairs = append(pairs, [2][]float64{{1, 1, 1}, {v, v, v}})
		}
		return jobs(pairs...)
	}
	for _, tc := range []struct {
		name        string
		policy      Policy
		tasks, fell int
		want        []string
	}{
		{"two of five tasks broke", broken, 5, 2, []string{
			"confirm: gate.confirm: {attempts: 4} tries 2 tasks that look broken again, and one that passes does not count: at most 8 more trials, about $4.00",
			"against: --confirm-against COMMIT --confirm 4 tries 2 tasks that look broken or fixed again, in both jobs, today: at most 16 more trials, about $8.00; --against COMMIT runs all tasks of both",
			"on_inconclusive: on_inconclusive: fail makes every such check red, also those that chance alone explains",
		}},
		{"the pass rate of five tasks fell", drop, 5, 2, []string{
			"tasks: about 160 tasks like these 5 show a drop of 10.0 points: in each of the two jobs, 465 more trials, about $232.50",
			"against: --against COMMIT runs the baseline now, with the job, so that neither chance in the old results nor the day decides: 15 more trials, about $7.50",
			"on_inconclusive: ",
		}},
		{"the gate only advises", advising, 5, 2, []string{
			"confirm: ", "against: ", "on_inconclusive: on_inconclusive: fail makes every such check red, also those that chance alone explains, but not while the gate only advises",
		}},
		{"a job in rounds takes no confirm", early, 5, 2, []string{
			"against: --against COMMIT runs the baseline now, with the job, so that neither chance in the old results nor the day decides: 15 more trials, about $7.50",
			"on_inconclusive: ",
		}},
		{"both", both, 5, 1, []string{"tasks: ", "confirm: ", "against: --against COMMIT", "on_inconclusive: "}},
		{"nothing is in doubt", both, 20, 0, nil},
		{"a drop is proven", both, 20, 15, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := verdict(tc.policy, first(three(tc.tasks, tc.fell)), second(three(tc.tasks, tc.fell)))
			checkWays(t, v, tc.want)
		})
	}
	t.Run("more attempts", func(t *testing.T) {
		var pairs [][2][]float64
		for i := range 40 { // eight fall, and four rise
			pairs = append(pairs, one(float64(b2i(i%10 != 9)), float64(b2i(i%5 != 0))))
		}
		base, head := jobs(pairs...)
		v := verdict(drop, base, head)
		checkWays(t, v, []string{"n_attempts: n_attempts: ", "against: ", "on_inconclusive: "})
	})
	t.Run("the costs are not known", func(t *testing.T) {
		base, head := three(5, 2)
		for i := range head.Results.Len() {
			head.Results.Change(i, func(o *result.Outcome) { o.Cost = result.USD{} })
		}
		v := verdict(broken, base, head)
		if w := v.WaysOut[0]; w.CostUSD != nil || w.Trials != 8 || !strings.HasSuffix(w.Text, "at most 8 more trials, cost unknown") {
			t.Errorf("%+v", w)
		}
	})
	t.Run("what the policy and the job have is not proposed", func(t *testing.T) {
		p := broken
		p.OnInconclusive, p.Confirm.Attempts = Fail, 4
		base, head := three(5, 2)
		head.Beside = &result.Beside{}
		if v := verdict(p, base, head); v.Outcome != Inconclusive || len(v.WaysOut) > 0 {
			t.Errorf("%s: %+v", v.Outcome, v.WaysOut)
		}
	})
}

func first(base, _ result.Job) result.Job  { return base }
func second(_, head result.Job) result.Job { return head }

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// checkWays compares the ways out with their names and the beginnings of their texts.
func checkWays(t *testing.T, v Verdict, want []string) {
	t.Helper()
	var got []string
	for _, w := range v.WaysOut {
		got = append(got, fmt.Sprintf("%s: %s", w.Name, w.Text))
		if len(w.Text) > 300 || strings.Contains(w.Text, "TRIALS") {
			t.Errorf("%q", w.Text)
		}
	}
	ok := len(got) == len(want)
	for i := range min(len(got), len(want)) {
		ok = ok && strings.HasPrefix(got[i], want[i])
	}
	if !ok {
		t.Errorf("%s: %s\ngot  %q\nwant %q", v.Outcome, v.Reason, got, want)
	}
}
