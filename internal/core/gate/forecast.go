package gate

import (
	"math"
	"slices"
	"sort"

	"github.com/org/rollout-action/internal/core/paired"
	"github.com/org/rollout-action/internal/core/result"
)

// maxForecast is the largest number of attempts of a forecast.
const maxForecast = 10

// rareShare is the probability below which a forecast leaves a case out.
const rareShare = 1e-9

// SuiteLevels are the probabilities with which the agents of a suite pass its tasks: for each task,
// those of the agents that try it, from 0 to 1.
type SuiteLevels [][]float64

// Forecast estimates the smallest changes that a gate shows in four of five runs, if job and
// baseline make Attempts attempts at each task, with outcomes that do not depend on each other.
type Forecast struct {
	Attempts int `json:"attempts"`
	// PassRateDrop is the smallest fall of the pass rate, shared by many tasks, that
	// max_pass_rate_drop shows; nil: none.
	PassRateDrop *float64 `json:"pass_rate_drop"`
	// BrokenTasks is the smallest number of tasks that do well, and then never pass, that
	// max_broken_tasks shows without further attempts by confirm; 0: none.
	BrokenTasks int `json:"broken_tasks"`
	// EarlyShare is the share of the trials that a job which ends early (gate.stop) makes if
	// nothing changed; nil: not known.
	EarlyShare *float64 `json:"early_share,omitempty"`
}

// earlyShares are the mean shares of trials that TestStopEarly measured if nothing changed, by the
// number of attempts.
var earlyShares = map[int]float64{2: 0.68, 3: 0.55, 5: 0.55}

// ForecastsOf returns what a policy shows of a suite with 1 to 10 attempts. A limit that the policy
// does not have counts as 0. Each limit is forecast as if it were the only one that is tested.
func ForecastsOf(levels SuiteLevels, p Policy) []Forecast {
	out := make([]Forecast, maxForecast)
	for i := range out {
		f := forecast{levels: levels, attempts: i + 1, alpha: 1 - p.Confidence}
		out[i].Attempts = f.attempts
		limit := 0.0
		if p.MaxPassRateDrop != nil {
			limit = *p.MaxPassRateDrop
		}
		if drop, ok := f.drop(limit); ok {
			out[i].PassRateDrop = &drop
		}
		broken := 0
		if p.MaxBrokenTasks != nil {
			broken = *p.MaxBrokenTasks
		}
		out[i].BrokenTasks = f.broken(broken)
		out[i].EarlyShare = f.earlyShare(p)
	}
	return out
}

// forecast computes a Forecast.
type forecast struct {
	levels   SuiteLevels
	attempts int
	alpha    float64
}

// earlyShare returns Forecast.EarlyShare: for tests of drops as measured, and for limits on broken
// tasks alone as computed.
func (f forecast) earlyShare(p Policy) *float64 {
	share, ok := earlyShares[f.attempts]
	switch {
	case p.EarlyUnknown() != "":
		return nil
	case p.LooksAtAllTasks() && ok:
		return &share
	case p.LooksAtAllTasks() || f.attempts < 2 || len(f.levels) == 0:
		return nil
	}
	share = f.settledShare()
	return &share
}

// EarlyUnknown says why the trials of a job that ends early are not forecast, after "gate.stop:
// early"; "" if they may be.
func (p Policy) EarlyUnknown() string {
	if p.Confirm.Attempts > 0 || p.Noise == NoiseIgnore || p.Baseline.Pool > 1 {
		return "does not go with confirm, noise: ignore or baseline.pool, of which this gate has one"
	}
	plain := func(t Thresholds) bool {
		least := slices.ContainsFunc(sortedKeys(t.Scores), func(name string) bool { return t.Scores[name].Min != nil })
		return least || t.MinMeanReward != nil || t.MinPassRate != nil || t.MinPassRateAll != nil
	}
	if plain(p.Thresholds) || slices.ContainsFunc(p.Groups, func(g Group) bool { return plain(g.Thresholds) }) {
		return "makes further attempts until min_pass_rate can no longer change, and all of them for min_mean_reward and the min of a score: how many is not forecast"
	}
	return ""
}

// settledShare returns the mean share of trials if a task gets further attempts only while it looks
// broken or fixed (mayBreakOrBeFixed), and the baseline has all of its attempts already.
func (f forecast) settledShare() float64 {
	units, made := 0, 0.0
	for _, t := range f.levels {
		units += len(t)
		for _, level := range t {
			always, never := math.Pow(level, float64(f.attempts)), math.Pow(1-level, float64(f.attempts))
			for before := range f.attempts {
				if before == 0 {
					made++
					continue
				}
				made += always*math.Pow(1-level, float64(before)) + never*math.Pow(level, float64(before))
			}
		}
	}
	return made / float64(units*f.attempts)
}

// drop returns the smallest mean fall that the test shows and that is measured above the limit,
// both in four of five runs.
func (f forecast) drop(limit float64) (float64, bool) {
	s := f.sample()
	if s.Units == 0 || s.TooFew(len(s.Tasks), f.alpha) {
		return 0, false
	}
	var means []float64
	for _, t := range f.levels {
		means = append(means, t...)
	}
	v := f.variance()
	shown := func(amount float64) (float64, float64) { return s.SpreadPower(amount, f.alpha, means, v) }
	if s.MatchedPairs() && len(s.Tasks) <= paired.MaxExactPower {
		crit := paired.CriticalValues(len(s.Tasks), f.alpha)
		shown = func(amount float64) (float64, float64) {
			down, up := f.flips(amount)
			return down - up, paired.McNemarPower(crit, down, up)
		}
	}
	smallest, ok := paired.SmallestShown(1, shown)
	if !ok {
		return 0, false
	}
	if limit > 0 {
		smallest = max(smallest, limit+paired.NormalQuantile(paired.Power)*math.Sqrt(v/float64(len(s.Tasks))))
	}
	return smallest, 0 < smallest && smallest <= result.Mean(means)
}

