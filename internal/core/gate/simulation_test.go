package gate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/org/rollout-action/internal/core/paired"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/gatetest"
	"github.com/org/rollout-action/internal/test/testenv"
)

// suite is gatetest.Suite.
type suite = gatetest.Suite

// simulations returns the number of runs of a suite that a test simulates: all of them at night, a
// quarter for a change. The quarter was chosen so that it finds each of these faults, which were
// put into the code one by one: ties not counted in p, p-values of one verdict not corrected,
// unequal attempts tested by sign changes alone or by relabeling alone, an interval of half the
// width, a power of 50 % instead of 80 %, half the detectable drop, and half or twice the size of a
// broken task.
func simulations(full int) int { return testenv.Times(full/4, full) }

// TestUnchangedSuitesPass: if nothing changed, at most a share 1 - confidence of runs fails, with
// any threshold, also for the verdict of a policy with several drops as a whole.
func TestUnchangedSuitesPass(t *testing.T) {
	runs := simulations(400)
	policy := func(confidence, limit float64) Policy {
		drops := Thresholds{MaxPassRateDrop: &limit, MaxMeanRewardDrop: &limit}
		return Policy{Thresholds: drops, Confidence: confidence}
	}
	for i, c := range []struct {
		suite
		confidence, limit float64
		groups            int
	}{
		{suite: suite{Tasks: 20, Attempts: 1, A: 1, B: 1}, confidence: 0.95},
		{suite: suite{Tasks: 20, Attempts: 5, A: 0.5, B: 0.5}, confidence: 0.95},
		{suite: suite{Tasks: 20, Attempts: 5, A: 0.5, B: 0.5, Copied: 0.7}, confidence: 0.95},
		{suite: suite{Tasks: 20, Attempts: 3, A: 4, B: 1}, confidence: 0.8, limit: 0.02},
		{suite: suite{Tasks: 50, Attempts: 2, A: 1, B: 1}, confidence: 0.9},
		{suite: suite{Tasks: 60, Attempts: 3, A: 1, B: 1, Parts: 4}, confidence: 0.9},
		{suite: suite{Tasks: 40, Attempts: 5, HeadAttempts: 1, A: 8, B: 1}, confidence: 0.9},
		{suite: suite{Tasks: 40, Attempts: 1, HeadAttempts: 4, A: 1, B: 8}, confidence: 0.9},
		{suite: suite{Tasks: 30, Attempts: 2, A: 1, B: 1, Agents: 3}, confidence: 0.9, groups: 3},
		{suite: suite{Tasks: 200, Attempts: 3, A: 2, B: 1}, confidence: 0.95},
		{suite: suite{Tasks: 500, Attempts: 1, A: 1, B: 1}, confidence: 0.95},
		{suite: suite{Tasks: 500, Attempts: 5, A: 0.3, B: 0.3}, confidence: 0.95},
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			n := runs
			if c.Tasks*c.Attempts >= 500 {
				n = runs / 4
			}
			p := policy(c.confidence, c.limit)
			for g := range c.groups {
				p.Groups = append(p.Groups, Group{Agent: fmt.Sprintf("a%d", g), Thresholds: p.Thresholds})
			}
			rng := rand.New(rand.NewPCG(uint64(i), 2026))
			failed, dropped := 0, 0
			for range n {
				w := c.Draw(rng)
				v := verdict(p, w.Base, w.Head)
				if v.Outcome == Fail {
					failed++
				}
				if v.Outcome != Pass {
					dropped++
				}
			}
			alpha := 1 - c.confidence
			t.Logf("%d of %d failed, %d dropped, %.1f expected", failed, n, dropped, alpha*float64(n))
			if paired.AtLeast(n, failed, alpha) < 0.001 {
				t.Errorf("%d of %d unchanged runs failed, at %v confidence", failed, n, c.confidence)
			}
			if dropped < n/8 {
				t.Errorf("only %d of %d runs had a Drop: the suite is not random", dropped, n)
			}
		})
	}
}

