package agreement

import (
	"maps"
	"math"
	"slices"
)

func rankOf(pairs []Pair) (float64, bool) {
	a, b := make([]float64, len(pairs)), make([]float64, len(pairs))
	for i, p := range pairs {
		a[i], b[i] = p.A, p.B
	}
	return spearman(a, b)
}

// spearman returns Spearman's rank correlation: the correlation of the ranks. It is undefined for
// fewer than three values, and if all values of a side are equal.
func spearman(a, b []float64) (float64, bool) {
	if len(a) < 3 {
		return 0, false
	}
	return correlation(ranks(a), ranks(b))
}

// ranks returns the rank of each value, from 1; equal values have the mean of their ranks.
func ranks(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		switch {
		case values[i] < values[j]:
			return -1
		case values[i] > values[j]:
			return 1
		}
		return 0
	})
	out := make([]float64, len(values))
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && values[order[to]] == values[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			out[i] = float64(from+1+to) / 2
		}
		from = to
	}
	return out
}

// correlation returns Pearson's correlation.
func correlation(a, b []float64) (float64, bool) {
	n := float64(len(a))
	meanA, meanB := 0.0, 0.0
	for i := range a {
		meanA, meanB = meanA+a[i]/n, meanB+b[i]/n
	}
	ab, aa, bb := 0.0, 0.0, 0.0
	for i := range a {
		x, y := a[i]-meanA, b[i]-meanB
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	if aa < equal*equal || bb < equal*equal {
		return 0, false
	}
	return max(-1, min(1, ab/math.Sqrt(aa*bb))), true
}

// Sized is a trial's score, the length of the judged text, and the trial's label if there is one.
type Sized struct {
	Task   string
	Score  float64
	Length float64
	Label  *float64
}

// Length measures how a judge's scores correlate with the length of the judged text, from -1 to 1.
type Length struct {
	Trials int       `json:"trials"`
	Rank   *Estimate `json:"rank_correlation"` // null if all lengths or all scores are the same, or there are too few
	// Given is the same among trials with equal labels: the part that quality does not explain.
	// Null without labels.
	Labelled int       `json:"labelled_trials"`
	Given    *Estimate `json:"rank_correlation_given_label"`
}

// LengthOf computes the correlation of scores and lengths.
func LengthOf(all []Sized) Length {
	groups, labelled := map[string][]Sized{}, map[string][]Sized{}
	l := Length{Trials: len(all)}
	for _, s := range all {
		groups[s.Task] = append(groups[s.Task], s)
		if s.Label != nil {
			l.Labelled++
			labelled[s.Task] = append(labelled[s.Task], s)
		}
	}
	l.Rank = estimate(sortedGroups(groups), func(all []Sized) (float64, bool) {
		score, length, _ := columns(all)
		return spearman(score, length)
	})
	l.Given = estimate(sortedGroups(labelled), partial)
	return l
}

// partial returns the partial rank correlation of score and length, controlling for the label.
// Source: M. Kendall, Biometrika 32 (1942) 277.
func partial(all []Sized) (float64, bool) {
	score, length, label := columns(all)
	sl, ok1 := spearman(score, length)
	sb, ok2 := spearman(score, label)
	lb, ok3 := spearman(length, label)
	rest := (1 - sb*sb) * (1 - lb*lb)
	if !ok1 || !ok2 || !ok3 || rest < equal {
		return 0, false
	}
	return max(-1, min(1, (sl-sb*lb)/math.Sqrt(rest))), true
}

func columns(all []Sized) (score, length, label []float64) {
	for _, s := range all {
		score, length = append(score, s.Score), append(length, s.Length)
		if s.Label != nil {
			label = append(label, *s.Label)
		}
	}
	return score, length, label
}

func sortedGroups[T any](groups map[string][]T) (out [][]T) {
	for _, task := range slices.Sorted(maps.Keys(groups)) {
		out = append(out, groups[task])
	}
	return out
}
