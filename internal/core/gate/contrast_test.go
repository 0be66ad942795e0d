package gate

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/paired"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/testenv"
)

// of returns the contrast of a measure.
func of(t *testing.T, contrasts []Contrast, m Measure) Contrast {
	t.Helper()
	for _, c := range contrasts {
		if c.Measure == m {
			return c
		}
	}
	t.Fatalf("no %s in %+v", m, contrasts)
	return Contrast{}
}

// repeat returns n pairs of rewards.
func repeat(n int, a, b []float64) [][2][]float64 {
	out := make([][2][]float64, n)
	for i := range out {
		out[i] = [2][]float64{a, b}
	}
	return out
}

func TestContrastsTellTheDirection(t *testing.T) {
	better := append(repeat(8, []float64{1, 1}, []float64{0, 0}), repeat(4, []float64{1, 0}, []float64{1, 0})...)
	a, b := jobs(better...)
	for i := range a.Results.Len() {
		a.Results.Change(i, func(o *result.Outcome) { o.Cost = result.Dollars(2) })
	}
	forward := Contrasts([][]result.TaskDiff{result.Compare(a, b).Tasks}, 0.95)[0]
	backward := Contrasts([][]result.TaskDiff{result.Compare(b, a).Tasks}, 0.95)[0]
	for _, want := range []struct {
		measure    Measure
		ahead      Direction
		difference float64
	}{{MeasurePassRate, Higher, 8.0 / 12}, {MeasureCost, Higher, 3}, {MeasureTime, Chance, 0}} {
		there, back := of(t, forward, want.measure), of(t, backward, want.measure)
		if there.Outcome != want.ahead || math.Abs(*there.Difference-want.difference) > 1e-6 || there.Tasks != 12 {
			t.Errorf("%s: %s by %v on %d tasks", want.measure, there.Outcome, *there.Difference, there.Tasks)
		}
		opposite := map[Direction]Direction{Higher: Lower, Chance: Chance}[want.ahead]
		if back.Outcome != opposite || *back.P != *there.P || *back.A != *there.B {
			t.Errorf("%s, exchanged: %s with p %v, not %s with %v", want.measure, back.Outcome, *back.P, opposite, *there.P)
		}
		if i := there.Interval; i.Low > *there.Difference+1e-9 || i.High < *there.Difference-1e-9 || (i.Low > 0) != (there.Outcome == Higher) && i.Low != 0 {
			t.Errorf("%s: %v in %+v", want.measure, *there.Difference, *i)
		}
	}
	if turns := of(t, forward, MeasureTurns); turns.Outcome != Unknown || turns.A != nil || turns.P != nil || turns.Missing != [2]int{24, 24} {
		t.Errorf("turns, of agents without a usage: %+v", turns)
	}
	for _, c := range forward {
		if c.Measure == MeasureReward {
			t.Error("the mean reward of rewards of 0 and 1 is shown next to the pass rate")
		}
	}
}

func TestContrastsLeaveOutWhatCannotBeCompared(t *testing.T) {
	a, b := jobs(repeat(6, []float64{1}, []float64{0})...)
	b.Results.Change(0, func(o *result.Outcome) { o.TaskDigest = "sha256:other" })
	b.Results.Change(1, func(o *result.Outcome) { o.Reward, o.Error = nil, result.EnvironmentLost })
	a.Results.Change(2, func(o *result.Outcome) { o.Cost = result.USD{} })
	got := Contrasts([][]result.TaskDiff{result.Compare(a, b).Tasks}, 0.95)[0]
	if c := of(t, got, MeasurePassRate); c.Tasks != 4 || c.Outcome != Chance {
		t.Errorf("pass rate: %+v", c)
	}
	if c := of(t, got, MeasureCost); c.Tasks != 3 || c.Missing != [2]int{1, 0} {
		t.Errorf("cost: %+v", c)
	}
	if c := of(t, Contrasts([][]result.TaskDiff{nil}, 0.95)[0], MeasurePassRate); c.Outcome != Unknown || c.Interval != nil {
		t.Errorf("no tasks: %+v", c)
	}
}