// caught returns the share of runs in which the pass rate's drop fails the job.
func caught(s suite, runs int, seed uint64, confidence float64, each func(Test)) float64 {
	p := Policy{Thresholds: Thresholds{MaxPassRateDrop: new(0.0)}, Confidence: confidence}
	rng := rand.New(rand.NewPCG(seed, 7))
	failed := 0
	for range runs {
		w := s.Draw(rng)
		v := verdict(p, w.Base, w.Head)
		if v.Outcome == Fail {
			failed++
		}
		each(*v.Checks[1].Test)
	}
	return float64(failed) / float64(runs)
}

// TestRealDropsAreCaught about as often as theory says: McNemar's power summed up exactly for one
// attempt, the normal approximation with the true variance for more.
func TestRealDropsAreCaught(t *testing.T) {
	runs := simulations(400)
	for i, c := range []suite{
		gatetest.Equal(30, 1, 0.8, 0.25), gatetest.Equal(60, 1, 0.9, 0.1), gatetest.Equal(100, 1, 0.6, 0.2), gatetest.Equal(100, 1, 0.5, 0.05),
		gatetest.Equal(40, 3, 0.7, 0.15), gatetest.Equal(40, 5, 0.7, 0.15), gatetest.Equal(100, 3, 0.5, 0.1), gatetest.Equal(200, 2, 0.6, 0.05),
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			chance := c.A / (c.A + c.B)
			after := chance - c.Drop
			want := paired.McNemarPower(paired.CriticalValues(c.Tasks, 0.05), chance*(1-after), after*(1-chance))
			slack := 0.0
			if c.Attempts > 1 {
				slack = 0.03 // of the approximation, and of discrete values
				var s paired.Sample
				s.Tasks = make([]paired.Task, c.Tasks)
				want = s.NormalPower(c.Drop, 0.05, (chance*(1-chance)+after*(1-after))/float64(c.Attempts))
			}
			got := caught(c, runs, uint64(i), 0.95, func(Test) {})
			noise := 3.3 * math.Sqrt(want*(1-want)/float64(runs))
			t.Logf("caught %.3f, theory %.3f", got, want)
			if math.Abs(got-want) > noise+slack {
				t.Errorf("caught in a share of %.3f, theory says %.3f ± %.3f", got, want, noise)
			}
		})
	}
}

// TestTheDetectableDropIsDetected: a drop of the size that unchanged runs report as detectable is
// caught in about 80% of runs, and the number of attempts that runs of one attempt report as needed
// for half of it is about enough.
func TestTheDetectableDropIsDetected(t *testing.T) {
	runs := simulations(200)
	for i, c := range []suite{
		gatetest.Equal(40, 1, 0.8, 0), gatetest.Equal(80, 1, 0.5, 0), gatetest.Equal(150, 1, 0.7, 0), gatetest.Equal(30, 3, 0.8, 0),
		{Tasks: 60, Attempts: 3, A: 2, B: 1}, {Tasks: 60, Attempts: 4, A: 1, B: 1, Copied: 0.5},
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			sum, told := 0.0, 0
			caught(c, runs, uint64(i), 0.95, func(test Test) {
				if test.Detectable != nil {
					sum += *test.Detectable
					told++
				}
			})
			if told < runs*9/10 {
				t.Fatalf("only %d of %d runs were told of a detectable drop", told, runs)
			}
			c.Drop = sum / float64(told)
			// A drop that does not fit into every task's chance is smaller on average.
			if c.A < 1e6 {
				c.Drop *= 1.1
			}
			needed := 0
			got := caught(c, runs, uint64(i), 0.95, func(Test) {})
			t.Logf("a drop of %.3f is caught in %.3f of runs", c.Drop, got)
			if got < 0.65 || got > 0.95 {
				t.Errorf("a drop of %.3f is caught in %.3f of runs, want about 0.8", c.Drop, got)
			}
			if c.Attempts > 1 {
				return
			}
			half, all := c, 0
			half.Drop = 0
			p := Policy{Thresholds: Thresholds{MaxPassRateDrop: new(c.Drop / 4)}} // the double is asked for
			rng := rand.New(rand.NewPCG(3, uint64(i)))
			for range 25 {
				w := half.Draw(rng)
				all += verdict(p, w.Base, w.Head).Checks[1].Test.NeededAttempts
			}
			needed = all / 25
			half.Attempts, half.Drop = needed, c.Drop/2
			got = caught(half, runs, uint64(i), 0.95, func(Test) {})
			t.Logf("%d attempts catch half of it in %.3f of runs", needed, got)
			if got < 0.65 || got > 0.95 {
				t.Errorf("%d attempts catch half of it in %.3f of runs, want about 0.8", needed, got)
			}
		})
	}
}

