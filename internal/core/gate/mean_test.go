package gate

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The interval of a mean is Student's over tasks, and there is none where the variance is unknown.
func TestMeanInterval(t *testing.T) {
	for name, c := range map[string]struct {
		tasks     [][]float64
		low, high float64 // both 0: no interval
	}{
		"one value a task":            {[][]float64{{1}, {2}, {3}}, -0.4841, 4.4841}, // 2 ± 4.3027 · 1/√3
		"attempts do not count twice": {[][]float64{{1, 1}, {2, 2}, {3, 3}}, -0.4841, 4.4841},
		"a task without values":       {[][]float64{{1}, {}, {2}, {3}}, -0.4841, 4.4841},
		"one task":                    {[][]float64{{1, 2, 3}}, 0, 0},
		"tasks that do not differ":    {[][]float64{{0.1}, {0.1}, {0.1}}, 0, 0},
		"nothing":                     {nil, 0, 0},
		"values that are too large":   {[][]float64{{math.MaxFloat64}, {-math.MaxFloat64}}, 0, 0},
	} {
		i, ok := MeanInterval(c.tasks, 0.95)
		if ok != (c.high != 0) || math.Abs(i.Low-c.low) > 1e-3 || math.Abs(i.High-c.high) > 1e-3 {
			t.Errorf("%s: %+v, %v", name, i, ok)
		}
	}
}

// The interval contains the true mean about as often as its confidence states, also if attempts at
// one task resemble each other.
func TestMeanIntervalCovers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const runs = 2000
	covered := 0
	for range runs {
		tasks := make([][]float64, 12)
		for k := range tasks {
			level := 10 + 3*random.NormFloat64()
			for range 4 {
				tasks[k] = append(tasks[k], level+random.NormFloat64())
			}
		}
		if i, ok := MeanInterval(tasks, 0.95); ok && i.Low <= 10 && 10 <= i.High {
			covered++
		}
	}
	if share := float64(covered) / runs; share < 0.93 || share > 0.97 {
		t.Errorf("the interval covers the mean in %.1f %% of runs", 100*share)
	}
}