// TestContrastsOfEqualAgents: among several agents that are alike, a measure differs by more than
// chance in any pair in at most a share 1 - confidence of jobs.
func TestContrastsOfEqualAgents(t *testing.T) {
	testenv.Long(t, "suites are simulated many times")
	t.Parallel()
	const confidence = 0.9
	rng := rand.New(rand.NewPCG(7, 3))
	runs := simulations(400)
	red := map[Measure]int{}
	for range runs {
		agents := make([]result.Job, 3)
		suite := costs{Tasks: 30, Attempts: 2, Spread: 1, Noise: 0.8, Runaway: 0.05}
		typical, chance := make([]float64, suite.Tasks), make([]float64, suite.Tasks)
		for i := range suite.Tasks {
			typical[i], chance[i] = math.Exp(rng.NormFloat64())/5, rng.Float64()
		}
		for k := range agents {
			for i := range suite.Tasks {
				suite.add(rng, &agents[k], string(rune('a'+i)), typical[i], suite.Attempts)
			}
			for i := range agents[k].Results.Len() {
				if rng.Float64() > chance[i/suite.Attempts] {
					agents[k].Results.Change(i, func(o *result.Outcome) { o.Reward = new(0.0) })
				}
			}
		}
		var pairs [][]result.TaskDiff
		for i := range agents {
			for j := range i {
				pairs = append(pairs, result.Compare(agents[i], agents[j]).Tasks)
			}
		}
		differs := map[Measure]bool{}
		for _, pair := range Contrasts(pairs, confidence) {
			for _, c := range pair {
				differs[c.Measure] = differs[c.Measure] || c.Outcome == Higher || c.Outcome == Lower
			}
		}
		for m, d := range differs {
			if d {
				red[m]++
			}
		}
	}
	for _, m := range []Measure{MeasurePassRate, MeasureCost} {
		t.Logf("%s: %d of %d", m, red[m], runs)
		if paired.AtLeast(runs, red[m], 1-confidence) < 0.001 {
			t.Errorf("%s differs in %d of %d jobs of equal agents", m, red[m], runs)
		}
		if red[m] == 0 {
			t.Errorf("%s never differs, so nothing is tested", m)
		}
	}
}

// TestNoIntervalIsCertain: many pairs share the chance of error, and the interval of each is not
// called one of 100 %.
func TestNoIntervalIsCertain(t *testing.T) {
	c := Contrast{Measure: MeasureReward, A: new(1.0), B: new(0.5), Difference: new(0.5), Adjusted: new(0.2), Outcome: Chance}
	for confidence, want := range map[float64]string{0.9998: "(99.9%)", 0.9917: "(99.2%)", 0.975: "(97.5%)"} {
		c.Interval = &Interval{Low: 0.1, High: 0.9, Confidence: confidence}
		if got := c.Cells()[4]; !strings.HasSuffix(got, want) {
			t.Errorf("%g: %s", confidence, got)
		}
	}
}

// TestOneTaskIsNotCalledEqual: the interval of a difference that was not seen may be as wide as it
// can be.
func TestOneTaskIsNotCalledEqual(t *testing.T) {
	a, b := jobs(repeat(1, []float64{1}, []float64{1})...)
	c := of(t, Contrasts([][]result.TaskDiff{result.Compare(a, b).Tasks}, 0.95)[0], MeasurePassRate)
	if got := strings.Join(c.Cells(), " "); !strings.HasSuffix(got, " no difference seen") || !strings.Contains(got, "-100.0 to +100.0 points") {
		t.Error(got)
	}
}

// TestTrialsThatWereTakenOverAreNoEvidence: a trial does not differ from itself.
func TestTrialsThatWereTakenOverAreNoEvidence(t *testing.T) {
	a, b := jobs(repeat(3, []float64{1}, []float64{1})...)
	b.Results.Change(1, func(o *result.Outcome) { o.Reused = true })
	for i := range a.Results.Len() {
		a.Results.Change(i, func(o *result.Outcome) { o.StartedAt = time.Unix(int64(i), 0) })
		b.Results.Change(i, func(o *result.Outcome) { o.StartedAt = a.Results.At(i).StartedAt })
	}
	var pair []result.TaskDiff
	for i, of := range result.AttemptsOf(a) {
		pair = append(pair, PairOf(of.Key.Dataset, of.Key.Task, &of.Attempts, &result.AttemptsOf(b)[i].Attempts))
	}
	if c := of(t, Contrasts([][]result.TaskDiff{pair}, 0.95)[0], MeasurePassRate); c.Tasks != 2 {
		t.Errorf("%d tasks are compared, want those of which both sides made a trial", c.Tasks)
	}
}
