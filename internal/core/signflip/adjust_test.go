package signflip

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// exactP returns the p-value of drops, by trying all flips.
func exactP(drops []float64, ties float64) float64 {
	p := 0.0
	observed := sumOf(drops, 0)
	for mask := range 1 << len(drops) {
		switch sum := sumOf(drops, mask); {
		case sum > observed+1e-9:
			p++
		case sum > observed-1e-9:
			p += ties
		}
	}
	return p / float64(int(1)<<len(drops))
}

// sumOf returns the sum of drops of which those in mask are flipped.
func sumOf(drops []float64, mask int) float64 {
	sum := 0.0
	for i, d := range drops {
		if mask>>i&1 == 1 {
			d = -d
		}
		sum += d
	}
	return sum
}

// flipped returns drops of which those in mask are flipped.
func flipped(drops []float64, mask int) []float64 {
	out := slices.Clone(drops)
	for i := range out {
		if mask>>i&1 == 1 {
			out[i] = -out[i]
		}
	}
	return out
}

// TestAdjustByDefinition compares adjusted p-values with those of the definition, on few tasks.
func TestAdjustByDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 40 {
		tests := make([]Test, 2+rng.IntN(2))
		for i := range tests {
			drops := make([]float64, 6)
			for j := range drops {
				drops[j] = float64(rng.IntN(7)-2) / 3
			}
			tests[i] = Test{P: exactP(drops, 0.5), Drops: drops, Ties: 0.5}
		}
		slices.SortStableFunc(tests, func(a, b Test) int { return int(math.Copysign(1, a.P-b.P)) })
		got, _ := Adjust(tests, 0.05, 0)
		worst := 0.0
		for rank := range tests {
			p := 0.0
			for mask := range 1 << 6 {
				least := 1.0
				for _, other := range tests[rank:] {
					least = min(least, exactP(flipped(other.Drops, mask), 0.5))
				}
				switch {
				case least < tests[rank].P-1e-12:
					p += 1. / 64
				case least < tests[rank].P+1e-12:
					p += 0.5 / 64
				}
			}
			worst = max(worst, p, tests[rank].P)
			if math.Abs(got[rank]-worst) > 1e-9 {
				t.Fatalf("%v: adjusted %v, want %v at rank %d", tests, got, worst, rank)
			}
		}
	}
}

// TestTestsThatSeeTheSameCostNothing: the same drops twice have the p-value of one; drops of
// different tasks have about Holm's.
func TestTestsThatSeeTheSameCostNothing(t *testing.T) {
	drops := []float64{1, 1, 1, 1, 1, -1, 0, 0, 0, 0, 0, 0}
	p := exactP(drops, 0.5)
	same := Test{P: p, Drops: drops, Ties: 0.5}
	if got, levels := Adjust([]Test{same, same, same}, 0.1, 0); math.Abs(got[0]-p) > 1e-9 || math.Abs(got[2]-p) > 1e-9 || levels[0] < p {
		t.Errorf("adjusted %v at levels %v, want %v", got, levels, p)
	}
	other := Test{P: p, Drops: append(make([]float64, 6), drops[:6]...), Ties: 0.5}
	if got, _ := Adjust([]Test{same, other}, 0.1, 0); got[0] < 1.8*p || got[0] > 2*p {
		t.Errorf("adjusted %v, want about %v", got, 2*p)
	}
}

// TestWithoutDropsItIsHolm: tests that cannot be flipped get Holm's correction.
func TestWithoutDropsItIsHolm(t *testing.T) {
	of := func(ps ...float64) (tests []Test) {
		for _, p := range ps {
			tests = append(tests, Test{P: p})
		}
		return tests
	}
	adjusted, levels := Adjust(of(0.04, 0.01, 0.03), 0.05, 0)
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
	if adjusted, levels := Adjust(of(0.05), 0.05, 0); adjusted[0] != 0.05 || levels[0] != 0.05 {
		t.Errorf("one alone: %v %v", adjusted, levels)
	}
	drops := []float64{1, 1, 1, 1, 1, -1}
	one := Test{P: exactP(drops, 0.5), Drops: drops, Ties: 0.5}
	if adjusted, levels := Adjust([]Test{one, {P: 0.03}}, 0.05, 0); math.Abs(adjusted[1]-0.06) > 1e-12 || levels[1] != 0.025 {
		t.Errorf("with one that flips: %v %v", adjusted, levels)
	}
}

// draw returns tests of tasks whose drops are a few attempts' and go together in all tests.
func draw(rng *rand.Rand, tasks, tests int, ties float64) []Test {
	out := make([]Test, tests)
	for i := range out {
		out[i] = Test{Drops: make([]float64, tasks), Ties: ties}
	}
	shift := rng.Float64() * 0.6 // some of them fell
	for task := range tasks {
		common := rng.NormFloat64() + shift
		for i := range out {
			out[i].Drops[task] = math.Round(common+rng.NormFloat64()/2) / 3
		}
	}
	for i := range out {
		out[i].P = pValues(newReference(tasks, tests, 1).sums(whole(out[i].Drops)), ties)[0]
	}
	return out
}

