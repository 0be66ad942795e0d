package paired

import "math"

// agrestiMin returns the mean and the variance of a task's drop (see sample.drops) after adding two
// pseudo-tasks: half a task that fell and half a task that rose by attemptNoise, and one without a
// difference. So a few tasks that all did the same do not look certain. Source: A. Agresti and Y.
// Min, Statist. Med. 24 (2005) 729, whose interval for matched proportions this is for one attempt
// that passes or not. More attempts make the pseudo-tasks' drops smaller, as they do the tasks'
// noise.
func agrestiMin(s Sample) (centre, variance float64) {
	n := float64(len(s.Tasks)) + 2
	noise := s.attemptNoise()
	sum, squares := 0.0, noise*noise
	for _, d := range s.Drops() {
		sum += d
		squares += d * d
	}
	centre = sum / n
	return centre, squares/n - centre*centre
}

// attemptNoise returns by how much a task's drop changes if one attempt of each agent ends the
// other way, in the scale of sample.drops. It is smaller the more attempts there are.
func (s Sample) attemptNoise() float64 {
	return s.Span() / math.Sqrt(s.meanAttempts()*float64(s.Units)/float64(len(s.Tasks)))
}

// Interval returns a confidence interval of the true drop. Each bound has the confidence 1 - alpha,
// both together 1 - 2 alpha; the lower bound matches the one-sided test. It is Student's interval
// over tasks, with the variance of agrestiMin. Where this approximation would contradict the exact
// test, it ends at 0, so that it excludes 0 only if the drop is significant.
func Interval(s Sample, alpha float64, significant bool) (low, high float64) {
	centre, v := agrestiMin(s)
	n := float64(len(s.Tasks)) + 2
	reach := StudentQuantile(1-alpha, n-1) * math.Sqrt(v/n)
	low, high = centre-reach, centre+reach
	if s.Binary {
		low, high = max(low, -1), min(high, 1)
	}
	if significant {
		low = max(low, 0)
	} else {
		low = min(low, 0)
	}
	return low, max(high, low)
}
