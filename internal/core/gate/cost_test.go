package gate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/paired"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/testenv"
)

// costs describes two runs of a suite whose trials have costs. The logarithms of the tasks' costs
// have the deviation Spread, those of the attempts at one task Noise; a share Runaway of the
// attempts costs ten times as much.
type costs struct {
	Tasks, Attempts, HeadAttempts int
	Spread, Noise, Runaway        float64
	Copied                        float64 // share of the attempts that cost what the first of the run does
	Factor                        float64 // by which every trial of the job is more expensive
}

func (c costs) String() string {
	return fmt.Sprintf("%d tasks, %d:%d attempts, spread %g, noise %g, runaway %g, copied %g, factor %g",
		c.Tasks, c.Attempts, cmp.Or(c.HeadAttempts, c.Attempts), c.Spread, c.Noise, c.Runaway, c.Copied, max(1, c.Factor))
}

// draw simulates a baseline and a job.
func (c costs) draw(rng *rand.Rand) (base, head result.Job) {
	for i := range c.Tasks {
		task := math.Exp(rng.NormFloat64()*c.Spread) / 5
		c.add(rng, &base, fmt.Sprintf("t%04d", i), task, c.Attempts)
		c.add(rng, &head, fmt.Sprintf("t%04d", i), task*max(c.Factor, 1), cmp.Or(c.HeadAttempts, c.Attempts))
	}
	return base, head
}

func (c costs) add(rng *rand.Rand, j *result.Job, task string, typical float64, attempts int) {
	first := 0.0
	for n := range attempts {
		cost := typical * math.Exp(rng.NormFloat64()*c.Noise)
		if rng.Float64() < c.Runaway {
			cost *= 10
		}
		if n == 0 {
			first = cost
		} else if rng.Float64() < c.Copied {
			cost = first
		}
		j.Results.Append(result.Outcome{
			Key: result.Key{Agent: "a", Dataset: "d", Task: task, Attempt: n + 1}, Reward: new(1.0), Cost: result.Dollars(cost), TaskDigest: "sha256:1",
		})
	}
	j.TotalTrials += attempts
}

// costPolicy limits the increase of costs alone.
func costPolicy(limit, confidence float64) Policy {
	return Policy{Thresholds: Thresholds{MaxCostIncrease: &limit}, Confidence: confidence}
}

// redCosts returns the numbers of simulated runs that fail, that are above the limit, and whose
// increase is significant.
func redCosts(c costs, p Policy, runs int, seed uint64) (red, above, significant int) {
	rng := rand.New(rand.NewPCG(seed, 14))
	for range runs {
		base, head := c.draw(rng)
		v := verdict(p, base, head)
		if v.Outcome == Fail {
			red++
		}
		if v.Outcome != Pass {
			above++
		}
		for _, c := range v.Checks {
			if c.Test != nil && c.Test.Adjusted <= 1-p.Confidence {
				significant++
			}
		}
	}
	return red, above, significant
}

// TestUnchangedCostsPass: if nothing changed, at most a share 1 - confidence of runs fails, with
// any limit, even if the costs have heavy tails, resemble each other within a run, or are of
// different numbers of attempts.
func TestUnchangedCostsPass(t *testing.T) {
	testenv.Long(t, "suites are simulated many times")
	runs := simulations(800)
	for i, c := range []struct {
		costs
		limit, confidence float64
	}{
		{costs{Tasks: 10, Attempts: 1, Spread: 1, Noise: 1}, 0, 0.95},
		{costs{Tasks: 30, Attempts: 1, Spread: 1.5, Noise: 1.2, Runaway: 0.05}, 0, 0.95},
		{costs{Tasks: 30, Attempts: 1, Spread: 1.5, Noise: 1.2, Runaway: 0.05}, 0.2, 0.95},
		{costs{Tasks: 30, Attempts: 3, Spread: 1, Noise: 0.8, Runaway: 0.05, Copied: 0.7}, 0, 0.9},
		{costs{Tasks: 40, Attempts: 5, HeadAttempts: 1, Spread: 1, Noise: 1.2, Runaway: 0.1}, 0, 0.9},
		{costs{Tasks: 40, Attempts: 1, HeadAttempts: 4, Spread: 1, Noise: 1.2, Runaway: 0.1}, 0, 0.9},
		{costs{Tasks: 100, Attempts: 1, Spread: 2, Noise: 1, Runaway: 0.02}, 0.1, 0.9},
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			red, above, _ := redCosts(c.costs, costPolicy(c.limit, c.confidence), runs, uint64(i))
			alpha := 1 - c.confidence
			t.Logf("%d of %d red, %d above the limit, at most %.1f expected", red, runs, above, alpha*float64(runs))
			if paired.AtLeast(runs, red, alpha) < 0.001 {
				t.Errorf("%d of %d unchanged runs failed, at %v confidence", red, runs, c.confidence)
			}
			if above < runs/8 {
				t.Errorf("only %d of %d runs were above the limit: the suite is not random", above, runs)
			}
		})
	}
}

