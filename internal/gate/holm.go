package gate

import (
	"cmp"
	"slices"
)

// holm corrects for many looks: of m drops that are tested, the chance that any of them is called real by luck stays at
// alpha, however they depend on each other. adjusted are to be held against alpha; levels are those that
// each p was really held against, so that an interval of that level excludes 0 exactly if adjusted is at most alpha.
// Source: S. Holm, Scand. J. Statist. 6 (1979) 65.
func holm(ps []float64, alpha float64) (adjusted, levels []float64) {
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