// sample returns a sample of the suite's shape. Its values are 0.
func (f forecast) sample() paired.Sample {
	s := paired.Sample{Scale: 1, High: 1, Binary: true}
	side := make([]float64, f.attempts)
	for _, levels := range f.levels {
		t := make(paired.Task, len(levels))
		for i := range t {
			t[i] = paired.Unit{Base: side, Head: side}
		}
		s.Tasks = append(s.Tasks, t)
		s.Units += len(levels)
	}
	return s
}

// variance returns the mean variance of a task's drop in an unchanged suite, scaled as sample.drops
// does.
func (f forecast) variance() float64 {
	units, sum := 0, 0.0
	for _, t := range f.levels {
		units += len(t)
		for _, level := range t {
			sum += 2 * level * (1 - level) / float64(f.attempts)
		}
	}
	n := float64(len(f.levels))
	scale := n / float64(units)
	return sum / n * scale * scale
}

// flips returns the mean probabilities that the one attempt at a task falls and that it rises, if
// every level falls by an amount, but not below 0.
func (f forecast) flips(amount float64) (down, up float64) {
	for _, t := range f.levels {
		after := max(0, t[0]-amount)
		down += t[0] * (1 - after)
		up += after * (1 - t[0])
	}
	n := float64(len(f.levels))
	return down / n, up / n
}

// broken returns the smallest number of tasks that break, of those that pass at least as often as
// the mean, and that the test shows in four of five runs; 0 if there is none. Each pair of an agent
// and a task counts as a task.
func (f forecast) broken(limit int) int {
	var levels []float64
	for _, t := range f.levels {
		levels = append(levels, t...)
	}
	mean := result.Mean(levels)
	good := slices.DeleteFunc(slices.Clone(levels), func(v float64) bool { return v < mean || v == 0 })
	if len(good) == 0 {
		return 0
	}
	looks := 0.0 // how often a good task passes in all attempts of the baseline
	for _, v := range good {
		looks += math.Pow(v, float64(f.attempts)) / float64(len(good))
	}
	most := len(good)
	found := func(k int) bool {
		// The k tasks that break change only by breaking.
		var chances []float64
		for _, v := range levels {
			each := math.Pow(v*(1-v), float64(f.attempts))
			if v >= mean && v > 0 {
				each *= 1 - float64(k)/float64(len(good))
			}
			chances = append(chances, 2*each)
		}
		return f.brokenPower(k, limit, looks, successes(chances)) >= paired.Power
	}
	if k := 1 + sort.Search(most, func(i int) bool { return found(i + 1) }); k <= most {
		return k
	}
	return 0
}

// brokenPower returns the probability of a red verdict if k tasks break, each seen with probability
// looks, while others change by luck: changes has the probability of each number of them.
func (f forecast) brokenPower(k, limit int, looks float64, changes []float64) float64 {
	crit := paired.CriticalValues(len(changes)-1+k, f.alpha)
	chances := make([]float64, k)
	for i := range chances {
		chances[i] = looks
	}
	seen := successes(chances)
	sum := 0.0
	for changed, share := range changes {
		if share < rareShare {
			continue
		}
		for fixed := range changed + 1 {
			split := share * math.Exp(paired.LogChoose(changed, fixed)-float64(changed)*math.Ln2)
			if split < rareShare {
				continue
			}
			for real, each := range seen {
				if fell := real + changed - fixed; fell > limit && fell >= crit[changed+real] {
					sum += split * each
				}
			}
		}
	}
	return sum
}

// successes returns the probability of each number of successes of independent trials with these
// chances, up to the largest number that is not rare.
func successes(chances []float64) []float64 {
	out := []float64{1}
	for _, p := range chances {
		if p == 0 {
			continue
		}
		next := make([]float64, len(out)+1)
		for i, share := range out {
			next[i] += share * (1 - p)
			next[i+1] += share * p
		}
		for len(next) > 1 && next[len(next)-1] < rareShare*rareShare {
			next = next[:len(next)-1]
		}
		out = next
	}
	return out
}

// LevelsOf estimates the probabilities of passing tasks from their attempts, whose scores may not
// be empty. What attempts at one task differ by is luck, and so is that share of the differences
// between tasks: each task's pass rate is moved to the mean by so much that the variance within
// tasks is the observed one, with one task of one half added. If no task has two attempts, all
// differences count as luck.
func LevelsOf(tasks []result.Attempts) []float64 {
	rates := make([]float64, len(tasks))
	within, repeated := 0.25, 1.0
	for i, t := range tasks {
		n := float64(len(t.Scores()))
		rates[i] = t.PassRate()
		if n > 1 {
			within += rates[i] * (1 - rates[i]) * n / (n - 1)
			repeated++
		}
	}
	if len(rates) == 0 {
		return nil
	}
	mean, between := result.Mean(rates), 0.0
	for _, r := range rates {
		between += (r - mean) * (r - mean) / float64(len(rates))
	}
	kept := 0.0
	if repeated > 1 && between > 0 {
		kept = math.Sqrt(max(0, min(1, (mean*(1-mean)-within/repeated)/between)))
	}
	for i := range rates {
		rates[i] = mean + kept*(rates[i]-mean)
	}
	return rates
}
