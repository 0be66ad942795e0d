package gate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestWilson compares the interval with published ones. Source: R. G. Newcombe, Statist. Med. 17
// (1998) 857, table I, method 3.
func TestWilson(t *testing.T) {
	for _, c := range []struct{ passed, n, low, high float64 }{
		{81, 263, 0.2553, 0.3662}, {15, 148, 0.0624, 0.1605}, {0, 20, 0, 0.1611}, {1, 29, 0.0061, 0.1718},
	} {
		low, high := wilson(c.passed/c.n, c.n, 0.95)
		if math.Abs(low-c.low) > 5e-5 || math.Abs(high-c.high) > 5e-5 {
			t.Errorf("%v of %v: %.4f to %.4f, want %.4f to %.4f", c.passed, c.n, low, high, c.low, c.high)
		}
	}
}

func TestEffective(t *testing.T) {
	repeat := func(n int, t ...tally) (out []tally) {
		for range n {
			out = append(out, t...)
		}
		return out
	}
	for _, c := range []struct {
		name  string
		tasks []tally
		want  float64
	}{
		{"one attempt each: all count", repeat(10, tally{1, 1}, tally{0, 1}), 20},
		{"attempts that always agree are one", repeat(10, tally{5, 5}, tally{0, 5}), 20 * 19. / 20},
		{"attempts that never agree all count", repeat(10, tally{2, 4}), 10},
		{"attempts that differ as if tasks did not matter", repeat(4, tally{1, 2}, tally{1, 2}, tally{2, 2}, tally{0, 2}), 31.999},
		{"all passed: nothing to see, so tasks count", repeat(7, tally{3, 3}), 7},
		{"one task", repeat(1, tally{3, 5}), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, n := effectiveAttempts(c.tasks)
			least := float64(len(c.tasks))
			if want := max(c.want, least); math.Abs(n-want) > 2 {
				t.Errorf("%v independent attempts, want about %v", n, want)
			}
		})
	}
}

func TestHolm(t *testing.T) {
	adjusted, levels := holm([]float64{0.04, 0.01, 0.03}, 0.05)
	for i, want := range []float64{0.06, 0.03, 0.06} {
		if math.Abs(adjusted[i]-want) > 1e-12 {
			t.Errorf("adjusted %v", adjusted)
		}
	}
	// The first is held against a third and counts, the second against a half and does not, and so
	// the third neither.
	for i, want := range []float64{0.025, 0.05 / 3, 0.025} {
		if math.Abs(levels[i]-want) > 1e-12 {
			t.Errorf("levels %v", levels)
		}
	}
	if adjusted, levels := holm([]float64{0.05}, 0.05); adjusted[0] != 0.05 || levels[0] != 0.05 {
		t.Errorf("one alone: %v %v", adjusted, levels)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		ps := make([]float64, 1+rng.IntN(6))
		for i := range ps {
			ps[i] = rng.Float64() * rng.Float64() * 0.1
		}
		adjusted, levels := holm(ps, 0.05)
		for i := range ps {
			if (adjusted[i] <= 0.05) != (ps[i] <= levels[i]) {
				t.Fatalf("%v: adjusted %v and levels %v disagree", ps, adjusted, levels)
			}
		}
	}
}

// TestStudent compares quantiles with tables.
func TestStudent(t *testing.T) {
	for _, c := range []struct{ p, freedom, want float64 }{
		{0.95, 1, 6.3138}, {0.95, 10, 1.8125}, {0.975, 5, 2.5706}, {0.99, 100, 2.3642}, {0.5, 3, 0},
	} {
		if got := studentQuantile(c.p, c.freedom); math.Abs(got-c.want) > 1e-4 {
			t.Errorf("p %v, %v degrees of freedom: %v, want %v", c.p, c.freedom, got, c.want)
		}
	}
	if got := normalQuantile(0.975); math.Abs(got-1.959964) > 1e-6 {
		t.Errorf("normal: %v", got)
	}
}

// TestAgrestiMin: with one attempt the interval is theirs, but for Student's quantile. Counts 16,
// 34, 6 and 44 of 100: 28/102 ± z √((41-28²/102)/102²).
func TestAgrestiMin(t *testing.T) {
	var pairs [][2][]float64
	for i, n := range []int{16, 34, 6, 44} {
		for range n {
			pairs = append(pairs, one(float64(i&1), float64(i>>1)))
		}
	}
	low, high := interval(sampleFrom(pairs...), 0.025, true)
	centre, reach := 28.0/102, 1.98350*math.Sqrt((41-28.*28/102)/102/102)
	if math.Abs(low-(centre-reach)) > 1e-4 || math.Abs(high-(centre+reach)) > 1e-4 {
		t.Errorf("%v to %v, want %v ± %v", low, high, centre, reach)
	}
}