// TestRealCostIncreasesAreFound compares with the documentation trials that cost half as much
// again, under a limit of 20 %. Such an increase is red about as often as it is significant, also
// if costs have heavy tails: the limit is compared with the typical increase, not with plain means.
func TestRealCostIncreasesAreFound(t *testing.T) {
	testenv.Long(t, "suites are simulated many times")
	runs := simulations(800)
	for i, c := range []struct {
		costs
		red float64 // percent
	}{
		{costs{Tasks: 30, Attempts: 3, Spread: 1, Noise: 0.5, Factor: 1.5}, 100},
		{costs{Tasks: 30, Attempts: 1, Spread: 1, Noise: 0.5, Factor: 1.5}, 90},
		{costs{Tasks: 100, Attempts: 1, Spread: 1, Noise: 0.5, Factor: 1.5}, 100},
		{costs{Tasks: 30, Attempts: 3, Spread: 1, Noise: 0.8, Runaway: 0.02, Factor: 1.5}, 91},
		{costs{Tasks: 100, Attempts: 3, Spread: 1, Noise: 0.8, Runaway: 0.02, Factor: 1.5}, 100},
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			red, _, significant := redCosts(c.costs, costPolicy(0.2, 0.95), runs, uint64(i))
			t.Logf("red in %.0f %%, significant in %.0f %%", share100(red, runs), share100(significant, runs))
			if share100(significant-red, runs) > 3 {
				t.Errorf("red in %.0f %%, but significant in %.0f %%", share100(red, runs), share100(significant, runs))
			}
			wantShare(t, share100(red, runs), c.red, runs)
		})
	}
}

// TestUnknownCostsAreReported: unknown costs are reported and never count as 0.
func TestUnknownCostsAreReported(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	suite := costs{Tasks: 20, Attempts: 1, Spread: 1, Noise: 0.1}
	unknown := func(j *result.Job, n int) {
		for i := range n {
			j.Results.Change(i, func(o *result.Outcome) { o.Cost = result.USD{} })
		}
	}
	find := func(v Verdict) Check {
		for _, c := range v.Checks {
			if c.Name == "max_cost_increase" {
				return c
			}
		}
		t.Fatalf("no check in %+v", v)
		return Check{}
	}
	for _, tc := range []struct {
		name       string
		base, head int // trials whose cost is unknown
		outcome    Outcome
		says       string
	}{
		{"none of the baseline is known", 20, 0, Inconclusive, "the cost is not known of 20 of 20 trials of the baseline"},
		{"none of the job is known", 0, 20, Inconclusive, "the cost is not known of 20 of 20 trials of this job"},
		{"most are not known", 0, 11, Inconclusive, "the cost is not known of 11 of 20 trials of this job"},
		{"some are not known", 0, 3, Pass, "on 17 tasks (without 3 trials whose cost is not known)"},
		{"some of both are not known", 2, 3, Pass, "(without 3 trials, and 2 of the baseline, whose cost is not known)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			base, head := suite.draw(rng)
			unknown(&base, tc.base)
			unknown(&head, tc.head)
			c := find(verdict(costPolicy(0.5, 0.95), base, head))
			if c.Outcome != tc.outcome || !strings.Contains(c.Message, tc.says) {
				t.Errorf("%s: %s", c.Outcome, c.Message)
			}
		})
	}
	t.Run("a trial with a call of unknown cost has no known cost", func(t *testing.T) {
		base, head := suite.draw(rng)
		for i := range head.Results.Len() {
			head.Results.Change(i, func(o *result.Outcome) { o.Usage = &result.OutcomeUsage{Turns: 3} })
		}
		if c := find(verdict(costPolicy(0.5, 0.95), base, head)); c.Outcome != Inconclusive {
			t.Errorf("%s: %s", c.Outcome, c.Message)
		}
	})
	t.Run("without a baseline nothing is checked, which is said once", func(t *testing.T) {
		_, head := suite.draw(rng)
		v := costPolicy(0.5, 0.95).Check(head, nil, today)
		if c := find(v); !c.Skipped || !strings.Contains(c.Message, noBaseline) || len(v.Notes) > 0 {
			t.Errorf("%+v, %v", c, v.Notes)
		}
	})
}

