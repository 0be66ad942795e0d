package agreement

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
)

// Confidence is the confidence level of all intervals.
const Confidence = 0.95

// resamples is the number of bootstrap samples of an interval.
const resamples = 1000

// equal is the tolerance within which numbers count as equal.
const equal = 1e-6

// Pair holds the ratings of the same thing by a judge and a person, from 0 to 1. Pairs of one task
// are not independent of each other.
type Pair struct {
	Task string
	A, B float64 // A is the judge's
}

// Kind names a way to compare two values.
type Kind string

// The kinds.
const (
	Choices Kind = "choices" // values are ordered choices: they agree if they are the same
	Pass    Kind = "pass"    // B is 0 or 1: A agrees if it is on the same side of a threshold
	Score   Kind = "score"   // numbers: they agree if they are near each other
)

// Scale describes the comparison of values.
type Scale struct {
	Kind Kind `json:"kind"`
	// Values are the choices, ascending; empty for a Score.
	Values    []float64 `json:"values,omitempty"`
	Threshold float64   `json:"threshold,omitempty"` // of Pass: a score as high as this passes
	Tolerance float64   `json:"tolerance,omitempty"` // of Score
}

// Estimate is a number and its interval. The interval is null if there is too little data.
type Estimate struct {
	Value float64  `json:"value"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
}

// Agreement measures how well two sides agree. Undefined numbers are null.
type Agreement struct {
	Pairs     int       `json:"pairs"`
	Tasks     int       `json:"tasks"`
	Agree     int       `json:"agree"`
	Agreement *Estimate `json:"agreement"` // Agree of Pairs
	Chance    *float64  `json:"chance"`    // the agreement that sides with these values have if they do not know of each other
	// Kappa is Cohen's kappa; with quadratic weights if there are more than two choices, or
	// numbers. Null if each side has one value alone, and it is the same.
	Kappa    *Estimate `json:"kappa"`
	Weighted bool      `json:"weighted"`
	// Confusion counts the pairs by A (rows) and B (columns), in the order of Scale.Values.
	Confusion  [][]int   `json:"confusion,omitempty"`
	Difference *Estimate `json:"mean_difference,omitempty"` // the mean of |A-B|; only for a Score
	Rank       *Estimate `json:"rank_correlation,omitempty"`
}

// Measure compares the sides of pairs. It cannot fail, and does not change them.
func Measure(pairs []Pair, scale Scale) Agreement {
	a := Agreement{Pairs: len(pairs), Weighted: scale.Kind == Score || len(scale.Values) > 2}
	groups := byTask(pairs)
	a.Tasks = len(groups)
	if len(pairs) == 0 {
		return a
	}
	var attempts []*result.Attempts
	for _, group := range groups {
		agree := 0
		for _, p := range group {
			if scale.agree(p) {
				agree++
			}
		}
		a.Agree += agree
		attempts = append(attempts, &result.Attempts{Rewards: make([]float64, len(group)), Passed: agree})
	}
	rate, interval, _ := gate.ScoreRate(attempts, Confidence)
	a.Agreement = &Estimate{Value: rate, Low: &interval.Low, High: &interval.High}
	a.Chance = new(scale.chance(pairs))
	a.Kappa = estimate(groups, scale.kappa)
	if scale.Kind == Score {
		a.Difference = estimate(groups, meanDifference)
		a.Rank = estimate(groups, rankOf)
		return a
	}
	a.Confusion = make([][]int, len(scale.Values))
	for i := range a.Confusion {
		a.Confusion[i] = make([]int, len(scale.Values))
	}
	for _, p := range pairs {
		p = scale.fit(p)
		a.Confusion[scale.index(p.A)][scale.index(p.B)]++
	}
	return a
}

// fit returns a pair whose judge's score is reduced to pass or fail if the scale is Pass.
func (s Scale) fit(p Pair) Pair {
	if s.Kind == Pass {
		value := 0.0
		if p.A >= s.Threshold-equal {
			value = 1
		}
		p.A = value
	}
	return p
}

// index returns the choice that is nearest to a value.
func (s Scale) index(v float64) int {
	best := 0
	for i, other := range s.Values {
		if math.Abs(other-v) < math.Abs(s.Values[best]-v) {
			best = i
		}
	}
	return best
}

func (s Scale) agree(p Pair) bool {
	p = s.fit(p)
	if s.Kind == Score {
		return math.Abs(p.A-p.B) <= s.Tolerance+equal
	}
	return s.index(p.A) == s.index(p.B)
}

// Agree reports whether the sides of a pair agree.
func (s Scale) Agree(p Pair) bool { return s.agree(p) }

// chance returns the agreement expected by chance: the share of agreeing pairs among all
// combinations of an A and a B.
func (s Scale) chance(pairs []Pair) float64 {
	n := float64(len(pairs))
	if s.Kind != Score {
		rows, columns := s.margins(pairs)
		sum := 0.0
		for i := range rows {
			sum += rows[i] * columns[i]
		}
		return sum
	}
	b := make([]float64, len(pairs))
	for i, p := range pairs {
		b[i] = p.B
	}
	slices.Sort(b)
	count := 0.0
	for _, p := range pairs {
		from, _ := slices.BinarySearch(b, p.A-s.Tolerance-equal)
		to, _ := slices.BinarySearch(b, p.A+s.Tolerance+equal)
		count += float64(to - from)
	}
	return count / n / n
}

// margins returns the share of each choice, for the judge and for the person.
func (s Scale) margins(pairs []Pair) (rows, columns []float64) {
	rows, columns = make([]float64, len(s.Values)), make([]float64, len(s.Values))
	for _, p := range pairs {
		p = s.fit(p)
		rows[s.index(p.A)]++
		columns[s.index(p.B)]++
	}
	for i := range rows {
		rows[i] /= float64(len(pairs))
		columns[i] /= float64(len(pairs))
	}
	return rows, columns
}

// kappa returns 1 - the mean disagreement of the pairs / the mean disagreement of all pairs of an A
// and a B. The disagreement is the squared difference, which for two choices is 1 or 0: Cohen's
// kappa. For numbers this is the concordance correlation coefficient.
// Sources: J. Cohen, Educ. Psychol. Meas. 20 (1960) 37 and Psychol. Bull. 70 (1968) 213; L. Lin,
// Biometrics 45 (1989) 255.
func (s Scale) kappa(pairs []Pair) (float64, bool) {
	n := float64(len(pairs))
	together, a, b, aa, bb := 0.0, 0.0, 0.0, 0.0, 0.0
	for _, p := range pairs {
		p = s.fit(p)
		together += (p.A - p.B) * (p.A - p.B)
		a, b, aa, bb = a+p.A, b+p.B, aa+p.A*p.A, bb+p.B*p.B
	}
	apart := (aa+bb)/n - 2*(a/n)*(b/n)
	if apart < equal {
		return 0, false
	}
	if kappa := 1 - together/n/apart; math.Abs(kappa) > equal {
		return kappa, true
	}
	return 0, true
}

func meanDifference(pairs []Pair) (float64, bool) {
	sum := 0.0
	for _, p := range pairs {
		sum += math.Abs(p.A - p.B)
	}
	return sum / float64(len(pairs)), len(pairs) > 0
}

// byTask groups pairs by task, sorted by name.
func byTask(pairs []Pair) [][]Pair {
	groups := map[string][]Pair{}
	for _, p := range pairs {
		groups[p.Task] = append(groups[p.Task], p)
	}
	return sortedGroups(groups)
}

// fewTasks is the minimum number of tasks for an interval.
const fewTasks = 5

// estimate returns a statistic and its bootstrap interval, resampling whole tasks; null if it is
// undefined. The result is deterministic.
// Source: B. Efron and R. Tibshirani, An Introduction to the Bootstrap (1993), ch. 13.
func estimate[T any](groups [][]T, of func([]T) (float64, bool)) *Estimate {
	value, ok := of(slices.Concat(groups...))
	if !ok {
		return nil
	}
	e := &Estimate{Value: value}
	if len(groups) < fewTasks {
		return e
	}
	random := rand.New(rand.NewPCG(1, 2))
	var values []float64
	var drawn []T
	for range resamples {
		drawn = drawn[:0]
		for range groups {
			drawn = append(drawn, groups[random.IntN(len(groups))]...)
		}
		if v, ok := of(drawn); ok {
			values = append(values, v)
		}
	}
	if len(values) < resamples*9/10 {
		return e // it is undefined for many draws
	}
	slices.Sort(values)
	if values[len(values)-1]-values[0] < equal {
		return e // draws of the same tell nothing about others
	}
	tail := (1 - Confidence) / 2
	e.Low, e.High = new(quantile(values, tail)), new(quantile(values, 1-tail))
	return e
}

// quantile returns a quantile of sorted values.
func quantile(sorted []float64, p float64) float64 {
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}

// Needed returns the number of independent labels for which an agreement like this has an interval
// of about ten points to each side.
func Needed(agreement float64) int {
	p := min(max(agreement, 0.2), 0.9)
	return int(math.Ceil(1.96*1.96*p*(1-p)/0.01/5)) * 5
}