// TestLevelsAgree: adjusted is significant exactly if P is at most its level, no p-value is below
// its own, and with tests that do not flip none is above Holm's.
func TestLevelsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	significant := 0
	for range 300 {
		tests := draw(rng, 4+rng.IntN(16), 1+rng.IntN(4), []float64{0.5, 1}[rng.IntN(2)])
		for i := range tests {
			if rng.IntN(4) == 0 {
				tests[i].Drops = nil
			}
		}
		alpha := []float64{0.05, 0.1, 0.01}[rng.IntN(3)]
		adjusted, levels := Adjust(tests, alpha, 1)
		for i, one := range tests {
			if (adjusted[i] <= alpha*rounding) != (one.P <= levels[i]) {
				t.Fatalf("%v at %v: adjusted %v and levels %v disagree", tests, alpha, adjusted, levels)
			}
			if adjusted[i] < one.P || levels[i] > alpha || levels[i] <= 0 {
				t.Fatalf("%v at %v: adjusted %v, levels %v", tests, alpha, adjusted, levels)
			}
			if one.P <= levels[i] {
				significant++
			}
		}
	}
	if significant < 50 {
		t.Errorf("only %d were significant: this tests little", significant)
	}
}

// TestRandomFlips: random flips of more tasks give about the p-values of all flips, and the same
// ones each time.
func TestRandomFlips(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 3 {
		tests := draw(rng, 17, 3, 0.5)
		random, _ := Adjust(tests, 0.05, 5)
		if again, _ := Adjust(tests, 0.05, 5); !slices.Equal(random, again) {
			t.Errorf("%v, and then %v", random, again)
		}
		var all minimum
		least := 1.0
		for _, one := range tests {
			ps := pValues(reference{flips: 1 << 17, exact: true}.sums(whole(one.Drops)), 0.5)
			all.add(ps, one)
			least = min(least, ps[0])
		}
		if got, want := slices.Min(random), all.p(least); math.Abs(got-want) > 0.01 {
			t.Errorf("%v by random flips, %v by all", got, want)
		}
	}
}

// TestFarOut: a p-value that no random flip reaches is not above Holm's.
func TestFarOut(t *testing.T) {
	drops := slices.Repeat([]float64{1}, 200)
	one := Test{P: math.Exp2(-201), Drops: drops, Ties: 0.5}
	other := Test{P: math.Exp2(-150), Drops: slices.Concat(drops[:150], make([]float64, 50)), Ties: 0.5}
	if got, levels := Adjust([]Test{one, other}, 0.0001, 1); got[0] > 2.1*one.P || levels[0] < one.P || got[1] > other.P {
		t.Errorf("adjusted %v at levels %v", got, levels)
	}
}

// TestSizeIsKept: the shares of all signs of drops of any sizes at which some test is significant,
// if all of the probability of an equal sum counts.
func TestSizeIsKept(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for range 10 {
		const tasks = 7
		tests := draw(rng, tasks, 3, 1)
		for _, alpha := range []float64{0.2, 0.1, 0.05} {
			red := 0
			for mask := range 1 << tasks {
				signs := make([]Test, len(tests))
				for i, one := range tests {
					drops := flipped(one.Drops, mask)
					signs[i] = Test{P: exactP(drops, 1), Drops: drops, Ties: 1}
				}
				if adjusted, _ := Adjust(signs, alpha, 0); slices.Min(adjusted) <= alpha*rounding {
					red++
				}
			}
			if size := float64(red) / (1 << tasks); size > alpha {
				t.Errorf("%v: significant in %v of all signs at %v", tests, size, alpha)
			}
		}
	}
}

// BenchmarkAdjust measures three tests of suites of some sizes, and forty tests of a large one.
func BenchmarkAdjust(b *testing.B) {
	for _, c := range []struct{ tasks, tests int }{{30, 3}, {300, 3}, {3000, 3}, {5000, 40}, {30000, 2}} {
		b.Run(fmt.Sprintf("%d tasks, %d tests", c.tasks, c.tests), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 1))
			tests := make([]Test, c.tests)
			for i := range tests {
				tests[i] = Test{P: 0.04, Drops: make([]float64, c.tasks), Ties: 0.5}
				for j := range tests[i].Drops {
					tests[i].Drops[j] = float64(rng.IntN(7)-3) / 3
				}
			}
			for b.Loop() {
				Adjust(tests, 0.05, 1)
			}
		})
	}
}
