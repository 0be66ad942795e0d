package gate

import "math"

const (
	// power is how often a drop must be told from luck to count as one that the suite shows.
	power = 0.8
	// maxExactPower is the number of tasks up to which McNemar's power is summed up exactly.
	maxExactPower = 100
	// maxNeeded is how many attempts are worth proposing.
	maxNeeded = 1000
)

// detectable is the smallest true drop that the test at alpha finds in 80 % of runs; false if it finds none.
//
// With one attempt that passes or not, the power of McNemar's test is summed up exactly (up to 100 tasks), for as many tasks
// that get better by luck as were seen; else it comes from the variance of the tasks' drops that was seen, which under
// luck has the drop's own square on top. Source: R. J. Connor, Biometrics 43 (1987) 207.
func detectable(s sample, alpha float64) (float64, bool) {
	if tooFew(len(s.tasks), alpha) {
		return 0, false
	}
	enough := func(drop float64) bool { return s.normalPower(drop, alpha, s.variance(drop, nil)) >= power }
	if s.single() && len(s.tasks) <= maxExactPower {
		crit := criticals(len(s.tasks), alpha)
		enough = func(drop float64) bool {
			up := s.churn(drop)
			return mcnemarPower(crit, up+drop, up) >= power
		}
	}
	span := s.span()
	if span == 0 || !enough(span) {
		return 0, false
	}
	low, high := 0.0, span
	for high-low > span/4096 {
		if middle := (low + high) / 2; enough(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high, true
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

// tooFew: even if every task fell, luck would do that more often than alpha.
func tooFew(tasks int, alpha float64) bool { return math.Exp2(-float64(tasks)) > alpha }

// leastTasks is the smallest number that is not too few.
func leastTasks(alpha float64) int { return int(math.Ceil(-math.Log2(alpha) - 1e-9)) }

// normalPower is how often a test at alpha on the tasks' drops finds a true drop, when they have this variance.
func (s sample) normalPower(drop, alpha, variance float64) float64 {
	null := math.Sqrt(variance + drop*drop) // what the sign changes of such drops vary by
	z := (drop*math.Sqrt(float64(len(s.tasks))) - normalQuantile(1-alpha)*null) / math.Sqrt(variance)
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
		for k <= changed && atLeast(changed, k, 0.5) > alpha {
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
