package signflip

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// three are the bounds of three looks in these tests.
var three = Bounds{Alpha: []float64{0.01, 0.05, 0.2}, Futility: []float64{0, 0.6}}

// drawRounds returns a test's drops after each of three rounds.
func drawRounds(rng *rand.Rand, tasks int) Rounds {
	r := Rounds{Ties: 1}
	before := make([]float64, tasks)
	for range 3 {
		now := slices.Clone(before)
		for i := range now {
			now[i] += float64(rng.IntN(5)-2) + rng.Float64()/100
		}
		r.Drops = append(r.Drops, now)
		before = now
	}
	return r
}

// TestLookKeepsItsLevel: of all signs of the tasks' drops in all rounds, no larger share is ever
// proven than the last Alpha, nor at any look than its own, for one test and for two.
func TestLookKeepsItsLevel(t *testing.T) {
	const tasks = 9
	rng := rand.New(rand.NewPCG(1, 1))
	for range 6 {
		for _, n := range []int{1, 2} {
			var tests []Rounds
			for range n {
				tests = append(tests, drawRounds(rng, tasks))
			}
			proven := make([]int, 3)
			for mask := range 1 << tasks {
				signs := make([]Rounds, n)
				for i, one := range tests {
					signs[i].Ties = one.Ties
					for _, drops := range one.Drops {
						signs[i].Drops = append(signs[i].Drops, flipped(drops, mask))
					}
				}
				s := Look(signs, three, tasks, 0)
				if s.Decision == Open {
					t.Fatalf("open after the last look: %+v", s)
				}
				if significant := slices.Min(s.P) <= three.Alpha[s.Look]*rounding; significant != (s.Decision == Proven) {
					t.Fatalf("%+v", s)
				}
				if s.Decision == Proven {
					proven[s.Look]++
				}
			}
			sum := 0
			for look, n := range proven {
				sum += n
				if size := float64(sum) / (1 << tasks); size > three.Alpha[look] {
					t.Errorf("proven in %v of all signs until look %d, want %v", size, look, three.Alpha[look])
				}
			}
			if float64(sum)/(1<<tasks) < three.Alpha[2]*0.9 {
				t.Errorf("proven in %d of all signs: level is lost", sum)
			}
		}
	}
}

// TestOneLookIsTheTest: with one look, the p-value is that of Adjust.
func TestOneLookIsTheTest(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 20 {
		tests := draw(rng, 8, 2, 0.5)
		for i := range tests {
			tests[i].P = exactP(tests[i].Drops, 0.5)
		}
		adjusted, _ := Adjust(tests, 0.05, 0)
		s := Look([]Rounds{{Drops: [][]float64{tests[0].Drops}, Ties: 0.5}, {Drops: [][]float64{tests[1].Drops}, Ties: 0.5}}, Bounds{Alpha: []float64{0.05}}, 8, 0)
		if got, want := slices.Min(s.P), slices.Min(adjusted); got > want+1e-9 {
			t.Errorf("p %v, adjusted %v", s.P, adjusted)
		}
	}
}
