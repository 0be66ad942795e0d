package paired

import (
	"cmp"
	"slices"
)

// Holm corrects p-values for multiple tests: the probability that any of them is significant
// although nothing changed stays at alpha, however they depend on each other. A p-value is
// significant if its adjusted one is at most alpha. levels has the level that each p was compared
// with, so that an interval of that level excludes 0 exactly if adjusted is at most alpha.
// Source: S. Holm, Scand. J. Statist. 6 (1979) 65.
func Holm(ps []float64, alpha float64) (adjusted, levels []float64) {
	order := make([]int, len(ps))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ps[a], ps[b]) })
	adjusted, levels = make([]float64, len(ps)), make([]float64, len(ps))
	worst, level, stopped := 0.0, alpha, false
	for rank, i := range order {
		left := float64(len(ps) - rank)
		worst = max(worst, min(1, ps[i]*left))
		adjusted[i] = worst
		if !stopped {
			level = alpha / left
			stopped = worst > alpha
		}
		levels[i] = level
	}
	return adjusted, levels
}
