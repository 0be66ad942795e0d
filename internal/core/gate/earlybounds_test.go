package gate

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/core/signflip"
	"github.com/org/rollout-action/internal/test/gatetest"
	"github.com/org/rollout-action/internal/test/testenv"
)

// milder are bounds of three looks that were not chosen: they lose less power, and need more
// trials.
var milder = signflip.Bounds{Alpha: []float64{0.0025, 0.0125, 0.05}, Futility: []float64{-0.2, 0.6}}

// oneLook is the test of all attempts.
var oneLook = signflip.Bounds{Alpha: []float64{0.05}}

// found is a one-sided normal quantile: a z above it is significant.
const found = 1.6449

// TestBoundsOnBrownianMotion computes what the bounds cost if nothing but them matters: many tasks,
// independent attempts, and a drop that the test of all attempts finds in 80 % of the jobs. The
// page about early ends has these figures.
func TestBoundsOnBrownianMotion(t *testing.T) {
	for _, c := range []struct {
		bounds                   signflip.Bounds
		unchanged, dropped, lost float64 // percent of the trials, and points of power
	}{
		{earlyBounds[2], 67, 85, 1.5}, {earlyBounds[3], 58, 79, 2.4}, {milder, 60, 79, 1.8}, {earlyBounds[5], 55, 73, 2.5},
	} {
		looks := len(c.bounds.Alpha)
		paths := make([][]float64, 200_000)
		rng := rand.New(rand.NewPCG(uint64(looks), 25))
		for i := range paths {
			sum := 0.0
			for range looks {
				sum += rng.NormFloat64()
				paths[i] = append(paths[i], sum)
			}
		}
		drift := (found + 0.8416) / math.Sqrt(float64(looks)) // by round: 80 % are found
		limits, size := spend(paths, c.bounds)
		unchanged, _, _ := walk(paths, c.bounds, limits, 0)
		dropped, all, red := walk(paths, c.bounds, limits, drift)
		t.Logf("| %v | %v | %.0f %% | %.0f %% | %.1f |", c.bounds.Futility, c.bounds.Alpha, unchanged, dropped, all-red)
		if size > 0.0501 || size < 0.0495 {
			t.Errorf("%v: red in %.4f of unchanged jobs", c.bounds, size)
		}
		if math.Abs(unchanged-c.unchanged) > 1 || math.Abs(dropped-c.dropped) > 1 || math.Abs(all-red-c.lost) > 0.25 {
			t.Errorf("%v: %.1f %% of the trials, %.1f %% after the drop, %.2f points lost; the page says %v", c.bounds, unchanged, dropped, all-red, c)
		}
	}
}

// spend returns the z that is significant at each look, and how many of all paths are significant
// at any.
func spend(paths [][]float64, bounds signflip.Bounds) (limits []float64, size float64) {
	running := slices.Clone(paths)
	spent := 0
	for look, alpha := range bounds.Alpha {
		root := math.Sqrt(float64(look + 1))
		slices.SortFunc(running, func(a, b []float64) int { // the largest first
			switch {
			case a[look] > b[look]:
				return -1
			case a[look] < b[look]:
				return 1
			}
			return 0
		})
		n := int(alpha*float64(len(paths))) - spent
		limits, spent = append(limits, running[n][look]/root), spent+n
		running = running[n:]
		if look < len(bounds.Futility) {
			running = slices.DeleteFunc(running, func(p []float64) bool { return p[look]/root <= bounds.Futility[look] })
		}
	}
	return limits, float64(spent) / float64(len(paths))
}

// walk adds a drift to each round of the paths. It returns the percentage of rounds that are made,
// and those of the paths that are found with all rounds and with looks.
func walk(paths [][]float64, bounds signflip.Bounds, limits []float64, drift float64) (made, all, red float64) {
	for _, p := range paths {
		last := len(p) - 1
		z := func(look int) float64 {
			return (p[look] + drift*float64(look+1)) / math.Sqrt(float64(look+1))
		}
		if z(last) > found {
			all++
		}
		for look := range p {
			made++
			if z(look) > limits[look] {
				red++
				break
			}
			if look < last && z(look) <= bounds.Futility[look] {
				break
			}
		}
	}
	n := float64(len(paths)) / 100
	return made / n / float64(len(paths[0])), all / n, red / n
}

// shape is a distribution of the probability with which a task passes.
type shape struct {
	name   string
	chance func(rng *rand.Rand) float64
	copied float64 // the share of attempts that copy the first one of the run
}