// TestIntervalsHoldTheDrop as often as they say.
func TestIntervalsHoldTheDrop(t *testing.T) {
	runs := simulations(300)
	for i, c := range []suite{
		gatetest.Equal(20, 1, 0.9, 0.1), gatetest.Equal(100, 1, 0.99, 0), gatetest.Equal(50, 1, 0.5, 0.2), gatetest.Equal(20, 4, 0.8, 0.1), gatetest.Equal(60, 3, 0.6, 0),
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			held := 0
			caught(c, runs, uint64(i), 0.95, func(test Test) {
				if test.Low <= c.Drop+1e-6 && c.Drop-1e-6 <= test.High {
					held++
				}
			})
			t.Logf("%d of %d intervals hold the drop", held, runs)
			if miss := runs - held; paired.AtLeast(runs, miss, 0.1) < 0.001 {
				t.Errorf("%d of %d intervals of 90%% miss the true drop", miss, runs)
			}
		})
	}
}

// TestUnequalAttempts: if nothing changed, p is at most 0.05 in at most 5 % of runs with different
// numbers of attempts, whether the attempts are independent and skewed, for which sign changes are
// wrong, or alike within a run, for which relabeling is wrong.
func TestUnequalAttempts(t *testing.T) {
	const runs = 500 // sign changes and relabeling alone must both be seen to fail
	var worstSigns, worstRelabeled float64
	for i, c := range []suite{
		{Tasks: 10, Attempts: 5, HeadAttempts: 1, A: 1, B: 9},
		{Tasks: 10, Attempts: 1, HeadAttempts: 3, A: 30, B: 1},
		{Tasks: 30, Attempts: 5, HeadAttempts: 1, A: 1, B: 9, Copied: 0.6},
		{Tasks: 60, Attempts: 5, HeadAttempts: 1, A: 1, B: 9, Copied: 0.4},
		{Tasks: 30, Attempts: 3, HeadAttempts: 1, A: 1, B: 1, Copied: 1},
		{Tasks: 30, Attempts: 5, HeadAttempts: 3, A: 0.3, B: 0.3, Copied: 0.7},
		{Tasks: 60, Attempts: 3, HeadAttempts: 1, A: 2, B: 8, Copied: 0.6},
	} {
		rng := rand.New(rand.NewPCG(uint64(i), 3))
		var taken, signs, relabeled int
		for range runs {
			w := c.Draw(rng)
			s := paired.SampleOf(result.Compare(w.Base, w.Head).Tasks, paired.Passes)
			a, _ := paired.PermutationTail(s, false)
			b, _ := paired.PermutationTail(s, true)
			p, _ := paired.PValue(s)
			for _, one := range []struct {
				count *int
				p     float64
			}{{&taken, p}, {&signs, a.Mid()}, {&relabeled, b.Mid()}} {
				if one.p <= 0.05 {
					*one.count++
				}
			}
		}
		t.Logf("%s: %.1f %%; sign changes alone %.1f %%, relabeling alone %.1f %%", c, share100(taken, runs), share100(signs, runs), share100(relabeled, runs))
		worstSigns, worstRelabeled = max(worstSigns, share100(signs, runs)), max(worstRelabeled, share100(relabeled, runs))
		if paired.AtLeast(runs, taken, 0.05) < 0.001 {
			t.Errorf("%s: %d of %d unchanged runs differ", c, taken, runs)
		}
	}
	if worstSigns < 10 || worstRelabeled < 10 {
		t.Errorf("sign changes reach %.1f %% and relabeling %.1f %%: these suites are no test of either", worstSigns, worstRelabeled)
	}
}

