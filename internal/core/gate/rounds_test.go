package gate

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/testenv"
)

// inRounds runs the rounds of a job and returns it as it ended. The baseline runs in the same
// rounds or has all of its attempts.
func inRounds(p Policy, base, head result.Job, attempts int, stored bool) (ofBase, ofHead result.Job, l Look) {
	for round := 1; ; round++ {
		ofBase, ofHead = base, until(head, round)
		for _, o := range head.Results.All() {
			if o.Attempt > round {
				ofHead.Skipped = append(ofHead.Skipped, o.Key)
			}
		}
		if !stored {
			ofBase = until(base, round)
		}
		if l = p.Look(ofBase, ofHead, attempts, round, today); l.Decision != More {
			ofHead.Rounds = &result.Rounds{Attempts: attempts, Made: round, Reason: l.End, Why: l.Reason, NotNeeded: ofHead.Skipped}
			ofHead.Skipped = nil
			return ofBase, ofHead, l
		}
	}
}

// TestCheckAgreesWithLooks: the verdict of a job that ran in rounds is red exactly if a look ended
// it so. So its level is that of the looks, also if all rounds were made.
func TestCheckAgreesWithLooks(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	made := map[int]int{}
	for i := range testenv.Times(36, 200) {
		p := []Policy{dropLimit, bothLimits}[i%2]
		s := suite{Tasks: 14, Attempts: 2 + i%3/2, A: 1, B: 0.7, Drop: []float64{0, 0.2, 0.5}[i/2%3]}
		w := s.Draw(rng)
		base, head, l := inRounds(p, w.Base, w.Head, s.Attempts, i%4 < 2)
		v := verdict(p, base, head)
		if (v.Outcome == Fail) != (l.Decision == Red) {
			t.Errorf("%+v: the look says %+v, the verdict %s: %s", s, l, v.Outcome, v.Reason)
		}
		for _, c := range v.Checks {
			if c.Test != nil && (c.Test.Rounds != head.Rounds.Made || c.Outcome == Fail && c.Test.Adjusted > 0.05*(1+rounding)) {
				t.Errorf("%+v", *c.Test)
			}
		}
		if early := len(head.Rounds.NotNeeded) > 0; early != slices.ContainsFunc(v.Notes, func(n string) bool { return strings.Contains(n, "not needed") }) {
			t.Errorf("ended early: %v, notes %q", early, v.Notes)
		}
		made[head.Rounds.Made]++
	}
	if made[1] == 0 || made[2] == 0 {
		t.Errorf("rounds %v: this tests little", made)
	}
}

// TestProvenStaysRed: a job that ended because a drop above its limit was proven is red, also if
// later attempts of the stored baseline make the drop smaller than the limit, or leave no task
// broken.
func TestProvenStaysRed(t *testing.T) {
	var pairs [][2][]float64
	for range 20 {
		pairs = append(pairs, [2][]float64{{1, 0, 0}, {0, 0, 0}})
	}
	for _, limits := range []Thresholds{
		{MaxPassRateDrop: new(0.4)},
		{MaxMeanRewardDrop: new(0.4)},
		{MaxBrokenTasks: new(3), MaxPassRateDrop: new(1.0)},
	} {
		p := Policy{Thresholds: limits}
		base, head := jobs(pairs...)
		base, head, l := inRounds(p, base, head, 3, true)
		if l.End != result.EndProven || head.Rounds.Made != 1 {
			t.Fatalf("%+v", l)
		}
		if v := verdict(p, base, head); v.Outcome != Fail {
			t.Errorf("%+v: %s: %s", limits, v.Outcome, v.Reason)
		}
	}
}