func TestNeeded(t *testing.T) {
	// Forty tasks that are tossed coins: one attempt shows a drop of 40 points, and four show half
	// of that.
	s := coins(40, 1, 0)
	smallest, ok := detectable(s, 0.05)
	if !ok || smallest < 0.2 || smallest > 0.5 {
		t.Fatalf("smallest drop %v %v", smallest, ok)
	}
	if n := neededAttempts(s, smallest*1.1, 0.05); n != 0 {
		t.Errorf("%d attempts needed for what one shows", n)
	}
	if n := neededAttempts(s, smallest/2, 0.05); n < 3 || n > 8 {
		t.Errorf("%d attempts needed for half of what one shows, want about 4", n)
	}
	if n := neededAttempts(coins(3, 1, 0), 0.1, 0.05); n != 0 {
		t.Errorf("%d attempts, though three tasks can show nothing", n)
	}
	if _, ok := detectable(coins(3, 5, 0), 0.05); ok {
		t.Error("three tasks can show nothing, however many attempts")
	}
	if _, _, ok := detectableBroken(coins(3, 5, 0), 0.05); ok {
		t.Error("three tasks can show nothing, however few broke")
	}
	// Each task by itself always does the same, half of them lost and half of them won: attempts
	// show nothing.
	var pairs [][2][]float64
	for i := range 40 {
		v := float64(i % 2)
		pairs = append(pairs, [2][]float64{{v, v, v}, {1 - v, 1 - v, 1 - v}})
	}
	if n := neededAttempts(sampleFrom(pairs...), 0.1, 0.05); n != 0 {
		t.Errorf("%d attempts needed, though they change nothing", n)
	}
	passing, graded := sample{binary: true}, sample{}
	if passing.tooFew(4, 0.05) || !passing.tooFew(3, 0.05) || passing.leastTasks(0.05) != 4 || passing.leastTasks(0.25) != 1 || passing.leastTasks(0.1) != 3 ||
		!graded.tooFew(4, 0.05) || graded.tooFew(5, 0.05) || graded.leastTasks(0.25) != 2 {
		t.Error("four tasks are the least at 95%")
	}
}

// coins returns tasks that pass with probability one half, and with drop less afterwards.
func coins(tasks, attempts int, drop float64) sample {
	rng := rand.New(rand.NewPCG(uint64(tasks), uint64(attempts)))
	var pairs [][2][]float64
	for range tasks {
		var p [2][]float64
		for range attempts {
			p[0] = append(p[0], toss(rng, 0.5))
			p[1] = append(p[1], toss(rng, 0.5-drop))
		}
		pairs = append(pairs, p)
	}
	return sampleFrom(pairs...)
}

func toss(rng *rand.Rand, chance float64) float64 {
	if rng.Float64() < chance {
		return 1
	}
	return 0
}

// Six tasks would need hundreds of attempts to detect a small drop, so the hint names a number of
// tasks instead.
func TestHintOfASmallSuiteAsksForTasks(t *testing.T) {
	s := coins(6, 1, 0)
	if n := neededAttempts(s, 0.1, 0.05); n != 0 {
		t.Errorf("n_attempts: %d is proposed", n)
	}
	tasks := neededTasks(s, 0.1, 0.05)
	if tasks < 100 || tasks > maxNeededTasks || tasks%10 != 0 {
		t.Errorf("%d tasks are proposed", tasks)
	}
	if v := s.variance(0.1, nil); powerOf(tasks, 0.1, 0.05, v) < power || powerOf(tasks-10, 0.1, 0.05, v) >= power {
		t.Errorf("%d tasks are not about as many as it takes", tasks)
	}
	d := drop{sample: s, what: passRates}
	if got := d.hint(Test{Tasks: 6}, 0.1, 0.05); !strings.Contains(got, fmt.Sprintf("it needs more tasks, about %d like these", tasks)) || strings.Contains(got, "n_attempts") {
		t.Error(got)
	}
	if n := neededTasks(s, 0.0001, 0.05); n != 0 {
		t.Errorf("%d tasks are proposed for next to nothing", n)
	}
}

func TestHintOfBrokenTasksCountsChecks(t *testing.T) {
	b := &brokenTasks{confirm: 1}
	if got, want := b.hint(0.05, 1), "it takes 4 broken tasks to be more than chance"; got != want {
		t.Errorf("one check: %q", got)
	}
	if got, want := b.hint(0.025, 2), "it takes 5 broken tasks to be more than chance (2 checks share the chance of a false alarm)"; got != want {
		t.Errorf("two checks: %q, want %q", got, want)
	}
}

func TestHintOfBrokenTasksSaysThatASmallSuiteCannotFail(t *testing.T) {
	for n, want := range map[int]string{
		1: "it takes 4 broken tasks to be more than chance; with 1 task this check cannot fail: add tasks, or set min_pass_rate, or on_inconclusive: fail",
		3: "it takes 4 broken tasks to be more than chance; with 3 tasks this check cannot fail: add tasks, or set min_pass_rate, or on_inconclusive: fail",
		4: "it takes 4 broken tasks to be more than chance",
	} {
		b := &brokenTasks{confirm: 1, sample: sample{tasks: make([]task, n)}}
		if got := b.hint(0.05, 1); got != want {
			t.Errorf("%d tasks: %q, want %q", n, got, want)
		}
	}
}

func TestByChanceNamesEqualPValuesOnce(t *testing.T) {
	for _, c := range []struct {
		test Test
		want string
	}{
		{Test{P: 0.0625, Adjusted: 0.0626, Tests: 2}, "chance alone does that in 6.3% of runs"},
		{Test{P: 0.03125, Adjusted: 0.0625, Tests: 2}, "chance alone does that in 3.1% of runs (6.3% when 2 checks are tested)"},
	} {
		if got := byChance(c.test); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