func share100(n, of int) float64 { return 100 * float64(n) / float64(of) }

// TestDetectableBreakageIsDetected: the number of broken tasks that the hint calls detectable is
// found in about 80 % of runs.
func TestDetectableBreakageIsDetected(t *testing.T) {
	runs := simulations(200)
	for i, c := range []suite{
		gatetest.Equal(30, 3, 0.8, 0), gatetest.Equal(100, 1, 0.9, 0), gatetest.Equal(100, 3, 0.9, 0),
		{Tasks: 30, Attempts: 3, A: 0.3, B: 0.3}, {Tasks: 100, Attempts: 3, A: 2, B: 1},
		{Tasks: 60, Attempts: 4, A: 1, B: 1, Copied: 0.5}, {Tasks: 30, Attempts: 5, A: 0.1, B: 0.1},
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			sum, told := 0, 0
			caught(c, runs, uint64(i), 0.95, func(test Test) {
				if test.DetectableBroken != nil {
					sum += test.DetectableTasks
					told++
				}
			})
			if told < runs*9/10 {
				t.Fatalf("only %d of %d runs were told of a detectable number of broken tasks", told, runs)
			}
			c.Broken = int(math.Round(float64(sum) / float64(told)))
			got := caught(c, runs, uint64(i), 0.95, func(Test) {})
			t.Logf("%d broken tasks are caught in %.3f of runs", c.Broken, got)
			if got < 0.65 {
				t.Errorf("%d broken tasks are caught in %.3f of runs, want about 0.8", c.Broken, got)
			}
			c.Broken /= 2
			if less := caught(c, runs, uint64(i), 0.95, func(Test) {}); less > 0.7 {
				t.Errorf("half of them are caught in %.3f of runs: the smallest number is smaller", less)
			}
		})
	}
}

// redShare returns the percentage of runs in which a policy fails a suite.
func redShare(t *testing.T, p Policy, s suite, runs int) float64 {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(s.Tasks), uint64(s.Attempts)))
	red := 0
	for range runs {
		w := s.Draw(rng)
		if verdict(p, w.Base, w.Head).Outcome == Fail {
			red++
		}
	}
	t.Logf("%s: red in %.0f %% of %d runs", s, share100(red, runs), runs)
	return share100(red, runs)
}

// wantShare compares a simulated percentage with the documented one, within four standard errors of
// a simulation of so many runs and rounding.
func wantShare(t *testing.T, got, documented float64, runs int) {
	t.Helper()
	likely := max(1.5, min(98.5, documented)) // 0 and 100 are rounded
	noise := 4*math.Sqrt(likely*(100-likely)/float64(runs)) + 0.5
	if math.Abs(got-documented) > noise {
		t.Errorf("red in %.0f %% of runs, and the documentation says %.0f (± %.0f)", got, documented, noise)
	}
}

