package gate

import "math"

// spread is the variance of a task's drop (see sample.drops) with two tasks more: half a task that fell, half a task that
// rose, by what one attempt of luck is, and one without a difference. That keeps a few tasks that all did the same from
// looking certain. Source: A. Agresti and Y. Min, Statist. Med. 24 (2005) 729, whose interval for matched proportions
// this is with one attempt that passes or not; attempts make the pseudo-tasks' luck smaller as they do the tasks'.
func spread(s sample) (centre, variance float64) {
	n := float64(len(s.tasks)) + 2
	luck := s.attemptLuck()
	sum, squares := 0.0, luck*luck
	for _, d := range s.drops() {
		sum += d
		squares += d * d
	}
	centre = sum / n
	return centre, squares/n - centre*centre
}

// attemptLuck is by what a task's drop changes if one attempt by each agent goes the other way, in the scale of sample.drops, and less the
// more attempts there are.
func (s sample) attemptLuck() float64 {
	return s.span() / math.Sqrt(s.attempts()*float64(s.units)/float64(len(s.tasks)))
}

// interval is where the true drop is, each bound with the confidence 1 - alpha: together they are an interval of confidence
// 1 - 2 alpha, whose lower bound goes with the one-sided test. It is Student's, with tasks as units, on spread; where
// that approximation would contradict the exact test, it ends at 0, so that it excludes 0 only if the drop is significant.
func interval(s sample, alpha float64, significant bool) (low, high float64) {
	centre, v := spread(s)
	n := float64(len(s.tasks)) + 2
	reach := studentQuantile(1-alpha, n-1) * math.Sqrt(v/n)
	low, high = centre-reach, centre+reach
	if s.binary {
		low, high = max(low, -1), min(high, 1)
	}
	if significant {
		low = max(low, 0)
	} else {
		low = min(low, 0)
	}
	return low, max(high, low)
}
