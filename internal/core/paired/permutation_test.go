package paired

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

// sampleFrom returns a sample of tasks of one agent, each with the baseline's and the job's values.
func sampleFrom(pairs ...[2][]float64) Sample {
	s := Sample{Scale: 1}
	for _, p := range pairs {
		s.Tasks = append(s.Tasks, Task{{Base: p[0], Head: p[1]}})
		s.Units++
	}
	return s.withRange()
}

func one(base, head float64) [2][]float64 { return [2][]float64{{base}, {head}} }

// bruteSignChanges computes the test by its definition: the shares of sign changes with a larger
// sum, and with the same.
func bruteSignChanges(s Sample) Tail {
	observed := 0.0
	for _, t := range s.Tasks {
		observed += t.Drop()
	}
	larger, same := 0, 0
	for mask := range 1 << len(s.Tasks) {
		sum := 0.0
		for i, t := range s.Tasks {
			if mask>>i&1 == 1 {
				sum -= t.Drop()
			} else {
				sum += t.Drop()
			}
		}
		switch {
		case sum > observed+1e-9:
			larger++
		case sum > observed-1e-9:
			same++
		}
	}
	all := float64(int(1) << len(s.Tasks))
	return Tail{float64(larger) / all, float64(same) / all}
}

func (t Tail) near(o Tail, by float64) bool {
	return math.Abs(t.Above-o.Above) <= by && math.Abs(t.Equal-o.Equal) <= by
}

func TestAgainstBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	kinds := map[string]func() float64{
		"passed or not": func() float64 { return float64(rng.IntN(2)) },
		"tenths":        func() float64 { return float64(rng.IntN(11)) / 10 },
		"hundredths":    func() float64 { return float64(rng.IntN(101)) / 100 },
		"any":           func() float64 { return rng.NormFloat64() },
		"ties":          func() float64 { return float64(rng.IntN(3)) / 3 },
	}
	for name, value := range kinds {
		for attempts := 1; attempts <= 5; attempts++ {
			t.Run(fmt.Sprintf("%s, %d attempts", name, attempts), func(t *testing.T) {
				for range 20 {
					var pairs [][2][]float64
					for range 1 + rng.IntN(10) {
						var p [2][]float64
						for range attempts {
							p[0], p[1] = append(p[0], value()), append(p[1], value())
						}
						pairs = append(pairs, p)
					}
					s := sampleFrom(pairs...)
					got, method := PermutationTail(s, false)
					want := bruteSignChanges(s)
					if !got.near(want, 1e-9) {
						t.Fatalf("%v: %v by %s, want %v", pairs, got, method, want)
					}
					equal := want.Equal / 2
					if s.AllDiffer() {
						equal = want.Equal
					}
					if p, _ := PValue(s); math.Abs(p-want.Above-equal) > 1e-9 {
						t.Fatalf("%v: p %v, want that of %v, %v of it equal", pairs, p, want, equal)
					}
					if method != methodExact && method != MethodMcNemar {
						t.Errorf("method %s", method)
					}
				}
			})
		}
	}
}

// TestMethodsAgree compares convolution, enumeration, grid and normal approximation with each
// other.
func TestMethodsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var pairs [][2][]float64
	for range 16 {
		pairs = append(pairs, [2][]float64{{float64(rng.IntN(2)), float64(rng.IntN(2))}, {float64(rng.IntN(2)), 0}})
	}
	s := sampleFrom(pairs...)
	a, ok1 := exactConvolution(s, false)
	b, ok2 := enumerateSigns(s, false)
	if !ok1 || !ok2 || !a.near(b, 1e-12) {
		t.Errorf("convolution %v, enumeration %v", a, b)
	}
	if c := gridConvolution(s, false); !c.near(a, 1e-12) {
		t.Errorf("on a grid %v, exact %v", c, a)
	}
	pairs = nil
	for range 9000 {
		pairs = append(pairs, [2][]float64{{float64(rng.IntN(2)), float64(rng.IntN(2))}, {float64(rng.IntN(2)), float64(rng.IntN(2))}})
	}
	s = sampleFrom(pairs...)
	a, ok1 = exactConvolution(s, false)
	b, ok2 = normalApproximation(s, false)
	if !ok1 || !ok2 || math.Abs(a.Mid()-b.Mid()) > 0.0005 {
		t.Errorf("convolution %v %v, normal %v %v", a, ok1, b, ok2)
	}
}