// TestGradedRewardsAreBetterGatedByTheirMean compares with the documentation 30 tasks with graded
// rewards (five parts, of which an average task has half or two thirds done) that all fall by 0.1.
func TestGradedRewardsAreBetterGatedByTheirMean(t *testing.T) {
	runs := simulations(300)
	for _, c := range []struct {
		suite
		byReward, byPasses float64
	}{
		{suite{Tasks: 30, Attempts: 1, A: 1, B: 1, Parts: 5, Drop: 0.1}, 62, 21},
		{suite{Tasks: 30, Attempts: 3, A: 1, B: 1, Parts: 5, Drop: 0.1}, 97, 56},
		{suite{Tasks: 30, Attempts: 1, A: 2, B: 1, Parts: 5, Drop: 0.1}, 64, 37},
		{suite{Tasks: 30, Attempts: 3, A: 2, B: 1, Parts: 5, Drop: 0.1}, 97, 78},
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			wantShare(t, redShare(t, Policy{Thresholds: Thresholds{MaxMeanRewardDrop: new(0.0)}}, c.suite, runs), c.byReward, runs)
			wantShare(t, redShare(t, Policy{Thresholds: Thresholds{MaxPassRateDrop: new(0.0)}}, c.suite, runs), c.byPasses, runs)
		})
	}
}

// TestDriftAgainstAFixedBaselineIsFound compares with the documentation a job that changes nothing,
// on a day on which every task's odds are lower by the same factor.
func TestDriftAgainstAFixedBaselineIsFound(t *testing.T) {
	runs := testenv.Times(50, 100) // with fewer, no drift at all would be within the margins
	for _, c := range []struct {
		suite
		red float64
	}{
		{suite{Tasks: 300, Attempts: 3, A: 1, B: 1, Drift: 0.2}, 53},
		{suite{Tasks: 300, Attempts: 3, A: 0.3, B: 0.3, Drift: 0.2}, 36},
		{suite{Tasks: 300, Attempts: 3, A: 8, B: 1, Drift: 0.2}, 38},
		{suite{Tasks: 30, Attempts: 3, A: 1, B: 1, Drift: 0.2}, 14},
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			wantShare(t, redShare(t, Policy{Thresholds: Thresholds{MaxPassRateDrop: new(0.0)}}, c.suite, runs), c.red, runs)
		})
	}
}

// confirmations are the ways to confirm broken tasks, in the order of the documentation's columns.
var confirmations = []string{"without confirm", "alone", "against"}

// redByConfirmation returns the percentage of runs in which max_broken_tasks: 0 fails a suite
// without confirmation attempts, with those of the job alone, and with those of the job and of the
// baseline.
func redByConfirmation(t *testing.T, s suite, ties gatetest.Ties, noise Noise, runs int, seed uint64) []float64 {
	t.Helper()
	p := Policy{Thresholds: Thresholds{MaxBrokenTasks: new(0)}, Confirm: Confirm{Attempts: 4}, Noise: noise}
	rng := rand.New(rand.NewPCG(seed, 5))
	red := make([]float64, len(confirmations))
	for range runs {
		w := s.Draw(rng)
		alone, against := *w, *w
		alone.Confirm(rng, p.Confirmable(w.Base, w.Head, today, false))
		against.ConfirmBeside(rng, p.Confirmable(w.Base, w.Head, today, true), ties)
		for i, one := range []*gatetest.Pair{w, &alone, &against} {
			if verdict(p, one.Base, one.Head).Outcome == Fail {
				red[i] += 100 / float64(runs)
			}
		}
	}
	t.Logf("%s, ties %d, %s: red in %.1f, %.1f, %.1f %%", s, ties, noise, red[0], red[1], red[2])
	return red
}

