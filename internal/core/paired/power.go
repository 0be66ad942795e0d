package paired

import (
	"math"
	"slices"
	"sort"

	"github.com/org/rollout-action/internal/core/result"
)

const (
	// Power is the probability with which a test must find a drop for the suite to detect it.
	Power = 0.8
	// MaxExactPower is the number of tasks up to which McNemar's power is computed exactly.
	MaxExactPower = 100
	// maxExactBroken is the number of drops up to which the power for few broken tasks is computed
	// exactly.
	maxExactBroken = 300
	// brokenCells is the number of steps per broken task to which the others' drops are rounded
	// then: thirds, quarters and fifths of a broken task are whole.
	brokenCells = 60
	// maxNeeded is the largest number of attempts that is proposed. Beyond it, more tasks help
	// more.
	maxNeeded = 20
	// maxNeededTasks is the largest number of tasks that is proposed.
	maxNeededTasks = 1000
)

// Detectable returns the smallest true drop that many tasks share and that the test at alpha finds
// in 80 % of runs; false if it finds none.
//
// With one attempt that passes or not, the power of McNemar's test is computed exactly (up to 100
// tasks), assuming that as many tasks improve by chance as did. Otherwise it is a normal
// approximation, in which every task's probability of passing falls by one amount but not below 0,
// so the mean drop is smaller than the amount. Source: R. J. Connor, Biometrics 43 (1987) 207.
func Detectable(s Sample, alpha float64) (float64, bool) {
	span := s.Span()
	if s.TooFew(len(s.Tasks), alpha) || span == 0 {
		return 0, false
	}
	var shown func(amount float64) (drop, power float64)
	switch {
	case s.MatchedPairs() && len(s.Tasks) <= MaxExactPower:
		crit := CriticalValues(len(s.Tasks), alpha)
		shown = func(drop float64) (float64, float64) {
			up := s.flipShare(drop)
			return drop, McNemarPower(crit, up+drop, up)
		}
	case s.MatchedPairs():
		shown = func(drop float64) (float64, float64) {
			return drop, s.NormalPower(drop, alpha, s.VarianceAt(drop, nil))
		}
	default:
		means := s.unitMeans()
		_, v := agrestiMin(s)
		shown = func(amount float64) (float64, float64) { return s.SpreadPower(amount, alpha, means, v) }
	}
	return SmallestShown(span, shown)
}

// SmallestShown returns the drop of the smallest amount, up to span, that is found in 80 % of runs;
// false if none is. shown returns the drop of an amount and its power.
func SmallestShown(span float64, shown func(amount float64) (drop, power float64)) (float64, bool) {
	if _, p := shown(span); p < Power {
		return 0, false
	}
	low, high := 0.0, span
	for high-low > span/4096 {
		middle := (low + high) / 2
		if _, p := shown(middle); p >= Power {
			high = middle
		} else {
			low = middle
		}
	}
	drop, _ := shown(high)
	return drop, true
}

// SpreadPower returns the power of the test if every unit's mean falls by an amount, but not below
// the lowest value. drop is by how much the sample's mean falls. means has the units' means, v the
// variance of agrestiMin.
func (s Sample) SpreadPower(amount, alpha float64, means []float64, v float64) (drop, power float64) {
	n := float64(len(s.Tasks))
	lowest := min(0, s.Low)
	sum, squares, noise := 0.0, 0.0, v*n
	next := 0
	for _, t := range s.Tasks {
		fall := 0.0
		for _, u := range t {
			level := means[next]
			next++
			by := max(0, min(amount, level-lowest))
			fall += by
			if s.Binary {
				after := level - by
				noise += (after*(1-after) - level*(1-level)) / float64(len(u.Head)) * n / float64(s.Units)
			}
		}
		fall *= n / float64(s.Units)
		sum += fall
		squares += fall * fall
	}
	noise = max(noise, v*n/4)
	z := (sum - NormalQuantile(1-alpha)*math.Sqrt(noise+squares/(s.ways()-1))) / math.Sqrt(noise)
	return sum / n, 0.5 * math.Erfc(-z/math.Sqrt2)
}

// unitMeans returns the mean of each unit over both sides, in the order of the tasks.
func (s Sample) unitMeans() []float64 {
	means := make([]float64, 0, s.Units)
	for _, t := range s.Tasks {
		for _, u := range t {
			means = append(means, result.Mean(slices.Concat(u.Base, u.Head)))
		}
	}
	return means
}

