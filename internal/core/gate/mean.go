package gate

import (
	"math"

	"github.com/org/rollout-action/internal/core/paired"
	"github.com/org/rollout-action/internal/core/result"
)

// MeanInterval returns the confidence interval of the mean of all values: Student's, over tasks.
// Each of tasks has the values of the trials of another task, which resemble each other, so that
// the variance is that between tasks (the linearised variance of a ratio, as for PassRate). ok is
// false if the variance cannot be estimated: there are values of fewer than two tasks, or the tasks
// do not differ.
func MeanInterval(tasks [][]float64, confidence float64) (interval Interval, ok bool) {
	var all []float64
	k := 0.0
	for _, values := range tasks {
		all = append(all, values...)
		if len(values) > 0 {
			k++
		}
	}
	if k < 2 {
		return Interval{}, false
	}
	mean, n, squares := result.Mean(all), float64(len(all)), 0.0
	for _, values := range tasks {
		sum := 0.0
		for _, v := range values {
			sum += (v - mean) / n
		}
		squares += sum * sum
	}
	reach := paired.StudentQuantile((1+confidence)/2, k-1) * math.Sqrt(k/(k-1)*squares)
	if !(reach > 1e-12*math.Abs(mean)) || math.IsInf(reach, 0) {
		return Interval{}, false
	}
	return Interval{Low: finite(mean - reach), High: finite(mean + reach), Confidence: confidence}, true
}