// TestConfirmationFindsBrokenTasks compares with the documentation how often broken tasks are found
// among many flaky ones.
func TestConfirmationFindsBrokenTasks(t *testing.T) {
	runs := testenv.Times(30, 400)
	for i, c := range []struct {
		suite
		red []float64 // as confirmations
	}{
		{suite{Tasks: 20, Attempts: 1, A: 8, B: 1, Broken: 4}, []float64{36, 36, 74}},
		{suite{Tasks: 30, Attempts: 1, A: 1, B: 0.7, Broken: 6}, []float64{37, 37, 76}},
		{suite{Tasks: 100, Attempts: 1, A: 1, B: 0.7, Broken: 8}, []float64{26, 26, 93}},
		{suite{Tasks: 300, Attempts: 1, A: 1, B: 0.7, Broken: 12}, []float64{25, 25, 97}},
		{suite{Tasks: 100, Attempts: 1, A: 8, B: 1, Broken: 8}, []float64{42, 42, 100}},
		{suite{Tasks: 300, Attempts: 1, A: 8, B: 1, Broken: 12}, []float64{38, 38, 100}},
		{suite{Tasks: 100, Attempts: 1, A: 0.3, B: 0.3, Broken: 8}, []float64{44, 44, 97}},
		{suite{Tasks: 100, Attempts: 1, A: 1, B: 0.7, Copied: 0.7, Broken: 8}, []float64{31, 31, 45}},
		{suite{Tasks: 100, Attempts: 3, A: 1, B: 0.7, Broken: 8}, []float64{68, 68, 76}},
		{suite{Tasks: 100, Attempts: 3, A: 1, B: 0.7, Copied: 0.7, Broken: 8}, []float64{35, 35, 54}},
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			for j, red := range redByConfirmation(t, c.suite, gatetest.TiedToBaseline, NoiseTest, runs, uint64(i)) {
				wantShare(t, red, c.red[j], runs)
			}
		})
	}
}

// TestConfirmationRarelyFailsUnchangedSuites: further attempts, of the job alone or of the
// baseline, too, make no more than one in twenty unchanged jobs red, also if the attempts of a run
// go together.
func TestConfirmationRarelyFailsUnchangedSuites(t *testing.T) {
	testenv.Long(t, "suites are simulated many times")
	runs := testenv.Times(30, 400)
	for i, c := range []suite{
		{Tasks: 30, Attempts: 1, A: 1, B: 1}, {Tasks: 100, Attempts: 1, A: 1, B: 0.7}, {Tasks: 300, Attempts: 1, A: 1, B: 0.7}, {Tasks: 100, Attempts: 1, A: 8, B: 1},
		{Tasks: 100, Attempts: 3, A: 0.3, B: 0.3},
	} {
		for _, copied := range []float64{0, 0.3, 0.7, 1} {
			c := c
			c.Copied = copied
			t.Run(c.String(), func(t *testing.T) {
				t.Parallel()
				for _, ties := range []gatetest.Ties{gatetest.TiedToBaseline, gatetest.TiedToDay} {
					for j, red := range redByConfirmation(t, c, ties, NoiseTest, runs, uint64(i)) {
						if n := int(math.Round(red * float64(runs) / 100)); paired.AtLeast(runs, n, 0.05) < 0.001 {
							t.Errorf("%s, ties %d: %d of %d unchanged runs are red", confirmations[j], ties, n, runs)
						}
					}
				}
			})
		}
	}
}

// TestASingleConfirmedTaskIsNoEvidence: a task that fails four of four further attempts, of which
// the baseline passes four of four, has by itself p = 1/70 if the attempts are independent. If they
// go together, such tasks are frequent among unchanged ones: a gate that tested each by itself,
// with Holm's correction, would break its promise. docs/internals/statistics.md has the figures.
func TestASingleConfirmedTaskIsNoEvidence(t *testing.T) {
	runs := simulations(400)
	p := Policy{Thresholds: Thresholds{MaxBrokenTasks: new(0)}, Confirm: Confirm{Attempts: 4}}
	for i, c := range []struct {
		copied        float64
		single, rules float64 // red, in percent: by such a rule, and by the gate's
	}{
		{0, 0, 0}, {0.3, 3, 0}, {0.7, 47, 0}, {1, 68, 2},
	} {
		s := suite{Tasks: 30, Attempts: 1, A: 8, B: 1, Copied: c.copied}
		rng := rand.New(rand.NewPCG(uint64(i), 9))
		single, red := 0, 0
		for range runs {
			w := s.Draw(rng)
			w.ConfirmBeside(rng, p.Confirmable(w.Base, w.Head, today, true), gatetest.TiedToBaseline)
			confirmed := 0
			for _, d := range result.Compare(w.Base, w.Head).Tasks {
				if d.Change == result.Broken && d.BaseConfirmation.Passed == 4 {
					confirmed++
				}
			}
			if confirmed > 0 && float64(confirmed)/70 <= 0.05 {
				single++
			}
			if verdict(p, w.Base, w.Head).Outcome == Fail {
				red++
			}
		}
		t.Logf("copied %v: by single tasks %.1f %%, by the gate %.1f %%", c.copied, share100(single, runs), share100(red, runs))
		wantShare(t, share100(single, runs), c.single, runs)
		wantShare(t, share100(red, runs), c.rules, runs)
	}
}

