package gate

import "math"

// wilson is the two-sided interval for a rate of which a share p was seen in n independent trials (n need not be whole).
// Source: E. B. Wilson, J. Am. Statist. Assoc. 22 (1927) 209.
func wilson(p, n, confidence float64) (low, high float64) {
	z := normalQuantile((1 + confidence) / 2)
	centre := (p + z*z/(2*n)) / (1 + z*z/n)
	reach := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return max(0, centre-reach), min(1, centre+reach)
}

// tally is how many of a task's attempts passed.
type tally struct{ passed, attempts int }

// effective is how many independent attempts the tasks' attempts are worth: attempts at one task resemble each other, so
// it lies between the number of tasks and the number of attempts. It is found from how far the tasks' own rates are
// apart (the design effect, from the linearised variance of a ratio); where all attempts agree nothing can be found,
// and tasks are counted. Sources: L. Kish, Survey Sampling (1965), §8.2; for using it with Wilson's interval,
// C. Franco et al., J. Surv. Stat. Methodol. 7 (2019) 334.
func effective(tasks []tally) (p, n float64) {
	passed, attempts, squares := 0.0, 0.0, 0.0
	for _, t := range tasks {
		passed += float64(t.passed)
		attempts += float64(t.attempts)
		squares += float64(t.attempts) * float64(t.attempts)
	}
	p = passed / attempts
	least := attempts * attempts / squares // the number of tasks, if they have as many attempts each
	k := float64(len(tasks))
	residual := 0.0
	for _, t := range tasks {
		r := float64(t.passed) - p*float64(t.attempts)
		residual += r * r
	}
	v := k / max(k-1, 1) * residual / (attempts * attempts)
	if v == 0 || len(tasks) < 2 {
		return p, least
	}
	return p, max(least, min(attempts, p*(1-p)/v))
}
