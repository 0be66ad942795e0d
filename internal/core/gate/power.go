package gate

import (
	"math"
	"slices"
	"sort"

	"github.com/org/rollout-action/internal/core/result"
)

const (
	// power is the probability with which a test must find a drop for the suite to detect it.
	power = 0.8
	// maxExactPower is the number of tasks up to which McNemar's power is computed exactly.
	maxExactPower = 100
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

// detectable returns the smallest true drop that many tasks share and that the test at alpha finds
// in 80 % of runs; false if it finds none.
//
// With one attempt that passes or not, the power of McNemar's test is computed exactly (up to 100
// tasks), assuming that as many tasks improve by chance as did. Otherwise it is a normal
// approximation, in which every task's probability of passing falls by one amount but not below 0,
// so the mean drop is smaller than the amount. Source: R. J. Connor, Biometrics 43 (1987) 207.
func detectable(s sample, alpha float64) (float64, bool) {
	span := s.span()
	if s.tooFew(len(s.tasks), alpha) || span == 0 {
		return 0, false
	}
	var shown func(amount float64) (drop, power float64)
	switch {
	case s.matchedPairs() && len(s.tasks) <= maxExactPower:
		crit := criticalValues(len(s.tasks), alpha)
		shown = func(drop float64) (float64, float64) {
			up := s.flipShare(drop)
			return drop, mcnemarPower(crit, up+drop, up)
		}
	case s.matchedPairs():
		shown = func(drop float64) (float64, float64) {
			return drop, s.normalPower(drop, alpha, s.variance(drop, nil))
		}
	default:
		means := s.unitMeans()
		_, v := agrestiMin(s)
		shown = func(amount float64) (float64, float64) { return s.spreadPower(amount, alpha, means, v) }
	}
	if _, p := shown(span); p < power {
		return 0, false
	}
	low, high := 0.0, span
	for high-low > span/4096 {
		middle := (low + high) / 2
		if _, p := shown(middle); p >= power {
			high = middle
		} else {
			low = middle
		}
	}
	drop, _ := shown(high)
	return drop, true
}

// spreadPower returns the power of the test if every unit's mean falls by an amount, but not below
// the lowest value. drop is by how much the sample's mean falls. means has the units' means, v the
// variance of agrestiMin.
func (s sample) spreadPower(amount, alpha float64, means []float64, v float64) (drop, power float64) {
	n := float64(len(s.tasks))
	lowest := min(0, s.low)
	sum, squares, noise := 0.0, 0.0, v*n
	next := 0
	for _, t := range s.tasks {
		fall := 0.0
		for _, u := range t {
			level := means[next]
			next++
			by := max(0, min(amount, level-lowest))
			fall += by
			if s.binary {
				after := level - by
				noise += (after*(1-after) - level*(1-level)) / float64(len(u.head)) * n / float64(s.units)
			}
		}
		fall *= n / float64(s.units)
		sum += fall
		squares += fall * fall
	}
	noise = max(noise, v*n/4)
	z := (sum - normalQuantile(1-alpha)*math.Sqrt(noise+squares)) / math.Sqrt(noise)
	return sum / n, 0.5 * math.Erfc(-z/math.Sqrt2)
}

// unitMeans returns the mean of each unit over both sides, in the order of the tasks.
func (s sample) unitMeans() []float64 {
	means := make([]float64, 0, s.units)
	for _, t := range s.tasks {
		for _, u := range t {
			means = append(means, result.Mean(slices.Concat(u.base, u.head)))
		}
	}
	return means
}

// detectableBroken returns the smallest number of tasks that break, from goodLevel to nothing, and
// that the test at alpha finds in 80 % of runs, and the drop that they make; false if it finds
// none. The other tasks vary randomly: by the observed differences (or twice the rises if more
// tasks fell) and by that of one attempt, each with either sign.
func detectableBroken(s sample, alpha float64) (tasks int, drop float64, ok bool) {
	drops := s.drops()
	size, most := s.goodLevel()
	if size <= 0 || s.tooFew(len(drops), alpha) {
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
	found := func(k int) bool { return others.power(k, alpha) >= power }
	if !found(most) {
		return 0, 0, false
	}
	low, high := 0, most
	for high-low > 1 {
		if middle := (low + high) / 2; found(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high, float64(high) * size / float64(len(drops)), true
}

// goodLevel returns the largest possible fall of a task that does well: the mean, over the tasks
// that are at least average in the baseline, of their means. tasks is the number of these.
func (s sample) goodLevel() (height float64, tasks int) {
	lowest := min(0, s.low)
	var levels []float64
	for _, t := range s.tasks {
		sum := 0.0
		for _, u := range t {
			sum += (result.Mean(u.base) - lowest) * float64(len(s.tasks)) / float64(s.units)
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
	sums, above   []float64 // the probability of each sum and of a larger one, in cells from the smallest; nil if there are too many
}

// power returns the power of the test if k tasks fall by size while the others vary randomly.
func (o otherTasks) power(k int, alpha float64) float64 {
	fall := float64(k) * o.size
	if o.sums == nil {
		z := (fall - normalQuantile(1-alpha)*math.Sqrt(o.squares+fall*o.size)) / math.Sqrt(o.squares)
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
// change, the others have to make up for 2m sizes.
func (o otherTasks) p(k, i int) float64 {
	p := 0.0
	for m := 0; m <= k; m++ {
		at := i + 2*m*brokenCells
		if at >= len(o.sums) {
			break
		}
		p += math.Exp(logChoose(k, m)-float64(k)*math.Ln2) * (o.above[at] + o.sums[at]/2)
	}
	return p
}

// neededAttempts returns how many attempts per task, on both sides, would detect a true drop in 80
// % of runs; 0 if the present ones do, or if no number does. The variance between attempts at one
// task decreases with their number; the variance between tasks does not. With one attempt the two
// cannot be separated, and all of it counts as variance between attempts.
func neededAttempts(s sample, drop, alpha float64) int {
	if drop <= 0 || s.tooFew(len(s.tasks), alpha) || drop >= s.span() {
		return 0
	}
	now := s.meanAttempts()
	enough := func(n float64) bool {
		return s.normalPower(drop, alpha, s.variance(drop, &n)) >= power
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

// neededTasks returns about how many tasks that vary like these would detect a true drop in 80 % of
// runs; 0 if the present ones do, or if it takes more than maxNeededTasks.
func neededTasks(s sample, drop, alpha float64) int {
	if drop <= 0 || drop >= s.span() {
		return 0
	}
	variance := s.variance(drop, nil)
	enough := func(n int) bool { return !s.tooFew(n, alpha) && powerOf(n, drop, alpha, variance) >= power }
	now := len(s.tasks)
	if enough(now) || !enough(maxNeededTasks) {
		return 0
	}
	n := now + sort.Search(maxNeededTasks-now, func(i int) bool { return enough(now + i) })
	if n > 20 {
		n = (n + 9) / 10 * 10 // an estimate from few tasks is not exact
	}
	return n
}

// tooFew reports whether p would be above alpha even if every one of so many tasks like these fell.
// It assumes equal attempts, which detect most.
func (s sample) tooFew(tasks int, alpha float64) bool { return tasks < s.leastTasks(alpha) }

// leastTasks returns the smallest number of tasks that is not too few. If all fell, half of the
// probability counts if they only pass or not, and all of it otherwise; see pValue.
func (s sample) leastTasks(alpha float64) int {
	counts := 0.0
	if s.binary {
		counts = 1
	}
	return max(1, int(math.Ceil(-math.Log2(alpha)-counts-1e-9)))
}

// normalPower returns the power of a test at alpha on the tasks' drops for a true drop, if they
// have this variance.
func (s sample) normalPower(drop, alpha, variance float64) float64 {
	return powerOf(len(s.tasks), drop, alpha, variance)
}

// powerOf returns normalPower for a number of tasks.
func powerOf(tasks int, drop, alpha, variance float64) float64 {
	null := math.Sqrt(variance + drop*drop) // the standard deviation of such drops under sign changes
	z := (drop*math.Sqrt(float64(tasks)) - normalQuantile(1-alpha)*null) / math.Sqrt(variance)
	return 0.5 * math.Erfc(-z/math.Sqrt2)
}

// variance returns the variance of a task's drop around a true drop, with the present number of
// attempts or with another.
func (s sample) variance(drop float64, attempts *float64) float64 {
	if s.matchedPairs() {
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
		between = max(0, all-within*(1+2*math.Sqrt(2/float64(len(s.tasks)))))
	}
	return between + (all-between)*s.meanAttempts() / *attempts
}

// flipShare returns the share of tasks that improve by chance while others get worse, for one
// attempt on each side: the smaller of the two observed shares, with half a task added (see
// agrestiMin).
func (s sample) flipShare(drop float64) float64 {
	down, up := 0, 0
	for _, t := range s.tasks {
		switch d := t.drop(); {
		case d > 0:
			down++
		case d < 0:
			up++
		}
	}
	share := (float64(min(down, up)) + 0.5) / (float64(len(s.tasks)) + 2)
	return min(share, max(0, (1-drop)/2))
}

// attemptVariance returns the part of the variance of a task's drop that comes from differences
// between attempts at the same task; not known if no unit has more than one attempt.
func (s sample) attemptVariance() (within float64, known bool) {
	sum, sides := 0.0, 0
	for _, t := range s.tasks {
		for _, u := range t {
			for _, side := range [][]float64{u.base, u.head} {
				if len(side) > 1 {
					sum += variance(side) / float64(len(side))
					sides++
				}
			}
		}
	}
	if sides == 0 {
		return 0, false
	}
	return sum / float64(sides) * 2 * float64(len(s.tasks)) / float64(s.units), true
}

// criticalValues returns, for each number of tasks that changed, how many of them must have fallen
// for McNemar's test at alpha.
func criticalValues(n int, alpha float64) []int {
	crit := make([]int, n+1)
	k := 1
	for changed := range crit {
		for k <= changed && (atLeast(changed, k, 0.5)+atLeast(changed, k+1, 0.5))/2 > alpha {
			k++
		}
		crit[changed] = k // larger than changed: the test never finds a drop
	}
	return crit
}

// mcnemarPower returns the power of McNemar's test if tasks fall with probability down and rise
// with probability up.
func mcnemarPower(crit []int, down, up float64) float64 {
	n := len(crit) - 1
	changes := min(1, down+up)
	sum := 0.0
	for changed := 1; changed <= n; changed++ {
		if crit[changed] > changed {
			continue
		}
		probability := math.Exp(logChoose(n, changed) + float64(changed)*math.Log(changes) + float64(n-changed)*math.Log1p(-changes))
		if changes == 1 {
			probability = 0
			if changed == n {
				probability = 1
			}
		}
		sum += probability * atLeast(changed, crit[changed], down/(down+up))
	}
	return sum
}
