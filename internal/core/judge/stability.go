package judge

import (
	"cmp"
	"slices"
)

// Series holds the scores that a judge gave one trial in several runs.
type Series struct {
	Trial   string     `json:"trial"`
	Scores  []*float64 `json:"scores"` // in the order of the runs; null if there is none
	Reasons []string   `json:"reasons"`
}

// spread returns the difference between the largest and the smallest score. ok is false if there
// are fewer than two.
func (s Series) spread() (width float64, ok bool) {
	var known []float64
	for _, score := range s.Scores {
		if score != nil {
			known = append(known, *score)
		}
	}
	if len(known) < 2 {
		return 0, false
	}
	return slices.Max(known) - slices.Min(known), true
}

// Stability measures how often a judge gives the same trials the same scores again.
type Stability struct {
	Trials int `json:"trials"` // with at least two scores
	Same   int `json:"same"`   // of them, those whose scores are all equal
	// Spread is the mean, over the trials whose scores differ, of the largest score minus the
	// smallest; 0 if none differ.
	Spread float64 `json:"spread"`
	// Means holds the mean score of each run, over the trials that have a score in every run; null
	// if there is none.
	Means []*float64 `json:"means"`
	Null  []int      `json:"null"` // trials without a score, of each run
	// Higher and Lower are the trials whose last score is above or below their first.
	Higher int `json:"higher"`
	Lower  int `json:"lower"`
}

// StabilityOf compares the scores of trials in runs runs.
func StabilityOf(all []Series, runs int) Stability {
	out := Stability{Means: make([]*float64, runs), Null: make([]int, runs)}
	sums, whole, spreads := make([]float64, runs), 0, 0.0
	for _, s := range all {
		complete := true
		for i, score := range s.Scores {
			if score == nil {
				out.Null[i]++
				complete = false
			}
		}
		if complete {
			whole++
			for i, score := range s.Scores {
				sums[i] += *score
			}
			first, last := *s.Scores[0], *s.Scores[runs-1]
			switch {
			case last > first:
				out.Higher++
			case last < first:
				out.Lower++
			}
		}
		width, ok := s.spread()
		switch {
		case !ok:
			continue
		case width == 0:
			out.Same++
		default:
			spreads += width
		}
		out.Trials++
	}
	if differ := out.Trials - out.Same; differ > 0 {
		out.Spread = spreads / float64(differ)
	}
	for i := range sums {
		if whole > 0 {
			out.Means[i] = new(sums[i] / float64(whole))
		}
	}
	return out
}

// Unstable returns the trials whose scores differ, those that differ most first.
func Unstable(all []Series) []Series {
	var out []Series
	for _, s := range all {
		if width, ok := s.spread(); ok && width > 0 {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b Series) int {
		x, _ := a.spread()
		y, _ := b.spread()
		return cmp.Or(cmp.Compare(y, x), cmp.Compare(a.Trial, b.Trial))
	})
	return out
}