// TestConfirmingBothSides compares with the documentation attempts of the baseline, too. They keep
// a day on which the odds of every task are lower from being taken for a change.
// TestConfirmationFindsBrokenTasks covers the broken tasks that they find.
func TestConfirmingBothSides(t *testing.T) {
	runs := simulations(400)
	for i, c := range []struct {
		suite
		ties        gatetest.Ties
		noise       Noise
		alone, both float64 // red, in percent
	}{
		{suite{Tasks: 30, Attempts: 1, A: 1, B: 1}, gatetest.TiedToBaseline, NoiseIgnore, 52, 5},
		{suite{Tasks: 100, Attempts: 3, A: 8, B: 1, Drift: 3}, gatetest.Untied, NoiseTest, 100, 0},
		{suite{Tasks: 100, Attempts: 1, A: 8, B: 1, Drift: 1}, gatetest.Untied, NoiseTest, 33, 0},
		{suite{Tasks: 100, Attempts: 1, A: 8, B: 1, Copied: 0.3}, gatetest.Untied, NoiseTest, 2, 0},
		{suite{Tasks: 100, Attempts: 1, A: 8, B: 1, Copied: 0.7}, gatetest.Untied, NoiseTest, 6, 13}, // see gatetest.Untied
		{suite{Tasks: 100, Attempts: 1, A: 8, B: 1, Copied: 1}, gatetest.Untied, NoiseTest, 4, 56},
	} {
		t.Run(fmt.Sprint(c.suite, ", ", c.noise), func(t *testing.T) {
			t.Parallel()
			red := redByConfirmation(t, c.suite, c.ties, c.noise, runs, uint64(i))
			wantShare(t, red[1], c.alone, runs)
			wantShare(t, red[2], c.both, runs)
		})
	}
}

// TestTheDetectableDropIsRedUnderALimit: a drop of the reported detectable size is red in about 80
// % of runs even if the limit is not 0, and one equal to the limit in half of them at most.
func TestTheDetectableDropIsRedUnderALimit(t *testing.T) {
	testenv.Long(t, "suites are simulated many times")
	t.Parallel()
	runs := simulations(400)
	p := Policy{Thresholds: Thresholds{MaxPassRateDrop: new(0.05)}}
	for i, c := range []suite{gatetest.Equal(100, 1, 0.8, 0), gatetest.Equal(300, 3, 0.8, 0), gatetest.Equal(500, 3, 0.9, 0)} {
		rng := rand.New(rand.NewPCG(uint64(i), 21))
		sum := 0.0
		for range 25 {
			w := c.Draw(rng)
			sum += *find(t, verdict(p, w.Base, w.Head), "max_pass_rate_drop").Test.Detectable
		}
		c.Drop = sum / 25
		got := redShare(t, p, c, runs)
		c.Drop = 0.05
		equal := redShare(t, p, c, runs)
		if got < 65 || got > 95 || equal > 62 {
			t.Errorf("%s: red in %.0f %% of runs with the detectable drop of %.3f, and in %.0f %% with one equal to the limit", c, got, sum/25, equal)
		}
	}
}