// DetectableBroken returns the smallest number of tasks that break, from GoodLevel to nothing, and
// that the test at alpha finds in 80 % of runs, and the drop that they make; false if it finds
// none. The other tasks vary randomly: by the observed differences (or twice the rises if more
// tasks fell) and by that of one attempt, each with either sign.
func DetectableBroken(s Sample, alpha float64) (tasks int, drop float64, ok bool) {
	drops := s.Drops()
	size, most := s.GoodLevel()
	if size <= 0 || s.TooFew(len(drops), alpha) {
		return 0, 0, false
	}
	falls, rises := 0.0, 0.0
	for _, d := range drops {
		if d > 0 {
			falls += d * d
		} else {
			rises += d * d
		}
	}
	noise := []float64{s.attemptNoise()}
	for _, d := range drops {
		switch {
		case d < 0 && falls > rises:
			noise = append(noise, -d, -d)
		case d != 0 && falls <= rises:
			noise = append(noise, math.Abs(d))
		}
	}
	others := otherTasksOf(noise, size)
	others.ways = s.ways()
	found := func(k int) bool { return others.power(k, alpha) >= Power }
	if tasks = 1 + sort.Search(most, func(i int) bool { return found(i + 1) }); tasks > most {
		return 0, 0, false
	}
	return tasks, float64(tasks) * size / float64(len(drops)), true
}

// GoodLevel returns the largest possible fall of a task that does well: the mean, over the tasks
// that are at least average in the baseline, of their means. tasks is the number of these.
func (s Sample) GoodLevel() (height float64, tasks int) {
	lowest := min(0, s.Low)
	var levels []float64
	for _, t := range s.Tasks {
		sum := 0.0
		for _, u := range t {
			sum += (result.Mean(u.Base) - lowest) * float64(len(s.Tasks)) / float64(s.Units)
		}
		levels = append(levels, sum)
	}
	average := result.Mean(levels)
	good := slices.DeleteFunc(levels, func(v float64) bool { return v < average || v == 0 })
	return result.Mean(good), len(good)
}

// otherTasksOf returns the distribution of the sum of the other tasks' drops, each with either
// sign. size is the drop of a broken task.
func otherTasksOf(noise []float64, size float64) otherTasks {
	o := otherTasks{size: size, tasks: len(noise)}
	for _, d := range noise {
		o.squares += d * d
	}
	if len(noise) > maxExactBroken {
		return o
	}
	sum := convolution{}
	for _, d := range noise {
		drop := int64(math.Round(d / size * brokenCells))
		sum.add(drop, eitherSign(drop))
	}
	sum.step = 1
	o.sums = sum.distribution()
	o.above = make([]float64, len(o.sums))
	for i := len(o.sums) - 2; i >= 0; i-- {
		o.above[i] = o.above[i+1] + o.sums[i+1]
	}
	return o
}

// otherTasks holds the distribution of the sum of the drops of tasks that did not break.
type otherTasks struct {
	size, squares float64 // squares: the sum of the drops' squares
	tasks         int
	ways          float64   // of Sample
	sums, above   []float64 // the probability of each sum and of a larger one, in cells from the smallest; nil if there are too many
}

// power returns the power of the test if k tasks fall by size while the others vary randomly.
func (o otherTasks) power(k int, alpha float64) float64 {
	fall := float64(k) * o.size
	if o.sums == nil {
		z := (fall - NormalQuantile(1-alpha)*math.Sqrt(o.squares+fall*o.size/(o.ways-1))) / math.Sqrt(o.squares)
		return 0.5 * math.Erfc(-z/math.Sqrt2)
	}
	// p decreases with the sum.
	least := sort.Search(len(o.sums), func(i int) bool { return o.p(k, i) <= alpha })
	if least == len(o.sums) {
		return 0
	}
	return o.above[least] + o.sums[least]
}

// p returns the p-value if k tasks fell and the others' sum is i. If m of the k rise when signs
// change, the others have to make up for 2m sizes; for less if the baseline is several runs.
func (o otherTasks) p(k, i int) float64 {
	p := 0.0
	for m := 0; m <= k; m++ {
		at := i + int(math.Round(float64(m*brokenCells)*o.ways/(o.ways-1)))
		if at >= len(o.sums) {
			break
		}
		p += math.Exp(LogChoose(k, m)+float64(m)*math.Log(o.ways-1)-float64(k)*math.Log(o.ways)) * (o.above[at] + o.sums[at]/2)
	}
	return p
}

