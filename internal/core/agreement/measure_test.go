package agreement

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// table returns pairs whose confusion matrix is counts. Each pair has a different task.
func table(values []float64, counts [][]int) (pairs []Pair) {
	for i, row := range counts {
		for j, n := range row {
			for range n {
				pairs = append(pairs, Pair{Task: fmt.Sprint(len(pairs)), A: values[i], B: values[j]})
			}
		}
	}
	return pairs
}

func near(a, b float64) bool { return math.Abs(a-b) < 0.00006 }

func TestKappaOfPublishedExamples(t *testing.T) {
	two, three := []float64{0, 1}, []float64{0, 0.5, 1}
	for name, test := range map[string]struct {
		values []float64
		counts [][]int
		agree  int
		kappa  float64
	}{
		// Wikipedia, "Cohen's kappa": the simple example, and those with the same agreement and
		// different margins.
		"50 applications":                 {two, [][]int{{15, 10}, {5, 20}}, 35, 0.4},
		"same agreement, similar margins": {two, [][]int{{15, 25}, {15, 45}}, 60, 0.1304},
		"same agreement, unlike margins":  {two, [][]int{{35, 5}, {35, 25}}, 60, 0.2593},
		// Artstein and Poesio, "Inter-Coder Agreement for Computational Linguistics" (2008), table
		// 1, as scikit-learn 1.9.1 tests it.
		"Artstein and Poesio": {two, [][]int{{20, 20}, {10, 50}}, 70, 0.3478},
		// scikit-learn 1.9.1, test_cohen_kappa: 0 46 times, 1 44 times, 2 10 times against 50, 40
		// and 10, with quadratic weights.
		"three ordered choices": {three, [][]int{{46, 0, 0}, {4, 40, 0}, {0, 0, 10}}, 96, 0.9541},
	} {
		t.Run(name, func(t *testing.T) {
			pairs := table(test.values, test.counts)
			before := slices.Clone(pairs)
			a := Measure(pairs, Scale{Kind: Choices, Values: test.values})
			if a.Agree != test.agree || a.Kappa == nil || !near(a.Kappa.Value, test.kappa) {
				t.Errorf("%d agree, kappa %+v", a.Agree, a.Kappa)
			}
			if low, high := *a.Kappa.Low, *a.Kappa.High; low >= test.kappa || high <= test.kappa || low < -1 || high > 1 {
				t.Errorf("the interval of kappa is %g to %g", low, high)
			}
			if !slices.EqualFunc(a.Confusion, test.counts, slices.Equal[[]int]) || a.Weighted != (len(test.values) > 2) {
				t.Errorf("the confusion is %v", a.Confusion)
			}
			if !slices.Equal(before, pairs) {
				t.Error("the pairs have changed")
			}
		})
	}
}

func TestChance(t *testing.T) {
	// Wikipedia, "Cohen's kappa", the simple example: 0.5*0.4 + 0.5*0.6.
	if a := Measure(table([]float64{0, 1}, [][]int{{15, 10}, {5, 20}}), Scale{Kind: Choices, Values: []float64{0, 1}}); !near(*a.Chance, 0.5) {
		t.Errorf("choices: %g", *a.Chance)
	}
	// Of the four pairs of 0.2 and 0.8 with 0.3 and 0.5, one is near.
	if a := Measure([]Pair{{"a", 0.2, 0.3}, {"b", 0.8, 0.5}}, Scale{Kind: Score, Tolerance: 0.1}); !near(*a.Chance, 0.25) || a.Agree != 1 {
		t.Errorf("numbers: %+v", a)
	}
}

func TestRankCorrelationOfPublishedExamples(t *testing.T) {
	// Wikipedia, "Spearman's rank correlation coefficient": IQ and hours of TV, -29/165.
	iq := []float64{106, 100, 86, 101, 99, 103, 97, 113, 112, 110}
	tv := []float64{7, 27, 2, 50, 28, 29, 20, 12, 6, 17}
	if r, ok := spearman(iq, tv); !ok || !near(r, -29.0/165) {
		t.Errorf("the rank correlation is %g, %v", r, ok)
	}
	if got := ranks([]float64{3, 1, 3, 2}); !slices.Equal(got, []float64{3.5, 1, 3.5, 2}) {
		t.Errorf("the ranks are %v", got)
	}
}

func TestNumbersAreComparedByTheirDifference(t *testing.T) {
	var pairs []Pair
	for i := range 10 {
		v := float64(i) / 10
		pairs = append(pairs, Pair{fmt.Sprint(i), v, v + 0.1})
	}
	a := Measure(pairs, Scale{Kind: Score, Tolerance: 0.1})
	// Lin's concordance for a shift by d is var/(var + d²/2): 0.0825/(0.0825+0.005).
	if a.Agree != 10 || !near(a.Difference.Value, 0.1) || !near(a.Rank.Value, 1) || !near(a.Kappa.Value, 0.0825/0.0875) || a.Confusion != nil {
		t.Errorf("%+v, kappa %+v", a, a.Kappa)
	}
	if a := Measure(pairs, Scale{Kind: Score, Tolerance: 0.05}); a.Agree != 0 {
		t.Errorf("with a smaller tolerance %d agree", a.Agree)
	}
}

