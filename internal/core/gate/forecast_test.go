package gate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

// levelsIn returns the levels that 1000 tasks of a suite seem to have after so many attempts.
func levelsIn(s suite, attempts int) []float64 {
	s.Tasks, s.Attempts, s.Drop, s.Broken = 1000, attempts, 0, 0
	var tasks []result.Attempts
	for _, t := range result.AttemptsOf(s.Draw(rand.New(rand.NewPCG(uint64(attempts), 11))).Base) {
		tasks = append(tasks, t.Attempts)
	}
	return LevelsOf(tasks)
}

// TestForecastsComeTrue: the drop and the number of broken tasks that are forecast, from the levels
// that an earlier job with three attempts suggests, are red in about 80 % of runs.
func TestForecastsComeTrue(t *testing.T) {
	runs := simulations(800)
	for i, c := range []suite{
		{Tasks: 60, Attempts: 1, A: 1, B: 1},
		{Tasks: 60, Attempts: 3, A: 1, B: 1},
		{Tasks: 60, Attempts: 5, A: 0.5, B: 0.5},
		{Tasks: 30, Attempts: 3, A: 8, B: 1},
		{Tasks: 150, Attempts: 1, A: 2, B: 1},
		{Tasks: 40, Attempts: 2, A: 1, B: 1, Agents: 2},
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			all := slices.Sorted(slices.Values(levelsIn(c, 3)))
			levels := make(SuiteLevels, c.Tasks)
			for task := range levels { // every so many of all tasks, by level
				at := (2*task + 1) * len(all) / (2 * c.Tasks)
				for range max(1, c.Agents) {
					levels[task] = append(levels[task], all[at])
				}
			}
			f := ForecastsOf(levels, Policy{Confidence: 0.95})[c.Attempts-1]
			if f.PassRateDrop == nil || f.BrokenTasks == 0 {
				t.Fatalf("%+v", f)
			}
			dropped := c
			for mean := 0.0; mean < *f.PassRateDrop; dropped.Drop += 0.001 { // as tasks cannot fall below 0
				mean = 0
				for _, task := range levels {
					mean += min(dropped.Drop, task[0]) / float64(len(levels))
				}
			}
			got := caught(dropped, runs, uint64(i), 0.95, func(Test) {})
			t.Logf("a drop of %.3f is red in %.3f of runs", *f.PassRateDrop, got)
			if got < 0.68 || got > 0.92 {
				t.Errorf("a drop of %.3f is red in %.3f of runs, want about 0.8", *f.PassRateDrop, got)
			}
			if c.Agents > 1 {
				return // a task breaks for both
			}
			share := func(broken int) float64 {
				s, red := c, 0
				s.Broken = broken
				rng := rand.New(rand.NewPCG(uint64(i), 13))
				for range runs {
					w := s.Draw(rng)
					if verdict(Policy{Thresholds: Thresholds{MaxBrokenTasks: new(0)}, Confidence: 0.95}, w.Base, w.Head).Outcome == Fail {
						red++
					}
				}
				return float64(red) / float64(runs)
			}
			enough, fewer := share(f.BrokenTasks), share(f.BrokenTasks*2/3)
			t.Logf("%d broken tasks are red in %.3f of runs, %d in %.3f", f.BrokenTasks, enough, f.BrokenTasks*2/3, fewer)
			if enough < 0.7 || fewer > 0.8 {
				t.Errorf("%d broken tasks are red in %.3f of runs, and %d in %.3f", f.BrokenTasks, enough, f.BrokenTasks*2/3, fewer)
			}
		})
	}
}

