package gate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/org/rollout-action/internal/result"
)

// suite is a world to draw jobs from: tasks that differ in difficulty, each with a chance to pass.
type suite struct {
	tasks, attempts int
	headAttempts    int // if not 0, this job's, where the baseline has attempts
	a, b            float64
	// share of a task's attempts that copy its first one: attempts that succeed and fail together within a job.
	copied float64
	drop   float64 // of every task's chance, as far as it has one
	parts  int     // rewards are multiples of 1/parts; 1: passed or not
	agents int
}

// String is the name of a test, so short.
func (s suite) String() string {
	name := fmt.Sprintf("%d tasks, %d attempts, %.1f of 1 pass", s.tasks, s.attempts, s.a/(s.a+s.b))
	if s.headAttempts > 0 {
		name += fmt.Sprintf(", %d in the job", s.headAttempts)
	}
	return name + fmt.Sprintf(", copied %v, drop %v", s.copied, s.drop)
}

// jobs runs the suite before and after.
func (s suite) jobs(rng *rand.Rand) (base, head result.Job) {
	for i := range s.tasks {
		chance := beta(rng, s.a, s.b)
		for agent := range max(1, s.agents) {
			name, task := fmt.Sprintf("a%d", agent), fmt.Sprintf("t%04d", i)
			addTask(&base, name, "d", task, s.rewards(rng, chance, s.attempts)...)
			n := s.attempts
			if s.headAttempts > 0 {
				n = s.headAttempts
			}
			addTask(&head, name, "d", task, s.rewards(rng, max(0, chance-s.drop), n)...)
		}
	}
	return base, head
}

func (s suite) rewards(rng *rand.Rand, chance float64, n int) []float64 {
	var out []float64
	for i := range n {
		sum := 0.0
		for range max(1, s.parts) {
			sum += toss(rng, chance)
		}
		r := sum / float64(max(1, s.parts))
		if i > 0 && rng.Float64() < s.copied {
			r = out[0]
		}
		out = append(out, r)
	}
	return out
}

// beta is a chance drawn from a beta distribution. Source: two gamma variates, Marsaglia and Tsang, ACM TOMS 26 (2000) 363.
func beta(rng *rand.Rand, a, b float64) float64 {
	x, y := gamma(rng, a), gamma(rng, b)
	return x / (x + y)
}

func gamma(rng *rand.Rand, a float64) float64 {
	if a < 1 {
		return gamma(rng, a+1) * math.Pow(rng.Float64(), 1/a)
	}
	d := a - 1.0/3
	for c := 1 / math.Sqrt(9*d); ; {
		x := rng.NormFloat64()
		v := (1 + c*x) * (1 + c*x) * (1 + c*x)
		if v > 0 && math.Log(rng.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// TestUnchangedSuitesPass: two runs of one thing are failed in at most a share 1 - confidence of cases, with any threshold, as
// the verdict of a policy with several drops as a whole.
func TestUnchangedSuitesPass(t *testing.T) {
	runs := 400
	if testing.Short() {
		runs = 150
	}
	policy := func(confidence, limit float64) Policy {
		drops := Thresholds{MaxPassRateDrop: &limit, MaxMeanRewardDrop: &limit}
		return Policy{Thresholds: drops, Confidence: confidence}
	}
	for i, c := range []struct {
		suite
		confidence, limit float64
		groups            int
	}{
		{suite: suite{tasks: 20, attempts: 1, a: 1, b: 1}, confidence: 0.95},
		{suite: suite{tasks: 20, attempts: 5, a: 0.5, b: 0.5}, confidence: 0.95},
		{suite: suite{tasks: 20, attempts: 5, a: 0.5, b: 0.5, copied: 0.7}, confidence: 0.95},
		{suite: suite{tasks: 20, attempts: 3, a: 4, b: 1}, confidence: 0.8, limit: 0.02},
		{suite: suite{tasks: 50, attempts: 2, a: 1, b: 1}, confidence: 0.9},
		{suite: suite{tasks: 60, attempts: 3, a: 1, b: 1, parts: 4}, confidence: 0.9},
		{suite: suite{tasks: 40, attempts: 5, headAttempts: 1, a: 8, b: 1}, confidence: 0.9},
		{suite: suite{tasks: 40, attempts: 1, headAttempts: 4, a: 1, b: 8}, confidence: 0.9},
		{suite: suite{tasks: 30, attempts: 2, a: 1, b: 1, agents: 3}, confidence: 0.9, groups: 3},
		{suite: suite{tasks: 200, attempts: 3, a: 2, b: 1}, confidence: 0.95},
		{suite: suite{tasks: 500, attempts: 1, a: 1, b: 1}, confidence: 0.95},
		{suite: suite{tasks: 500, attempts: 5, a: 0.3, b: 0.3}, confidence: 0.95},
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			n := runs
			if c.tasks*c.attempts > 500 {
				n = runs / 4
			}
			p := policy(c.confidence, c.limit)
			for g := range c.groups {
				p.Groups = append(p.Groups, Group{Agent: fmt.Sprintf("a%d", g), Thresholds: p.Thresholds})
			}
			rng := rand.New(rand.NewPCG(uint64(i), 2026))
			failed, dropped := 0, 0
			for range n {
				base, head := c.jobs(rng)
				v := verdict(p, base, head)
				if v.Outcome == Fail {
					failed++
				}
				if v.Outcome != Pass {
					dropped++
				}
			}
			alpha := 1 - c.confidence
			t.Logf("%d of %d failed, %d dropped, %.1f expected", failed, n, dropped, alpha*float64(n))
			if atLeast(n, failed, alpha) < 0.001 {
				t.Errorf("%d of %d unchanged runs failed, at %v confidence", failed, n, c.confidence)
			}
			if dropped < n/8 {
				t.Errorf("only %d of %d runs had a drop: the suite is not random", dropped, n)
			}
		})
	}
}

// caught is in what share of runs the pass rate's drop fails the job.
func (s suite) caught(runs int, seed uint64, confidence float64, each func(Test)) float64 {
	p := Policy{Thresholds: Thresholds{MaxPassRateDrop: new(0.0)}, Confidence: confidence}
	rng := rand.New(rand.NewPCG(seed, 7))
	failed := 0
	for range runs {
		base, head := s.jobs(rng)
		v := verdict(p, base, head)
		if v.Outcome == Fail {
			failed++
		}
		each(*v.Checks[1].Test)
	}
	return float64(failed) / float64(runs)
}

// fixed is a suite in which every task passes with one chance.
func fixed(tasks, attempts int, chance, drop float64) suite {
	return suite{tasks: tasks, attempts: attempts, a: chance * 1e9, b: (1 - chance) * 1e9, drop: drop}
}

// TestRealDropsAreCaught about as often as theory says: McNemar's power summed up exactly for one attempt, the normal
// approximation with the true variance for more.
func TestRealDropsAreCaught(t *testing.T) {
	const runs = 400
	for i, c := range []suite{
		fixed(30, 1, 0.8, 0.25), fixed(60, 1, 0.9, 0.1), fixed(100, 1, 0.6, 0.2), fixed(100, 1, 0.5, 0.05),
		fixed(40, 3, 0.7, 0.15), fixed(40, 5, 0.7, 0.15), fixed(100, 3, 0.5, 0.1), fixed(200, 2, 0.6, 0.05),
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			chance := c.a / (c.a + c.b)
			after := chance - c.drop
			want := mcnemarPower(criticals(c.tasks, 0.05), chance*(1-after), after*(1-chance))
			slack := 0.0
			if c.attempts > 1 {
				slack = 0.03 // the approximation's own, and the lattice's
				var s sample
				s.tasks = make([]task, c.tasks)
				want = s.normalPower(c.drop, 0.05, (chance*(1-chance)+after*(1-after))/float64(c.attempts))
			}
			got := c.caught(runs, uint64(i), 0.95, func(Test) {})
			noise := 3.3 * math.Sqrt(want*(1-want)/runs)
			t.Logf("caught %.3f, theory %.3f", got, want)
			if math.Abs(got-want) > noise+slack {
				t.Errorf("caught in a share of %.3f, theory says %.3f ± %.3f", got, want, noise)
			}
		})
	}
}

