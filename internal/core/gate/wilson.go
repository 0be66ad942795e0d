package gate

import (
	"math"

	"github.com/org/rollout-action/internal/core/paired"
	"github.com/org/rollout-action/internal/core/result"
)

// PassRate returns the share of one agent's attempts with a reward that passed, and its confidence
// interval. min_pass_rate, the pass_rate of result.json, and every other place that shows the pass
// rate of one job use it. ok is false if there is no reward. Each of tasks has the attempts at
// another task.
func PassRate(tasks []*result.Attempts, confidence float64) (rate float64, interval Interval, ok bool) {
	return rateOf(tasks, confidence, func(a *result.Attempts) int { return len(a.Rewards) })
}

// ScoreRate is PassRate over the scores: an attempt that the agent, the verifier or a judge lost
// counts as not passed, as wherever agents or jobs are compared.
func ScoreRate(tasks []*result.Attempts, confidence float64) (rate float64, interval Interval, ok bool) {
	return rateOf(tasks, confidence, func(a *result.Attempts) int { return len(a.Scores()) })
}

func rateOf(tasks []*result.Attempts, confidence float64, of func(*result.Attempts) int) (rate float64, interval Interval, ok bool) {
	var tallies []tally
	for _, t := range tasks {
		if n := of(t); n > 0 {
			tallies = append(tallies, tally{passed: t.Passed, attempts: n})
		}
	}
	if len(tallies) == 0 {
		return 0, Interval{}, false
	}
	rate, n := effectiveAttempts(tallies)
	low, high := wilson(rate, n, confidence)
	return rate, Interval{Low: low, High: high, Confidence: confidence}, true
}

// wilson returns the two-sided confidence interval of a rate that was p in n independent trials. n
// need not be whole.
// Source: E. B. Wilson, J. Am. Statist. Assoc. 22 (1927) 209.
func wilson(p, n, confidence float64) (low, high float64) {
	z := paired.NormalQuantile((1 + confidence) / 2)
	centre := (p + z*z/(2*n)) / (1 + z*z/n)
	reach := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return max(0, centre-reach), min(1, centre+reach)
}

// tally counts a task's attempts and those of them that passed.
type tally struct{ passed, attempts int }

// effectiveAttempts returns the pass rate p, and the number n of independent attempts that the
// tasks' attempts amount to. Attempts at one task resemble each other, so n is between the number
// of tasks and the number of attempts. It is estimated from the variance between the tasks' rates
// (the design effect, from the linearised variance of a ratio). If all attempts agree, nothing can
// be estimated, and n is the number of tasks. Sources: L. Kish, Survey Sampling (1965), §8.2; for
// using it with Wilson's interval, C. Franco et al., J. Surv. Stat. Methodol. 7 (2019) 334.
func effectiveAttempts(tasks []tally) (p, n float64) {
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