// TestLateTestsArePaidFor: costs are tested at the end, and their p-value is multiplied by the
// number of ends that there can be and of tests.
func TestLateTestsArePaidFor(t *testing.T) {
	p := dropLimit
	p.MaxCostIncrease = new(0.0)
	rng := rand.New(rand.NewPCG(4, 4))
	w := suite{Tasks: 12, Attempts: 3, A: 1, B: 1}.Draw(rng)
	for i := range w.Base.Results.Len() {
		w.Base.Results.Change(i, func(o *result.Outcome) { o.Cost = result.Dollars(1 + rng.Float64()) })
	}
	for i := range w.Head.Results.Len() {
		w.Head.Results.Change(i, func(o *result.Outcome) { o.Cost = result.Dollars(1.5 + rng.Float64()) })
	}
	base, head, _ := inRounds(p, w.Base, w.Head, 3, true)
	for _, c := range verdict(p, base, head).Checks {
		if c.Name == "max_cost_increase" && (c.Test == nil || c.Test.Adjusted != min(1, c.Test.P*2*3)) {
			t.Errorf("%+v", c.Test)
		}
	}
}

// TestPlainLimitsKeepAJobRunning: a job that is futile goes on while the attempts that are left may
// decide a limit without a test, and ends when one can no longer be reached.
func TestPlainLimitsKeepAJobRunning(t *testing.T) {
	var base, head result.Job
	for _, task := range []string{"a", "b", "c", "d"} {
		for n := 1; n <= 3; n++ {
			key := result.Key{Agent: "x", Dataset: "d", Task: task, Attempt: n}
			base.Results.Append(result.Outcome{Key: key, Reward: new(1.0)})
			if n == 1 {
				head.Results.Append(result.Outcome{Key: key, Reward: new(1.0)})
			} else {
				head.Skipped = append(head.Skipped, key)
			}
		}
	}
	for _, tc := range []struct {
		name   string
		limits Thresholds
		want   Decision
		reason string
	}{
		{"no plain limit", Thresholds{}, Green, "no further attempts"},
		{"4 of 12 are enough", Thresholds{MinPassRate: new(0.33), MinPassRateAll: new(0.33)}, Green, "no further attempts"},
		{"4 of 12 are not enough yet", Thresholds{MinPassRate: new(0.5)}, More, "min_pass_rate"},
		{"of all planned trials", Thresholds{MinPassRateAll: new(0.5)}, More, "min_pass_rate_all"},
		{"rewards have no bounds", Thresholds{MinMeanReward: new(0.1)}, More, "min_mean_reward"},
		{"a score", Thresholds{Scores: map[string]ScoreLimits{"quality": {Min: new(0.1)}}}, More, "quality"},
		{"costs are limits on what ran", Thresholds{MaxCostUSD: new(1.0), MaxDurationSec: new(9.0)}, Green, "no further attempts"},
	} {
		tc.limits.MaxPassRateDrop = new(0.0)
		if l := (Policy{Thresholds: tc.limits}).Look(base, head, 3, 1, today); l.Decision != tc.want || !strings.Contains(l.Reason, tc.reason) {
			t.Errorf("%s: %+v", tc.name, l)
		}
	}
	for i := range head.Results.Len() {
		head.Results.Change(i, func(o *result.Outcome) { o.Reward = new(0.0) })
		base.Results.Change(i*3, func(o *result.Outcome) { o.Reward = new(0.0) })
	}
	limits := Thresholds{MaxPassRateDrop: new(0.0), MinPassRate: new(0.9)}
	if l := (Policy{Thresholds: limits}).Look(base, head, 3, 1, today); l.Decision != Red || l.End != result.EndMissed {
		t.Errorf("8 of 12 are the most that can be reached: %+v", l)
	}
}

// TestLookable: looks need as many attempts of a stored baseline, which were not chosen by looks.
func TestLookable(t *testing.T) {
	base := result.Job{Results: result.OutcomesOf([]result.Outcome{{Key: result.Key{Attempt: 1}}, {Key: result.Key{Attempt: 2}}}...)}
	if !Lookable(base, 2) || Lookable(base, 3) {
		t.Error("two attempts are enough for two, not for three")
	}
	base.Rounds = &result.Rounds{Attempts: 2, Made: 2, Reason: result.EndWhole}
	if !Lookable(base, 2) {
		t.Error("all attempts were made")
	}
	base.Rounds = &result.Rounds{Attempts: 3, Made: 2, Reason: result.EndFutile, NotNeeded: []result.Key{{Attempt: 3}}}
	if Lookable(base, 2) {
		t.Error("it ended early")
	}
}
