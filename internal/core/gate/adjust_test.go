package gate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/org/rollout-action/internal/core/paired"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/testenv"
)

// sweepVariable makes simulations print the tables of the documentation.
const sweepVariable = "ROLLOUT_TEST_SWEEP"

// bothLimits limits what most suites limit: the pass rate and broken tasks.
var bothLimits = Policy{Thresholds: Thresholds{MaxPassRateDrop: new(0.0), MaxBrokenTasks: new(0)}}

// redByHolm reports whether a verdict would be red with Holm's correction of its p-values: the
// smallest one decides, and each of these limits is exceeded if it is significant.
func redByHolm(v Verdict) bool {
	for _, c := range v.Checks {
		if c.Test != nil && c.Test.P*float64(c.Test.Tests) <= 0.05*(1+1e-9) {
			return true
		}
	}
	return false
}

// TestSeveralLimitsCostLittle compares with the documentation how often a drop or broken tasks are
// found if both are limited: by the joint flips of signs, and by Holm's correction.
func TestSeveralLimitsCostLittle(t *testing.T) {
	runs := testenv.Times(60, 400)
	if os.Getenv(sweepVariable) != "" {
		runs = 1000
	}
	for i, c := range []struct {
		suite
		red, holm float64 // in percent
	}{
		{suite{Tasks: 10, Attempts: 3, A: 1, B: 0.7, Drop: 0.3}, 76, 60},
		{suite{Tasks: 30, Attempts: 3, A: 1, B: 0.7, Drop: 0.14}, 73, 59},
		{suite{Tasks: 100, Attempts: 3, A: 1, B: 0.7, Drop: 0.08}, 76, 66},
		{suite{Tasks: 30, Attempts: 3, A: 1, B: 0.7, Broken: 4}, 40, 25},
		{suite{Tasks: 100, Attempts: 3, A: 1, B: 0.7, Broken: 8}, 66, 62},
		{suite{Tasks: 30, Attempts: 3, A: 0.3, B: 0.3, Broken: 4}, 51, 29},
		{suite{Tasks: 100, Attempts: 5, A: 8, B: 1, Broken: 5}, 63, 54},
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(i), 31))
			red, holm := 0, 0
			for range runs {
				w := c.Draw(rng)
				v := verdict(bothLimits, w.Base, w.Head)
				if v.Outcome == Fail {
					red++
				}
				if redByHolm(v) {
					holm++
				}
			}
			t.Logf("| %s | %.0f %% | %.0f %% |", c.suite, share100(holm, runs), share100(red, runs))
			wantShare(t, share100(red, runs), c.red, runs)
			wantShare(t, share100(holm, runs), c.holm, runs)
		})
	}
}

// severalLimits are policies with several limits that are tested, whose verdicts have one chance of
// a false alarm.
func severalLimits() map[string]Policy {
	groups := Policy{Thresholds: Thresholds{MaxPassRateDrop: new(0.0)}}
	for g := range 3 {
		groups.Groups = append(groups.Groups, Group{Agent: fmt.Sprintf("a%d", g), Thresholds: bothLimits.Thresholds})
	}
	rewards := bothLimits
	rewards.MaxMeanRewardDrop = new(0.0)
	return map[string]Policy{"drop and broken tasks": bothLimits, "rewards, too": rewards, "three agents": groups}
}

// TestSeveralLimitsKeepTheLevel: if nothing changed, a verdict of several limits fails in at most
// one of twenty runs, in each suite and on average.
func TestSeveralLimitsKeepTheLevel(t *testing.T) {
	testenv.Long(t, "suites are simulated many times")
	runs, sizes, attempts := testenv.Times(40, 200), []int{10, 40}, []int{2, 3}
	if os.Getenv(sweepVariable) != "" {
		runs, sizes, attempts = 100, []int{10, 30, 100, 300}, []int{1, 2, 3, 5}
	} else {
		t.Logf("left out: suites of 30, 100 and 300 tasks, 1 and 5 attempts; %s=1 has them", sweepVariable)
	}
	for name, p := range severalLimits() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, red, worst, at := 0, 0, 0.0, ""
			for _, n := range sizes {
				for _, k := range attempts {
					for _, s := range []suite{
						{A: 1, B: 0.7}, {A: 0.3, B: 0.3}, {A: 8, B: 1}, {A: 1, B: 0.7, Copied: 0.7}, {A: 8, B: 1, Copied: 0.7},
						{A: 1, B: 1, Parts: 4}, {A: 1, B: 1, HeadAttempts: k + 1},
					} {
						s.Tasks, s.Attempts = n, k
						if len(p.Groups) > 0 {
							s.Agents = len(p.Groups)
						}
						rng := rand.New(rand.NewPCG(uint64(n), uint64(k)))
						failed := 0
						for range runs {
							w := s.Draw(rng)
							if verdict(p, w.Base, w.Head).Outcome == Fail {
								failed++
							}
						}
						all, red = all+runs, red+failed
						if share := share100(failed, runs); share > worst {
							worst, at = share, s.String()
						}
						if paired.AtLeast(runs, failed, 0.05) < 0.0003 {
							t.Errorf("%s: red in %.1f %% of %d unchanged runs", s, share100(failed, runs), runs)
						}
					}
				}
			}
			t.Logf("| %s | %.1f %% | %.1f %% (%s) |", name, share100(red, all), worst, at)
			if paired.AtLeast(all, red, 0.05) < 0.001 {
				t.Errorf("red in %.1f %% of %d unchanged runs", share100(red, all), all)
			}
		})
	}
}

// TestUnequalAttemptsDoNotFlip: a test of tasks with unequal attempts gets Holm's correction, and
// is none of the flips that the others have in common.
func TestUnequalAttemptsDoNotFlip(t *testing.T) {
	var pairs [][2][]float64
	for range 6 {
		pairs = append(pairs, [2][]float64{{1, 1, 1}, {0, 0}})
	}
	base, head := jobs(pairs...)
	addTask(&base, "a", "d", "u", 0, 1, 1)
	addTask(&head, "a", "d", "u", 1, 1)
	v := verdict(bothLimits, base, head)
	drop, broken := find(t, v, "max_pass_rate_drop").Test, find(t, v, "max_broken_tasks").Test
	if drop.Tests != 2 || math.Abs(broken.Adjusted-2*broken.P) > 1e-12 {
		t.Errorf("%+v, %+v", drop, broken)
	}
}

// BenchmarkCheckGroups measures a verdict of many limits: 12 agents at 1000 tasks, with two limits
// each.
func BenchmarkCheckGroups(b *testing.B) {
	w := suite{Tasks: 1000, Attempts: 3, A: 1, B: 1, Agents: 12}.Draw(rand.New(rand.NewPCG(1, 1)))
	diff := result.Compare(w.Base, w.Head)
	p := bothLimits
	for g := range 12 {
		p.Groups = append(p.Groups, Group{Agent: fmt.Sprintf("a%d", g), Thresholds: p.Thresholds})
	}
	for b.Loop() {
		p.Check(w.Head, &diff, today)
	}
}
