package signflip

import (
	"cmp"
	"math"
	"slices"
)

// Test is one of several tests of the same two jobs.
type Test struct {
	// P is the test's own p-value.
	P float64
	// Drops are how far each task fell, by a numbering of tasks that all tests share; 0 for a task
	// that the test is not about. nil: flipping signs is no test of these drops, because a task has
	// more attempts on one side than on the other.
	Drops []float64
	// Labels are for a baseline of several runs, by the same numbering: how far a task would have
	// fallen if each of the runs were the job's, the job's own first. nil, as a whole or for a
	// task: its drop has either sign. Tests with a task in common have as many labels for it.
	Labels [][]float64
	// Ties is the share of the probability of an equal sum that counts: a half for a mid-p, or 1.
	Ties float64
}

// Adjust corrects p-values for multiple tests: the probability that any of them is significant
// although nothing changed stays at alpha. A p-value is significant if its adjusted one is at most
// alpha. levels has the level that each p was compared with: adjusted is at most alpha exactly if P
// is at most that.
//
// The smallest p-value is compared with the smallest one of each flip of signs, in which a task's
// drops flip in all tests together. So tests that see the same changes cost each other next to
// nothing, and tests of different tasks as much as with Holm's correction. Then the next smallest
// is compared with the smallest of the remaining tests, and so on. As for a single mid-p, half of
// the probability of an equal value counts, if the tests that attain it count half.
//
// With Labels, the run that is the job's is drawn for each task instead of a sign, for all tests
// together.
//
// A test without Drops adds its own p-value to that of the others together, so tests without Drops
// alone get Holm's correction.
//
// With few tasks all flips are tried, with more a random set of them that depends only on seed.
// Below farOut, where few random flips are as extreme, no adjusted p-value is above Holm's.
//
// Sources: P. H. Westfall and S. S. Young, Resampling-Based Multiple Testing (1993), §2.6
// (step-down min-p); Y. Ge, S. Dudoit and T. P. Speed, Test 12 (2003) 1 (p-values of all tests from
// one set of flips); B. Phipson and G. K. Smyth, Stat. Appl. Genet. Mol. Biol. 9 (2010) 39 (the
// observed signs are one of the random flips); S. Holm, Scand. J. Statist. 6 (1979) 65.
func Adjust(tests []Test, alpha float64, seed uint64) (adjusted, levels []float64) {
	order := make([]int, len(tests))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(tests[a].P, tests[b].P) })
	stages := stagesOf(tests, order, alpha, seed)
	adjusted, levels = make([]float64, len(tests)), make([]float64, len(tests))
	worst, level, stopped := 0.0, alpha, false
	for rank, i := range order {
		worst = max(worst, stages[rank].p)
		adjusted[i] = worst
		if !stopped {
			level = stages[rank].level
			stopped = worst > alpha*rounding
		}
		levels[i] = level
		switch p := tests[i].P; { // levels are rounded, and far out they are Holm's
		case !stopped && p > level:
			levels[i] = min(alpha, max(p, math.Ceil(p/alpha*levelSteps)*alpha/levelSteps))
		case stopped && p <= level:
			levels[i] = p * (1 - 1e-6)
		}
	}
	return adjusted, levels
}

const (
	// rounding is how far a p-value may be above alpha, which is given in decimals.
	rounding = 1 + 1e-9
	// farOut is the p-value below which the random flips are too few to be precise.
	farOut = 0.001
	// levelSteps is the number of steps of alpha to which levels are rounded, for readers.
	levelSteps = 50
)

// stage is the comparison of a test with those whose p-values are not smaller.
type stage struct{ p, level float64 }

// stagesOf returns the stages by the rank of their tests in order.
func stagesOf(tests []Test, order []int, alpha float64, seed uint64) []stage {
	drops, ways := compact(tests)
	flipping := 0
	for _, d := range drops {
		if d != nil {
			flipping++
		}
	}
	stages := make([]stage, len(order))
	ref := newLabelling(ways, flipping, seed)
	together, left := minimum{}, 0 // of the tests with drops, and how many are without
	for rank := len(order) - 1; rank >= 0; rank-- {
		t, d := tests[order[rank]], drops[order[rank]]
		p := t.P
		switch {
		case d == nil:
			left++
		case flipping == 1:
			together.only(t.P)
		default:
			ps := pValues(ref.labelled(d), t.Ties)
			p = ps[0]
			together.add(ps, t)
		}
		of := float64(len(order) - rank)
		s := stage{p: min(1, together.p(p)+float64(left)*t.P), level: alpha / of}
		if together.tests == 1 && d != nil {
			s.p = min(1, t.P*(1+float64(left)))
		}
		if together.tests > 1 {
			s.level = max(together.level(alpha, left), 0)
			if steps := math.Floor(s.level / alpha * levelSteps * rounding); steps > 0 {
				s.level = steps * alpha / levelSteps
			}
		}
		if holm := t.P * of; holm < farOut {
			s.p = min(s.p, holm)
		}
		s.p = max(s.p, t.P)
		stages[rank] = s
	}
	return stages
}

