package gate

import (
	"math"
	"slices"
	"sort"

	"github.com/org/rollout-action/internal/result"
)

const (
	// power is how often a drop must be told from luck to count as one that the suite shows.
	power = 0.8
	// maxExactPower is the number of tasks up to which McNemar's power is summed up exactly.
	maxExactPower = 100
	// maxExactBroken is the number of drops up to which the power for few broken tasks is summed up exactly.
	maxExactBroken = 300
	// brokenCells is how finely the others' drops are rounded then: thirds, quarters and fifths of a broken task are whole.
	brokenCells = 60
	// maxNeeded is how many attempts are worth proposing. Whoever needs more is better served by more tasks.
	maxNeeded = 20
	// maxNeededTasks is how many tasks are worth proposing.
	maxNeededTasks = 1000
)

// detectable is the smallest true drop that many tasks share and that the test at alpha finds in 80 % of runs; false if it finds none.
//
// With one attempt that passes or not, the power of McNemar's test is summed up exactly (up to 100 tasks), for as many tasks
// that get better by luck as were seen; else it is normal. Then every task's chance falls by one amount, as far as it has one: tasks
// that never pass cannot fall, so that the drop is smaller than the amount, and tasks differ in it. Source: R. J. Connor,
// Biometrics 43 (1987) 207.
func detectable(s sample, alpha float64) (float64, bool) {
	span := s.span()
	if tooFew(len(s.tasks), alpha) || span == 0 {
		return 0, false
	}
	shown := func(amount float64) (drop, power float64) { return s.spreadPower(amount, alpha) }
	if s.single() && len(s.tasks) <= maxExactPower {
		crit := criticals(len(s.tasks), alpha)
		shown = func(drop float64) (float64, float64) {
			up := s.churn(drop)
			return drop, mcnemarPower(crit, up+drop, up)
		}
	} else if s.single() {
		shown = func(drop float64) (float64, float64) {
			return drop, s.normalPower(drop, alpha, s.variance(drop, nil))
		}
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

// spreadPower is how often the test finds that every unit's level falls by an amount, or to the lowest level where it has less to
// lose; drop is by how much the mean falls.
func (s sample) spreadPower(amount, alpha float64) (drop, power float64) {
	n := float64(len(s.tasks))
	_, v := spread(s)
	lowest := min(0, s.low)
	sum, squares, noise := 0.0, 0.0, v*n
	for _, t := range s.tasks {
		fall := 0.0
		for _, u := range t {
			level := result.Mean(slices.Concat(u.base, u.head))
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

// detectableBroken is the smallest number of tasks that break, from the level of those that do well to none, and that the test at
// alpha finds in 80 % of runs, with the drop that this is; false if it finds none. The other tasks do what luck does: the
// differences that were seen, or twice those that rose where more fell, and one attempt's besides, each with either sign.
func detectableBroken(s sample, alpha float64) (tasks int, drop float64, ok bool) {
	drops := s.drops()
	size, most := s.level()
	if size <= 0 || tooFew(len(drops), alpha) {
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
	noise := []float64{s.attemptLuck()}
	for _, d := range drops {
		switch {
		case d < 0 && falls > rises:
			noise = append(noise, -d, -d)
		case d != 0 && falls <= rises:
			noise = append(noise, math.Abs(d))
		}
	}
	others := othersOf(noise, size)
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

// level is how far a task can fall that does well: the mean of those tasks' levels, in the baseline, that are above the
// average. tasks is how many there are.
func (s sample) level() (height float64, tasks int) {
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

// othersOf are the sums that the other tasks' drops may come to, each with either sign. size is that of a broken task.
func othersOf(noise []float64, size float64) others {
	o := others{size: size, tasks: len(noise)}
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

// others are the tasks that did not break.
type others struct {
	size, squares float64 // squares: the sum of the drops' squares
	tasks         int
	sums, above   []float64 // how likely each sum is, and a larger one, in cells from the least; nil: there are too many
}

// power is how often the test finds that k tasks fall by size while the others do what luck does.
func (o others) power(k int, alpha float64) float64 {
	fall := float64(k) * o.size
	if o.sums == nil {
		z := (fall - normalQuantile(1-alpha)*math.Sqrt(o.squares+fall*o.size)) / math.Sqrt(o.squares)
		return 0.5 * math.Erfc(-z/math.Sqrt2)
	}
	// The more the others fall, the smaller is p.
	least := sort.Search(len(o.sums), func(i int) bool { return o.p(k, i) <= alpha })
	if least == len(o.sums) {
		return 0
	}
	return o.above[least] + o.sums[least]
}

// p is the test's when k tasks fell and the others' sum is i: of the k, m rise when signs are changed, which takes 2m sizes.
func (o others) p(k, i int) float64 {
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

// needed is how many attempts per task, on both sides, would show a true drop in 80 % of runs; 0 if those there are do, or
// if no number does. What attempts at one task differ by gets smaller with their number; what tasks differ by does not. With
// one attempt the two cannot be told apart, and all is taken for the former.
func needed(s sample, drop, alpha float64) int {
	if drop <= 0 || tooFew(len(s.tasks), alpha) || drop >= s.span() {
		return 0
	}
	now := s.attempts()
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

// neededTasks is about how many tasks that vary like these would show a true drop in 80 % of runs; 0 if those there are do, or if it
// takes more than anybody would make.
func neededTasks(s sample, drop, alpha float64) int {
	if drop <= 0 || drop >= s.span() {
		return 0
	}
	variance := s.variance(drop, nil)
	enough := func(n int) bool { return !tooFew(n, alpha) && powerOf(n, drop, alpha, variance) >= power }
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

// tooFew: even if every task fell, p would be above alpha. Tasks with unequal attempts are taken for equal ones, which are told apart
// best.
func tooFew(tasks int, alpha float64) bool { return math.Exp2(-float64(tasks)-1) > alpha }

// leastTasks is the smallest number that is not too few.
func leastTasks(alpha float64) int { return int(math.Ceil(-math.Log2(alpha) - 1 - 1e-9)) }

// normalPower is how often a test at alpha on the tasks' drops finds a true drop, when they have this variance.
func (s sample) normalPower(drop, alpha, variance float64) float64 {
	return powerOf(len(s.tasks), drop, alpha, variance)
}

// powerOf is that of so many tasks.
func powerOf(tasks int, drop, alpha, variance float64) float64 {
	null := math.Sqrt(variance + drop*drop) // what the sign changes of such drops vary by
	z := (drop*math.Sqrt(float64(tasks)) - normalQuantile(1-alpha)*null) / math.Sqrt(variance)
	return 0.5 * math.Erfc(-z/math.Sqrt2)
}

// variance is that of a task's drop around a true drop, with as many attempts as there are or, if given, with others.
func (s sample) variance(drop float64, attempts *float64) float64 {
	if s.single() {
		up := s.churn(drop)
		all := 2*up + drop - drop*drop
		if attempts == nil {
			return all
		}
		return all / *attempts
	}
	_, all := spread(s)
	if attempts == nil {
		return all
	}
	between := 0.0
	if within, known := s.within(); known {
		// Only what is clearly more than attempts explain (two standard errors) is the tasks' own.
		between = max(0, all-within*(1+2*math.Sqrt(2/float64(len(s.tasks)))))
	}
	return between + (all-between)*s.attempts() / *attempts
}

// churn is the share of tasks that get better by luck while others get worse, of tasks with one attempt on each side: the
// smaller of the two shares that were seen, with half a task on top (see spread).
func (s sample) churn(drop float64) float64 {
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

// within is what of the variance of a task's drop comes from attempts at the same task that differ; not known if no
// unit has more than one attempt.
func (s sample) within() (within float64, known bool) {
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

// criticals has, for each number of tasks that changed, how many of them must have fallen for McNemar's test at alpha.
func criticals(n int, alpha float64) []int {
	crit := make([]int, n+1)
	k := 1
	for changed := range crit {
		for k <= changed && (atLeast(changed, k, 0.5)+atLeast(changed, k+1, 0.5))/2 > alpha {
			k++
		}
		crit[changed] = k // above changed: never
	}
	return crit
}

// mcnemarPower is how often McNemar's test finds that tasks fall with chance down and rise with chance up.
func mcnemarPower(crit []int, down, up float64) float64 {
	n := len(crit) - 1
	changes := min(1, down+up)
	sum := 0.0
	for changed := 1; changed <= n; changed++ {
		if crit[changed] > changed {
			continue
		}
		chance := math.Exp(logChoose(n, changed) + float64(changed)*math.Log(changes) + float64(n-changed)*math.Log1p(-changes))
		if changes == 1 {
			chance = 0
			if changed == n {
				chance = 1
			}
		}
		sum += chance * atLeast(changed, crit[changed], down/(down+up))
	}
	return sum
}