// NeededAttempts returns how many attempts per task, on both sides, would detect a true drop in 80
// % of runs; 0 if the present ones do, or if no number does. The variance between attempts at one
// task decreases with their number; the variance between tasks does not. With one attempt the two
// cannot be separated, and all of it counts as variance between attempts.
func NeededAttempts(s Sample, drop, alpha float64) int {
	if drop <= 0 || s.TooFew(len(s.Tasks), alpha) || drop >= s.Span() {
		return 0
	}
	now, scale := s.meanAttempts(), 1.0
	if s.Pooled() { // whose runs have as many attempts as the job
		scale = 2 * (s.ways() - 1) / s.ways()
		now /= scale
	}
	enough := func(n float64) bool {
		n *= scale
		return s.NormalPower(drop, alpha, s.VarianceAt(drop, &n)) >= Power
	}
	if enough(now) || !enough(maxNeeded) {
		return 0
	}
	low, high := int(math.Floor(now)), maxNeeded
	for high-low > 1 {
		if middle := (low + high) / 2; enough(float64(middle)) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// NeededTasks returns about how many tasks that vary like these would detect a true drop in 80 % of
// runs; 0 if the present ones do, or if it takes more than maxNeededTasks.
func NeededTasks(s Sample, drop, alpha float64) int {
	if drop <= 0 || drop >= s.Span() {
		return 0
	}
	variance := s.VarianceAt(drop, nil)
	enough := func(n int) bool { return !s.TooFew(n, alpha) && s.powerOf(n, drop, alpha, variance) >= Power }
	now := len(s.Tasks)
	if enough(now) || !enough(maxNeededTasks) {
		return 0
	}
	n := now + sort.Search(maxNeededTasks-now, func(i int) bool { return enough(now + i) })
	if n > 20 {
		n = (n + 9) / 10 * 10 // an estimate from few tasks is not exact
	}
	return n
}

// TooFew reports whether p would be above alpha even if every one of so many tasks like these fell.
// It assumes equal attempts, which detect most.
func (s Sample) TooFew(tasks int, alpha float64) bool { return tasks < s.LeastTasks(alpha) }

// LeastTasks returns the smallest number of tasks that is not too few. If all fell, half of the
// probability counts if they only pass or not, and all of it otherwise; see PValue.
func (s Sample) LeastTasks(alpha float64) int {
	counts := 0.0
	if s.Binary {
		counts = 1
	}
	return max(1, int(math.Ceil((-math.Log2(alpha)-counts)/math.Log2(s.ways())-1e-9)))
}

// NormalPower returns the power of a test at alpha on the tasks' drops for a true drop, if they
// have this variance.
func (s Sample) NormalPower(drop, alpha, variance float64) float64 {
	return s.powerOf(len(s.Tasks), drop, alpha, variance)
}

// powerOf returns NormalPower for a number of tasks.
func (s Sample) powerOf(tasks int, drop, alpha, variance float64) float64 {
	null := math.Sqrt(variance + drop*drop/(s.ways()-1)) // the standard deviation of such drops under sign changes
	z := (drop*math.Sqrt(float64(tasks)) - NormalQuantile(1-alpha)*null) / math.Sqrt(variance)
	return 0.5 * math.Erfc(-z/math.Sqrt2)
}

// VarianceAt returns the variance of a task's drop around a true drop, with the present number of
// attempts or with another.
func (s Sample) VarianceAt(drop float64, attempts *float64) float64 {
	if s.MatchedPairs() {
		up := s.flipShare(drop)
		all := 2*up + drop - drop*drop
		if attempts == nil {
			return all
		}
		return all / *attempts
	}
	_, all := agrestiMin(s)
	if attempts == nil {
		return all
	}
	between := 0.0
	if within, known := s.attemptVariance(); known {
		// Only what attempts clearly do not explain (two standard errors) is variance between
		// tasks.
		between = max(0, all-within*(1+2*math.Sqrt(2/float64(len(s.Tasks)))))
	}
	return between + (all-between)*s.meanAttempts() / *attempts
}

// flipShare returns the share of tasks that improve by chance while others get worse, for one
// attempt on each side: the smaller of the two observed shares, with half a task added (see
// agrestiMin).
func (s Sample) flipShare(drop float64) float64 {
	down, up := 0, 0
	for _, t := range s.Tasks {
		switch d := t.Drop(); {
		case d > 0:
			down++
		case d < 0:
			up++
		}
	}
	share := (float64(min(down, up)) + 0.5) / (float64(len(s.Tasks)) + 2)
	return min(share, max(0, (1-drop)/2))
}

// attemptVariance returns the part of the variance of a task's drop that comes from differences
// between attempts at the same task; not known if no unit has more than one attempt.
func (s Sample) attemptVariance() (within float64, known bool) {
	sum, sides := 0.0, 0
	for _, t := range s.Tasks {
		for _, u := range t {
			for _, side := range [][]float64{u.Base, u.Head} {
				if len(side) > 1 {
					sum += Variance(side) / float64(len(side))
					sides++
				}
			}
		}
	}
	if sides == 0 {
		return 0, false
	}
	return sum / float64(sides) * 2 * float64(len(s.Tasks)) / float64(s.Units), true
}

// CriticalValues returns, for each number of tasks that changed, how many of them must have fallen
// for McNemar's test at alpha.
func CriticalValues(n int, alpha float64) []int {
	crit := make([]int, n+1)
	k := 1
	for changed := range crit {
		for k <= changed && (AtLeast(changed, k, 0.5)+AtLeast(changed, k+1, 0.5))/2 > alpha {
			k++
		}
		crit[changed] = k // larger than changed: the test never finds a drop
	}
	return crit
}

// McNemarPower returns the power of McNemar's test if tasks fall with probability down and rise
// with probability up.
func McNemarPower(crit []int, down, up float64) float64 {
	n := len(crit) - 1
	changes := min(1, down+up)
	sum := 0.0
	for changed := 1; changed <= n; changed++ {
		if crit[changed] > changed {
			continue
		}
		probability := math.Exp(LogChoose(n, changed) + float64(changed)*math.Log(changes) + float64(n-changed)*math.Log1p(-changes))
		if changes == 1 {
			probability = 0
			if changed == n {
				probability = 1
			}
		}
		sum += probability * AtLeast(changed, crit[changed], down/(down+up))
	}
	return sum
}