// compact returns the tests' labels of the tasks that changed in any of them, and how many labels
// each of these tasks has. A drop without labels has two.
func compact(tests []Test) (labels [][][]float64, ways []int) {
	of := func(t Test, task int) []float64 {
		switch {
		case task < len(t.Labels) && t.Labels[task] != nil:
			return t.Labels[task]
		case task < len(t.Drops) && t.Drops[task] != 0:
			return []float64{t.Drops[task], -t.Drops[task]}
		}
		return nil
	}
	var changed []int
	tasks := 0
	for _, t := range tests {
		tasks = max(tasks, len(t.Drops), len(t.Labels))
	}
	for task := range tasks {
		n := 0
		for _, t := range tests {
			if l := of(t, task); t.Drops != nil && slices.ContainsFunc(l, func(d float64) bool { return d != 0 }) {
				n = max(n, len(l))
			}
		}
		if n > 0 {
			changed, ways = append(changed, task), append(ways, n)
		}
	}
	labels = make([][][]float64, len(tests))
	for i, t := range tests {
		if t.Drops == nil {
			continue
		}
		labels[i] = make([][]float64, len(changed))
		for j, task := range changed {
			if labels[i][j] = of(t, task); len(labels[i][j]) != ways[j] {
				labels[i][j] = make([]float64, ways[j])
			}
		}
	}
	return labels, ways
}

// minimum holds the smallest p-value of several tests, for each flip.
type minimum struct {
	tests int
	ps    []float64
	ties  []float64 // Test.Ties of the test that attains it
	alone float64   // the p-value of the only test, whose distribution is not needed
}

// only makes p that of the only test.
func (m *minimum) only(p float64) { m.tests, m.alone = 1, p }

// add adds a test with its p-value in each flip.
func (m *minimum) add(ps []float64, t Test) {
	m.tests++
	m.alone = t.P
	if m.ps == nil {
		m.ps, m.ties = ps, slices.Repeat([]float64{t.Ties}, len(ps))
		return
	}
	for i, p := range ps {
		switch {
		case p < m.ps[i]:
			m.ps[i], m.ties[i] = p, t.Ties
		case p == m.ps[i]:
			m.ties[i] = max(m.ties[i], t.Ties)
		}
	}
}

// p returns the probability that the smallest p-value is below p, and the part of the probability
// of p itself that counts.
func (m *minimum) p(p float64) float64 {
	switch m.tests {
	case 0:
		return 0
	case 1:
		return p
	}
	count := 0.0
	for i, least := range m.ps {
		switch {
		case least < p:
			count++
		case least == p:
			count += m.ties[i]
		}
	}
	return count / float64(len(m.ps))
}

// level returns the largest p-value at which p, and so many more tests with that p-value, are at
// most alpha together.
func (m *minimum) level(alpha float64, more int) float64 {
	type small struct{ p, ties float64 }
	var smalls []small
	for i, p := range m.ps {
		if p <= alpha {
			smalls = append(smalls, small{p, m.ties[i]})
		}
	}
	slices.SortFunc(smalls, func(a, b small) int { return cmp.Compare(a.p, b.p) })
	all, others := float64(len(m.ps)), float64(more)
	if len(smalls) == 0 { // these tasks cannot show anything: other tasks might need Holm's level
		return alpha / (others + float64(m.tests))
	}
	below, level := 0.0, 0.0
	for start := 0; ; {
		if start == len(smalls) {
			return min(alpha, (alpha-below)/max(others, 1e-9))
		}
		next := smalls[start].p
		if most := (alpha - below) / max(others, 1e-9); most < next {
			return max(level, most)
		}
		end, here, counted := start, 0.0, 0.0
		for ; end < len(smalls) && smalls[end].p == next; end++ {
			here += 1 / all
			counted += smalls[end].ties / all
		}
		if below+counted+others*next > alpha*rounding {
			return max(level, math.Nextafter(next, 0))
		}
		below, level, start = below+here, next, end
		if below+others*next > alpha*rounding {
			return level
		}
	}
}