// A task with two points is added in place: every sum has the same bits as without.
func TestDistributionInPlace(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		c := convolution{}
		for range 1 + rng.IntN(12) {
			points := make([]point, 2+rng.IntN(5)/4) // two, seldom three
			for i := range points {
				points[i] = point{rng.Int64N(9) - 4, rng.Float64()}
			}
			c.add(points[0].drop, points)
		}
		c.step = max(1, c.step)
		want := []float64{1}
		for _, points := range c.tasks {
			sums := make([]float64, int64(len(want))+largestDrop(points)/c.step)
			for _, p := range points {
				for i, before := range want {
					sums[int64(i)+p.drop/c.step] += float64(before * p.probability)
				}
			}
			want = sums
		}
		if got := c.distribution(); !slices.Equal(got, want) {
			t.Fatalf("%v:\ngot  %v\nwant %v", c.tasks, got, want)
		}
	}
}

// TestSmallChancesAreFound: a policy's confidence may be 0.9999, and several drops share the
// remaining chance. Rewards of many decimals once had a floor of 0.001, which hid every drop from a
// confidence of 0.999 on.
func TestSmallChancesAreFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var same, apart [][2][]float64
	for range 200 {
		v := rng.Float64() / 7
		same, apart = append(same, one(0.5+v, 0.5)), append(apart, one(0.5+v, 0.5-v/3))
	}
	p, method := PValue(sampleFrom(same...))
	if want := math.Exp2(-200); method != methodGrid || p > 2*want || p < want/2 {
		t.Errorf("200 of 200 fell: p %v by %s, want about %v", p, method, want)
	}
	// Far out the grid is as good as the sum of all sign changes: 18 tasks are still enumerated.
	s := sampleFrom(apart[:17]...)
	exact, _ := enumerateSigns(s, false)
	if got := gridConvolution(s, false); math.Abs(got.Mid()-exact.Mid()) > 1e-7 {
		t.Errorf("on a grid %v, exact %v", got, exact)
	}
}

// TestMidP: whatever the share of tasks that change sides by themselves, McNemar's mid-p test fails
// at most 5 % of suites that did not change. The shares are computed, not simulated. Of two runs
// with one chance for each task, a quarter at most goes each way.
func TestMidP(t *testing.T) {
	worst := 0.0
	for _, n := range []int{5, 10, 15, 20, 30, 50, 100, 200} {
		for flips := 0.01; flips <= 0.5001; flips += 0.01 {
			worst = max(worst, McNemarPower(CriticalValues(n, 0.05), flips/2, flips/2))
		}
	}
	t.Logf("the largest size is %.4f", worst)
	if worst > 0.0502 || worst < 0.045 {
		t.Errorf("the largest size is %.4f, documented as 0.0501", worst)
	}
}

// TestMcNemar: with one attempt that passes or not, the test is a count of coins. 10 against 2 is
// the textbook's.
func TestMcNemar(t *testing.T) {
	for _, c := range []struct {
		down, up, same int
		want           float64
	}{
		{10, 2, 88, (1 + 12 + 66./2) / 4096}, {5, 0, 0, 1.0 / 64}, {1, 0, 99, 0.25}, {0, 0, 50, 0.5}, {0, 4, 0, 31. / 32}, {3, 3, 10, 0.5},
	} {
		var pairs [][2][]float64
		for range c.down {
			pairs = append(pairs, one(1, 0))
		}
		for range c.up {
			pairs = append(pairs, one(0, 1))
		}
		for i := range c.same {
			pairs = append(pairs, one(float64(i%2), float64(i%2)))
		}
		s := sampleFrom(pairs...)
		got, method := PValue(s)
		if math.Abs(got-c.want) > 1e-12 || method != MethodMcNemar {
			t.Errorf("%d against %d: %v by %s, want %v", c.down, c.up, got, method, c.want)
		}
		if byTask, ok := exactConvolution(s, false); !ok || math.Abs(byTask.Mid()-c.want) > 1e-12 {
			t.Errorf("%d against %d: the permutation test says %v %v, want %v", c.down, c.up, byTask, ok, c.want)
		}
	}
}

