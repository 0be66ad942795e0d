package gate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/paired"
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
		b := &brokenTasks{confirm: 1, Sample: paired.Sample{Tasks: make([]paired.Task, n)}}
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

// TestHintOfASmallSuiteAsksForTasks: six tasks would need hundreds of attempts to detect a small
// drop, so the hint names a number of tasks instead.
func TestHintOfASmallSuiteAsksForTasks(t *testing.T) {
	pairs := make([][2][]float64, 6)
	for i := range pairs {
		pairs[i] = [2][]float64{{float64(i % 2)}, {float64(i / 3)}}
	}
	d := drop{Sample: paired.SampleOf(diffTasks(pairs...), paired.Passes), what: passRates}
	tasks := paired.NeededTasks(d.Sample, 0.1, 0.05)
	if got := d.hint(Test{Tasks: 6}, 0.1, 0.05); tasks < 100 || !strings.Contains(got, fmt.Sprintf("it needs more tasks, about %d like these", tasks)) || strings.Contains(got, "n_attempts") {
		t.Errorf("%d tasks: %s", tasks, got)
	}
}

// TestSmallChancesFail: a confidence of 0.9999 shared by two drops still finds one.
func TestSmallChancesFail(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var pairs [][2][]float64
	for range 200 {
		v := rng.Float64() / 7
		pairs = append(pairs, one(0.5+v, 0.5-v/3))
	}
	base, head := jobs(pairs...)
	policy := Policy{Thresholds: Thresholds{MaxMeanRewardDrop: new(0.0), MaxPassRateDrop: new(0.0)}, Confidence: 0.9999}
	if c := find(t, verdict(policy, base, head), "max_mean_reward_drop"); c.Outcome != Fail {
		t.Errorf("%+v %+v", c, c.Test)
	}
}