// shapes are those of the simulation by which the bounds were chosen.
var shapes = []shape{
	{"spread", func(rng *rand.Rand) float64 { return gatetest.Beta(rng, 1, 0.7) }, 0},
	{"spread, 70 % copies", func(rng *rand.Rand) float64 { return gatetest.Beta(rng, 1, 0.7) }, 0.7},
	{"mostly certain", func(rng *rand.Rand) float64 {
		switch u := rng.Float64(); {
		case u < 0.4:
			return 1
		case u < 0.6:
			return 0
		}
		return gatetest.Beta(rng, 0.5, 0.5)
	}, 0},
}

// drops draws a pair of jobs, and returns each task's passes of the baseline less those of the job
// after each attempt.
func (s shape) drops(rng *rand.Rand, tasks, attempts int, drop float64) [][]float64 {
	out := make([][]float64, attempts)
	for i := range out {
		out[i] = make([]float64, tasks)
	}
	for task := range tasks {
		chance := s.chance(rng)
		sum := 0.0
		var first [2]float64
		for i := range attempts {
			for side, p := range []float64{chance, max(0, chance-drop)} {
				passed := first[side]
				if i == 0 || rng.Float64() >= s.copied {
					passed = 0
					if rng.Float64() < p {
						passed = 1
					}
				}
				if i == 0 {
					first[side] = passed
				}
				sum += passed * float64(1-2*side)
			}
			out[i][task] = sum
		}
	}
	return out
}

// dropWithPower returns a drop of every task's chance that the test of all attempts finds in about
// four of five runs.
func (s shape) dropWithPower(tasks, attempts int) float64 {
	low, high := 0.0, 1.0
	for range 12 {
		middle := (low + high) / 2
		rng := rand.New(rand.NewPCG(uint64(tasks), 3))
		seen := 0
		const runs = 1000
		for range runs {
			sum, squares := 0.0, 0.0
			for _, d := range s.drops(rng, tasks, attempts, middle)[attempts-1] {
				sum, squares = sum+d, squares+d*d
			}
			if sum > 1.645*math.Sqrt(squares) {
				seen++
			}
		}
		if seen < runs*4/5 {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// tried counts what some bounds decide about simulated pairs of jobs.
type tried struct{ red, rounds int }

// try looks at a pair after each attempt, until a look decides.
func (c *tried) try(drops [][]float64, bounds signflip.Bounds, seed uint64) {
	s := signflip.Look([]signflip.Rounds{{Drops: drops, Ties: 0.5}}, bounds, len(drops[0]), seed)
	if s.Decision == signflip.Proven {
		c.red++
	}
	c.rounds += s.Look + 1
}

// TestBoundsOnSuites: the bounds of three attempts, and milder ones, on suites of the shapes that
// they were chosen by, at a drop of every chance that all attempts find in 80 % of the jobs. With
// the sweep it prints the table of the page about early ends.
func TestBoundsOnSuites(t *testing.T) {
	const attempts = 3
	sizes, runs, slack := []int{20}, testenv.Times(60, 200), 8.0
	if os.Getenv(sweepVariable) != "" {
		sizes, runs, slack = []int{20, 50, 100, 300}, 400, 1.5
	} else {
		t.Logf("left out: suites of 50, 100 and 300 tasks; %s=1 has them", sweepVariable)
	}
	for i, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			var all, chosen, mild [2]tried // if nothing changed, and after a drop
			for _, tasks := range sizes {
				rng := rand.New(rand.NewPCG(uint64(tasks), uint64(i)))
				for changed, drop := range []float64{0, s.dropWithPower(tasks, attempts)} {
					for r := range runs {
						pair := s.drops(rng, tasks, attempts, drop)
						all[changed].try(pair[attempts-1:], oneLook, uint64(r))
						chosen[changed].try(pair, earlyBounds[attempts], uint64(r))
						mild[changed].try(pair, milder, uint64(r))
					}
				}
			}
			jobs := runs * len(sizes)
			for name, c := range map[string][2]tried{"chosen": chosen, "milder": mild} {
				unchanged, dropped := share100(c[0].rounds, attempts*jobs), share100(c[1].rounds, attempts*jobs)
				lost := share100(all[1].red-c[1].red, jobs)
				t.Logf("| %s | %s | %.0f %% | %.0f %% | %.1f %%; %.1f %% | %.1f |", s.name, name, unchanged, dropped, share100(c[1].red, jobs), share100(all[1].red, jobs), lost)
				if unchanged > 62+slack || lost > 4+slack || s.copied > 0 && lost > slack {
					t.Errorf("%s: %.1f %% of the trials, and %.1f points lost", name, unchanged, lost)
				}
				if share100(c[0].red, jobs) > 6+slack {
					t.Errorf("%s: red in %.1f %% of unchanged jobs", name, share100(c[0].red, jobs))
				}
			}
		})
	}
}