// TestRelabeling: 1 pass of 1 before and 1 of 3 after. Of the four attempts two passed; of the four
// ways to pick the baseline's one, two have a pass, as seen.
func TestRelabeling(t *testing.T) {
	for _, pair := range [][2][]float64{{{1}, {1, 0, 0}}, {{0.8}, {0.8, 0.3, 0.3}}} {
		got, method := PermutationTail(sampleFrom(pair), true)
		if math.Abs(got.AtLeast()-0.5) > 1e-12 || method != methodExact {
			t.Errorf("%v: %v by %s, want 0.5", pair, got, method)
		}
	}
	// All relabelings of two tasks.
	a, b := []float64{1, 0.5, 0}, []float64{0, 0.25}
	c, d := []float64{0.75}, []float64{0, 0.5}
	s := sampleFrom([2][]float64{a, b}, [2][]float64{c, d})
	got, _ := PermutationTail(s, true)
	observed, count, all := result.Mean(a)-result.Mean(b)+result.Mean(c)-result.Mean(d), 0, 0
	first, second := bruteRelabelings(append(append([]float64{}, a...), b...), 3), bruteRelabelings(append(append([]float64{}, c...), d...), 1)
	for _, x := range first {
		for _, y := range second {
			all++
			if x+y >= observed-1e-9 {
				count++
			}
		}
	}
	if want := float64(count) / float64(all); math.Abs(got.AtLeast()-want) > 1e-12 {
		t.Errorf("%v, want %v", got, want)
	}
	if grid := gridConvolution(s, true); math.Abs(grid.Mid()-got.Mid()) > 1e-6 {
		t.Errorf("on a grid %v, exact %v", grid, got)
	}
	flipped, _ := PermutationTail(s, false)
	if p, _ := PValue(s); p != max(got.AtLeast(), flipped.AtLeast()) {
		t.Errorf("p %v is not the larger of %v and %v", p, got, flipped)
	}
}

// bruteRelabelings returns the drops of all ways to take n of the values as the baseline's.
func bruteRelabelings(values []float64, n int) []float64 {
	var out []float64
	for mask := range 1 << len(values) {
		var u Unit
		for i, v := range values {
			if mask>>i&1 == 1 {
				u.Base = append(u.Base, v)
			} else {
				u.Head = append(u.Head, v)
			}
		}
		if len(u.Base) == n {
			out = append(out, u.Drop())
		}
	}
	return out
}

// TestAgentsOfOneTaskCountOnce: three agents that fail together at each of two tasks are two tasks,
// not six; the same name in another dataset is another task.
func TestAgentsOfOneTaskCountOnce(t *testing.T) {
	for _, c := range []struct {
		datasets []string
		want     float64
	}{{[]string{"d"}, 1. / 8}, {[]string{"d", "e"}, 1. / 32}} {
		var tasks []result.TaskDiff
		for _, agent := range []string{"a", "b", "c"} {
			for _, dataset := range c.datasets {
				for _, task := range []string{"x", "y"} {
					tasks = append(tasks, diff(agent, dataset, task, [2][]float64{{1}, {0}}))
				}
			}
		}
		s := SampleOf(tasks, Passes)
		if p, _ := PValue(s); math.Abs(p-c.want) > 1e-12 || s.Units != 6*len(c.datasets) {
			t.Errorf("%v: p %v, want %v", c.datasets, p, c.want)
		}
		if d := s.Drops(); result.Mean(d) != 1 {
			t.Errorf("drops %v, want a mean of 1", d)
		}
	}
}