func TestScoresPassAtTheThreshold(t *testing.T) {
	a := Measure([]Pair{{"a", 0.5, 1}, {"b", 0.49, 0}, {"c", 0.9, 0}}, Scale{Kind: Pass, Values: []float64{0, 1}, Threshold: 0.5})
	if a.Agree != 2 || !slices.EqualFunc(a.Confusion, [][]int{{1, 0}, {1, 1}}, slices.Equal[[]int]) {
		t.Errorf("%+v", a)
	}
}

func TestUndefinedNumbersAreNull(t *testing.T) {
	same := Measure(table([]float64{0, 1}, [][]int{{0, 0}, {0, 20}}), Scale{Kind: Choices, Values: []float64{0, 1}})
	if same.Kappa != nil || same.Agree != 20 || *same.Chance != 1 || *same.Agreement.Low > 0.9 {
		t.Errorf("all labels and verdicts are the same: %+v", same)
	}
	if none := Measure(nil, Scale{Kind: Score}); none.Agreement != nil || none.Kappa != nil || none.Chance != nil {
		t.Errorf("no pairs: %+v", none)
	}
	all := Measure(table([]float64{0, 1}, [][]int{{10, 0}, {0, 10}}), Scale{Kind: Choices, Values: []float64{0, 1}})
	if all.Kappa == nil || all.Kappa.Value != 1 || all.Kappa.Low != nil {
		t.Errorf("full agreement: %+v", all.Kappa)
	}
	if one := Measure(table([]float64{0, 1}, [][]int{{0, 0}, {7, 13}}), Scale{Kind: Choices, Values: []float64{0, 1}}); one.Kappa == nil || one.Kappa.Value != 0 || one.Kappa.Low != nil {
		t.Errorf("a judge that always says yes: %+v", one.Kappa)
	}
	few := Measure(table([]float64{0, 1}, [][]int{{1, 1}, {0, 1}}), Scale{Kind: Choices, Values: []float64{0, 1}})
	if few.Kappa == nil || few.Kappa.Low != nil {
		t.Errorf("three tasks have an interval of kappa: %+v", few.Kappa)
	}
	if one := Measure([]Pair{{"a", 0.1, 0.1}}, Scale{Kind: Score}); one.Rank != nil || one.Kappa != nil {
		t.Errorf("one pair of numbers: %+v", one)
	}
}

func TestTrialsOfATaskAreOneSample(t *testing.T) {
	apart := table([]float64{0, 1}, [][]int{{15, 10}, {5, 20}})
	together := slices.Clone(apart)
	for i := range together {
		together[i].Task = fmt.Sprint(i / 5) // neighbours are alike
	}
	scale := Scale{Kind: Choices, Values: []float64{0, 1}}
	a, b := Measure(apart, scale), Measure(together, scale)
	if *b.Agreement.High-*b.Agreement.Low <= *a.Agreement.High-*a.Agreement.Low || *b.Kappa.High-*b.Kappa.Low <= *a.Kappa.High-*a.Kappa.Low {
		t.Errorf("ten tasks tell as much as fifty: %+v %+v", a.Agreement, b.Agreement)
	}
	if again := Measure(together, scale); *again.Kappa.Low != *b.Kappa.Low {
		t.Error("the interval changes from call to call")
	}
}

func TestLengthBias(t *testing.T) {
	var all []Sized
	for i := range 40 {
		label := float64(i % 2)
		length := float64(i*37%40) + 1
		all = append(all, Sized{Task: fmt.Sprint(i), Score: label, Length: length, Label: &label})
	}
	fair := LengthOf(all)
	if fair.Trials != 40 || fair.Rank == nil || fair.Given != nil { // the label explains the whole score
		t.Errorf("%+v", fair)
	}
	for i := range all {
		all[i].Score = 0.2*all[i].Score + 0.01*all[i].Length
	}
	if biased := LengthOf(all); biased.Given == nil || biased.Given.Value < 0.8 || *biased.Given.Low < 0.5 {
		t.Errorf("%+v", biased.Given)
	}
	for i := range all {
		all[i].Length = 5
	}
	if same := LengthOf(all); same.Rank != nil || same.Given != nil {
		t.Errorf("all have the same length: %+v", same)
	}
}

func TestNeeded(t *testing.T) {
	// 1.96² · 0.8 · 0.2 / 0.1² is 61.5.
	if got := Needed(0.8); got < 61 || got > 70 {
		t.Errorf("%d", got)
	}
	if got := Needed(1); got < 30 {
		t.Errorf("perfect agreement needs %d", got)
	}
}
