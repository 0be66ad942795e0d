package gate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/org/rollout-action/internal/core/paired"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/gatetest"
	"github.com/org/rollout-action/internal/test/testenv"
)

// twoAgents simulates a job of two agents: the second passes less often by drop, and its trials
// cost, last and take turns by factor more.
type twoAgents struct {
	suite
	factor float64
}

// draw returns the jobs of both agents, and the true difference of their pass rates and of their
// mean rewards on these tasks: with parts, each part of a task is done with the task's chance.
func (c twoAgents) draw(rng *rand.Rand) (a, b result.Job, rates, rewards float64) {
	for i := range c.Tasks {
		chance := gatetest.Beta(rng, c.A, c.B)
		less := max(0, chance-c.Drop)
		parts := max(1, c.Parts)
		rates += (math.Pow(chance, float64(parts)) - math.Pow(less, float64(parts))) / float64(c.Tasks)
		rewards += (chance - less) / float64(c.Tasks)
		size := math.Exp(rng.NormFloat64())
		for _, side := range []struct {
			job           *result.Job
			chance, times float64
		}{{&a, chance, 1}, {&b, less, c.factor}} {
			for n := range c.Attempts {
				done := 0
				for range parts {
					if rng.Float64() < side.chance {
						done++
					}
				}
				amount := func() float64 { return size * side.times * math.Exp(rng.NormFloat64()*0.5) }
				cost := result.Dollars(amount() / 5)
				side.job.Results.Append(result.Outcome{
					Key:    result.Key{Agent: "a", Dataset: "d", Task: fmt.Sprintf("t%04d", i), Attempt: n + 1},
					Reward: new(float64(done) / float64(parts)), Cost: cost, DurationSec: 60 * amount(),
					Usage: &result.OutcomeUsage{Turns: 1 + int64(20*amount()), Cost: cost}, TaskDigest: "sha256:1",
				})
			}
		}
	}
	return a, b, rates, rewards
}

// TestContrastsHoldTheDifference: an interval of a comparison of two agents holds the true
// difference at least as often as it says, for each measure, also if the agents do differ.
func TestContrastsHoldTheDifference(t *testing.T) {
	testenv.Long(t, "suites are simulated many times")
	runs := testenv.Times(40, 400)
	for i, c := range []twoAgents{
		{suite{Tasks: 20, Attempts: 1, A: 1, B: 1, Parts: 4, Drop: 0.2}, 1.5},
		{suite{Tasks: 40, Attempts: 3, A: 8, B: 1, Parts: 2, Drop: 0.1}, 1},
		{suite{Tasks: 60, Attempts: 2, A: 0.5, B: 0.5, Parts: 3}, 2},
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(i), 51))
			missed, width := map[Measure]int{}, map[Measure]float64{}
			for range runs {
				a, b, rates, rewards := c.draw(rng)
				relative := 1/c.factor - 1
				truth := map[Measure]float64{MeasurePassRate: rates, MeasureReward: rewards, MeasureCost: relative, MeasureTurns: relative, MeasureTime: relative}
				for _, one := range Contrasts([][]result.TaskDiff{result.Compare(a, b).Tasks}, 0.95)[0] {
					if one.Interval == nil || one.Interval.Confidence < 0.9499 || one.Interval.Confidence > 0.9501 {
						t.Fatalf("%+v", one)
					}
					if d := truth[one.Measure]; d < one.Interval.Low-1e-6 || d > one.Interval.High+1e-6 {
						missed[one.Measure]++
					}
					width[one.Measure] += (one.Interval.High - one.Interval.Low) / float64(runs)
				}
			}
			for _, m := range []Measure{MeasurePassRate, MeasureReward, MeasureCost, MeasureTurns, MeasureTime} {
				t.Logf("%s: %.1f %% of the intervals hold the difference; they are %.2f wide", m, 100-share100(missed[m], runs), width[m])
				if paired.AtLeast(runs, missed[m], 0.05) < 0.001 {
					t.Errorf("%s: %d of %d intervals of 95 %% miss the true difference", m, missed[m], runs)
				}
				if width[m] > 1 || width[m] == 0 {
					t.Errorf("%s: the intervals are %.2f wide on average", m, width[m])
				}
			}
		})
	}
}
