package paired

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestHolm(t *testing.T) {
	adjusted, levels := Holm([]float64{0.04, 0.01, 0.03}, 0.05)
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
	if adjusted, levels := Holm([]float64{0.05}, 0.05); adjusted[0] != 0.05 || levels[0] != 0.05 {
		t.Errorf("one alone: %v %v", adjusted, levels)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		ps := make([]float64, 1+rng.IntN(6))
		for i := range ps {
			ps[i] = rng.Float64() * rng.Float64() * 0.1
		}
		adjusted, levels := Holm(ps, 0.05)
		for i := range ps {
			if (adjusted[i] <= 0.05) != (ps[i] <= levels[i]) {
				t.Fatalf("%v: adjusted %v and levels %v disagree", ps, adjusted, levels)
			}
		}
	}
}