// TestTheDetectableDropIsDetected: a drop of the size that unchanged runs are told is caught in about 80% of runs, and as many
// attempts as runs of one attempt are told are needed for half of it are about enough.
func TestTheDetectableDropIsDetected(t *testing.T) {
	const runs = 200
	for i, c := range []suite{
		fixed(40, 1, 0.8, 0), fixed(80, 1, 0.5, 0), fixed(150, 1, 0.7, 0), fixed(30, 3, 0.8, 0),
		{tasks: 60, attempts: 3, a: 2, b: 1}, {tasks: 60, attempts: 4, a: 1, b: 1, copied: 0.5},
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			sum, told := 0.0, 0
			c.caught(runs, uint64(i), 0.95, func(test Test) {
				if test.Detectable != nil {
					sum += *test.Detectable
					told++
				}
			})
			if told < runs*9/10 {
				t.Fatalf("only %d of %d runs were told of a detectable drop", told, runs)
			}
			c.drop = sum / float64(told)
			// A drop that does not fit into every task's chance is smaller on average.
			if c.a < 1e6 {
				c.drop *= 1.1
			}
			needed := 0
			got := c.caught(runs, uint64(i), 0.95, func(Test) {})
			t.Logf("a drop of %.3f is caught in %.3f of runs", c.drop, got)
			if got < 0.65 || got > 0.95 {
				t.Errorf("a drop of %.3f is caught in %.3f of runs, want about 0.8", c.drop, got)
			}
			if c.attempts > 1 {
				return
			}
			half, all := c, 0
			half.drop = 0
			p := Policy{Thresholds: Thresholds{MaxPassRateDrop: new(c.drop / 2)}}
			rng := rand.New(rand.NewPCG(3, uint64(i)))
			for range 25 {
				base, head := half.jobs(rng)
				all += verdict(p, base, head).Checks[1].Test.NeededAttempts
			}
			needed = all / 25
			half.attempts, half.drop = needed, c.drop/2
			got = half.caught(runs, uint64(i), 0.95, func(Test) {})
			t.Logf("%d attempts catch half of it in %.3f of runs", needed, got)
			if got < 0.65 || got > 0.95 {
				t.Errorf("%d attempts catch half of it in %.3f of runs, want about 0.8", needed, got)
			}
		})
	}
}

// TestIntervalsHoldTheDrop as often as they say.
func TestIntervalsHoldTheDrop(t *testing.T) {
	const runs = 300
	for i, c := range []suite{
		fixed(20, 1, 0.9, 0.1), fixed(100, 1, 0.99, 0), fixed(50, 1, 0.5, 0.2), fixed(20, 4, 0.8, 0.1), fixed(60, 3, 0.6, 0),
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			held := 0
			c.caught(runs, uint64(i), 0.95, func(test Test) {
				if test.Low <= c.drop+1e-6 && c.drop-1e-6 <= test.High {
					held++
				}
			})
			t.Logf("%d of %d intervals hold the drop", held, runs)
			if miss := runs - held; atLeast(runs, miss, 0.1) < 0.001 {
				t.Errorf("%d of %d intervals of 90%% miss the true drop", miss, runs)
			}
		})
	}
}