// TestCostVerdicts checks the sentences about single jobs.
func TestCostVerdicts(t *testing.T) {
	job := func(model string, of ...float64) result.Job {
		var j result.Job
		for i, cost := range of {
			j.Results.Append(result.Outcome{
				Key: result.Key{Agent: "a", Dataset: "d", Task: fmt.Sprintf("t%02d", i), Attempt: 1}, Reward: new(1.0), Cost: result.Dollars(cost), TaskDigest: "sha256:1",
				Usage: &result.OutcomeUsage{Model: model, Cost: result.Dollars(cost)},
			})
		}
		j.TotalTrials = len(of)
		return j
	}
	ten := func(cost float64, by ...float64) []float64 {
		out := make([]float64, 10)
		for i := range out {
			out[i] = cost * (1 + float64(i)/10)
		}
		for i, b := range by {
			out[i] *= b
		}
		return out
	}
	for _, tc := range []struct {
		name       string
		base, head []float64
		noise      Noise
		outcome    Outcome
		says       string
	}{
		{"a rise of all", ten(1), ten(1.5), NoiseTest, Fail, "mean cost of a trial rose from $1.45 to $2.17 (+50.0%; a typical trial +49."},
		{"a rise within the limit", ten(1), ten(1.1), NoiseTest, Pass, "within the limit of 20.0%"},
		{"a fall", ten(1), ten(0.5), NoiseTest, Pass, "fell from $1.45 to $0.72"},
		{"one runaway", ten(1), ten(1, 50), NoiseTest, Inconclusive, "cannot tell it from chance"},
		{"one runaway, counted", ten(1), ten(1, 50), NoiseIgnore, Fail, "and the limit for a typical trial is 20.0%"},
		{"no change", ten(1), ten(1), NoiseTest, Pass, "stayed at $1.45"},
		{"both are free", make([]float64, 10), make([]float64, 10), NoiseTest, Pass, "stayed at $0.00"},
		{"the baseline was free", make([]float64, 10), ten(1), NoiseTest, Fail, "(from nothing;"},
		{"tasks too few", []float64{1, 1}, []float64{2, 2}, NoiseTest, Inconclusive, "cannot tell it from chance"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := costPolicy(0.2, 0.95)
			p.Noise = tc.noise
			v := verdict(p, job("small", tc.base...), job("small", tc.head...))
			c := v.Checks[1]
			if c.Outcome != tc.outcome || !strings.Contains(c.Message, tc.says) {
				t.Errorf("%s: %s → %s", c.Outcome, c.Message, c.Hint)
			}
			if strings.Contains(fmt.Sprint(v.Notes), "different models") {
				t.Errorf("notes: %v", v.Notes)
			}
		})
	}
	same := func(cost float64) result.Job { return job("small", slices.Repeat([]float64{cost}, 10)...) }
	for limit, says := range map[float64]string{0.2: "in four of five runs is 20.0% of every trial", 0: "in four of five runs is 1.0% of every trial"} {
		if c := verdict(costPolicy(limit, 0.95), same(0.10), same(0.13)).Checks[1]; c.Outcome != Fail || !strings.Contains(c.Hint, says) {
			t.Errorf("all trials cost the same: %s: %s", c.Outcome, c.Hint)
		}
	}
	for limit, says := range map[float64]bool{0.2: true, 0: false} {
		c := verdict(costPolicy(limit, 0.95), job("small", ten(1)...), job("small", ten(1.5, 1.1, 1.2)...)).Checks[1]
		if c.Outcome != Fail || !strings.Contains(c.Hint, "four of five runs is") || strings.Contains(c.Hint, "one equal to the limit is red in half of them at best") != says {
			t.Errorf("the hint of a limit of %g: %s: %s", limit, c.Outcome, c.Hint)
		}
	}
	t.Run("another model is said", func(t *testing.T) {
		v := verdict(costPolicy(0.2, 0.95), job("small", ten(1)...), job("large", ten(3)...))
		if v.Outcome != Fail || !strings.Contains(fmt.Sprint(v.Notes), "the costs are of different models: small in the baseline, large now") {
			t.Errorf("%s, notes: %v", v.Outcome, v.Notes)
		}
	})
}