func TestOddRewardsDoNotBreakTheTest(t *testing.T) {
	big := math.MaxFloat64
	for name, s := range map[string]Sample{
		"no difference":      sampleFrom(one(0.1, 0.1), one(3, 3)),
		"negative":           sampleFrom(one(-1, -2), one(-3, -2), one(0, -5)),
		"huge":               scaled(one(big, -big), one(big, 0), one(-big, big)),
		"tiny":               scaled(one(1e-300, 0), one(0, 1e-300), one(1e-300, 0)),
		"huge among small":   scaled(one(big, 0), one(1, 0), one(0.5, 1)),
		"more on one side":   scaled([2][]float64{{big, -big}, {big}}, [2][]float64{{1, 2, 3}, {1}}),
		"rounding is a tie":  sampleFrom([2][]float64{{0.1, 0.2, 0.3}, {0.3, 0.2, 0.1}}, one(1, 0)),
		"many with decimals": sampleFrom(many(300)...),
	} {
		t.Run(name, func(t *testing.T) {
			p, method := PValue(s)
			low, high := Interval(s, 0.05, p <= 0.05)
			_, v := agrestiMin(s)
			if !(p > 0 && p <= 1) || math.IsNaN(low) || math.IsNaN(high) || low > high || !(v >= 0) {
				t.Errorf("p %v by %s, interval %v to %v, variance %v", p, method, low, high, v)
			}
			if d, ok := Detectable(s, 0.05); ok && !(d > 0) {
				t.Errorf("detectable %v", d)
			}
			NeededAttempts(s, 0.1, 0.05)
		})
	}
	if p, _ := PValue(sampleFrom([2][]float64{{0.1, 0.2, 0.3}, {0.3, 0.2, 0.1}}, one(1, 0))); p != 0.25 {
		t.Errorf("a difference by rounding counts: p %v, want 0.25", p)
	}
}

// scaled returns the sample of real results, which is rescaled.
func scaled(pairs ...[2][]float64) Sample {
	var tasks []result.TaskDiff
	for i, p := range pairs {
		tasks = append(tasks, diff("a", "d", fmt.Sprintf("t%04d", i), p))
	}
	return SampleOf(tasks, Rewards)
}

func diff(agent, dataset, task string, rewards [2][]float64) result.TaskDiff {
	return result.TaskDiff{Agent: agent, Dataset: dataset, Task: task,
		Base: &result.Attempts{Rewards: rewards[0]}, Head: &result.Attempts{Rewards: rewards[1]}}
}

func many(n int) [][2][]float64 {
	rng := rand.New(rand.NewPCG(7, 8))
	var pairs [][2][]float64
	for range n {
		pairs = append(pairs, one(rng.Float64(), rng.Float64()))
	}
	return pairs
}

// TestMidPOfTasksThatAllDiffer: with few tasks that all differ, as costs and graded rewards do,
// half of the probability of the observed sum would be significant in more than alpha of the runs.
// Everything is counted: all signs of differences of many sizes.
func TestMidPOfTasksThatAllDiffer(t *testing.T) {
	for tasks := 2; tasks <= 12; tasks++ {
		for _, alpha := range []float64{0.2, 0.1, 0.05, 0.025, 0.01} {
			rng := rand.New(rand.NewPCG(uint64(tasks), 4))
			sizes := make([]float64, tasks)
			for i := range sizes {
				sizes[i] = 0.1 + rng.Float64()
			}
			red, redByHalf := 0, 0
			for signs := range 1 << tasks {
				var pairs [][2][]float64
				for i, size := range sizes {
					if signs>>i&1 == 1 {
						size = -size
					}
					pairs = append(pairs, [2][]float64{{2 + size}, {2}})
				}
				s := sampleFrom(pairs...)
				p, _ := PValue(s)
				half, _ := PermutationTail(s, false)
				if p <= alpha {
					red++
				}
				if half.Mid() <= alpha {
					redByHalf++
				}
			}
			all := float64(int(1) << tasks)
			if size := float64(red) / all; size > alpha {
				t.Errorf("%d tasks: red in %.4f of runs at %v", tasks, size, alpha)
			}
			if size := float64(redByHalf) / all; alpha == 0.05 && (tasks == 4 || tasks == 5) && size <= alpha {
				t.Errorf("%d tasks: the mid-p is red in %.4f of runs: this test has lost its point", tasks, size)
			}
			if lost := float64(redByHalf-red) / all; tasks > 8 && lost > alpha/5 {
				t.Errorf("%d tasks: the whole probability loses %.4f of %v", tasks, lost, alpha)
			}
			if (tasks < sampleFrom([2][]float64{{0.5}, {0.2}}).LeastTasks(alpha)) != (red == 0) {
				t.Errorf("%d tasks at %v: red in %d cases, which leastTasks does not say", tasks, alpha, red)
			}
		}
	}
}