// TestForecasts: more attempts show less, a limit is to be exceeded, and tiny suites show nothing.
func TestForecasts(t *testing.T) {
	levels := make(SuiteLevels, 60)
	for i := range levels {
		levels[i] = []float64{(float64(i) + 0.5) / 60}
	}
	none := ForecastsOf(levels, Policy{Confidence: 0.95})
	limited := ForecastsOf(levels, Policy{Confidence: 0.95, Thresholds: Thresholds{MaxPassRateDrop: new(0.1), MaxBrokenTasks: new(12)}})
	for i, f := range none {
		if f.Attempts != i+1 || f.PassRateDrop == nil || i > 0 && *f.PassRateDrop >= *none[i-1].PassRateDrop || f.BrokenTasks < 4 {
			t.Errorf("%d attempts: %s", i+1, f)
		}
		if drop := limited[i].PassRateDrop; drop == nil || *drop <= 0.1 || limited[i].BrokenTasks > 0 && limited[i].BrokenTasks <= 12 {
			t.Errorf("%d attempts with limits: %s", i+1, limited[i])
		}
	}
	for name, p := range map[string]Policy{
		"confirm": {Confirm: Confirm{Attempts: 4}}, "noise": {Noise: NoiseIgnore}, "several runs": {Baseline: Baseline{Pool: 2}},
		"a minimum":         {Thresholds: Thresholds{MaxPassRateDrop: new(0.0), MinMeanReward: new(0.5)}},
		"a rate of a group": {Groups: []Group{{Thresholds: Thresholds{MinPassRate: new(0.5)}}}},
		"a score":           {Thresholds: Thresholds{Scores: map[string]ScoreLimits{"style": {Min: new(0.5)}}}},
	} {
		if f := ForecastsOf(levels, p)[2]; f.EarlyShare != nil || none[2].EarlyShare == nil || none[0].EarlyShare != nil {
			t.Errorf("%s: a share of %v is forecast for rounds, which need several attempts", name, f.EarlyShare)
		}
	}
	for name, levels := range map[string]SuiteLevels{"none": nil, "one task": {{0.5}}, "nothing passes": {{0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}}} {
		for _, f := range ForecastsOf(levels, Policy{Confidence: 0.95}) {
			if f.PassRateDrop != nil || f.BrokenTasks != 0 {
				t.Errorf("%s: %s", name, f)
			}
		}
	}
	for _, f := range ForecastsOf(SuiteLevels{{1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}}, Policy{Confidence: 0.95}) {
		if f.BrokenTasks != 4 { // chance breaks none, and four without one that is fixed are more than chance
			t.Errorf("tasks that always pass: %s", f)
		}
	}
}

// TestForecastsOfBrokenTasksAlone: the expected trials are those that a simulation makes.
func TestForecastsOfBrokenTasksAlone(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	levels := make(SuiteLevels, 60)
	for i := range levels {
		levels[i] = []float64{(float64(i) + 0.5) / 60}
	}
	p := Policy{Confidence: 0.95, Thresholds: Thresholds{MaxBrokenTasks: new(0)}}
	for _, f := range ForecastsOf(levels, p) {
		if f.Attempts == 1 {
			if f.EarlyShare != nil {
				t.Errorf("one attempt: a share of %v is forecast", *f.EarlyShare)
			}
			continue
		}
		made, runs := 0, 500
		for range runs {
			for _, level := range levels {
				made += attemptsUntilSettled(rng, level[0], f.Attempts)
			}
		}
		simulated := float64(made) / float64(runs*len(levels)*f.Attempts)
		if f.EarlyShare == nil || math.Abs(*f.EarlyShare-simulated) > 0.01 {
			t.Errorf("%d attempts: the simulated share is %.3f, the forecast %v", f.Attempts, simulated, f.EarlyShare)
		}
	}
}

// attemptsUntilSettled returns how many attempts a task gets until it can no longer break nor be
// fixed, against a baseline of all attempts.
func attemptsUntilSettled(rng *rand.Rand, level float64, attempts int) int {
	base := 0
	for range attempts {
		if rng.Float64() < level {
			base++
		}
	}
	passed := 0
	for made := 1; made < attempts; made++ {
		if rng.Float64() < level {
			passed++
		}
		if (base != attempts || passed != 0) && (base != 0 || passed != made) {
			return made
		}
	}
	return attempts
}

// String is for messages of tests.
func (f Forecast) String() string {
	drop := "none"
	if f.PassRateDrop != nil {
		drop = fmt.Sprintf("%.3f", *f.PassRateDrop)
	}
	return fmt.Sprintf("drop %s, %d broken", drop, f.BrokenTasks)
}

// TestLevelsOf: the variance within tasks is that of the suite, also after few attempts.
func TestLevelsOf(t *testing.T) {
	for _, c := range []struct{ a, b, want float64 }{{1, 1, 1. / 6}, {0.5, 0.5, 0.125}, {8, 1, 8. / 90}} {
		for _, attempts := range []int{2, 3, 10} {
			sum := 0.0
			levels := levelsIn(suite{A: c.a, B: c.b}, attempts)
			for _, l := range levels {
				sum += l * (1 - l)
			}
			if got := sum / float64(len(levels)); math.Abs(got-c.want) > 0.02 {
				t.Errorf("beta(%v, %v), %d attempts: the variance is %.3f, want %.3f", c.a, c.b, attempts, got, c.want)
			}
		}
	}
	one := []result.Attempts{{Rewards: []float64{1}, Passed: 1}, {Rewards: []float64{0}}}
	if got := LevelsOf(one); len(got) != 2 || got[0] != 0.5 || got[1] != 0.5 {
		t.Errorf("one attempt each: %v, want the mean", got)
	}
	if got := LevelsOf(nil); len(got) != 0 {
		t.Errorf("no task: %v", got)
	}
}
