package main

import (
	"math"
	"slices"
	"testing"
)

func TestSummarize(t *testing.T) {
	for name, c := range map[string]struct {
		values []float64
		want   stats
	}{
		"no values are all zero":                         {nil, stats{}},
		"one value is middle and ends":                   {[]float64{3}, stats{3, 3, 3, 1}},
		"an odd number has one in the middle":            {[]float64{9, 1, 2}, stats{2, 1, 9, 3}},
		"an even number has the mean of the two inside":  {[]float64{4, 1, 10, 2}, stats{3, 1, 10, 4}},
		"large values do not overflow in the mean":       {[]float64{math.MaxFloat64, math.MaxFloat64}, stats{math.MaxFloat64, math.MaxFloat64, math.MaxFloat64, 2}},
		"one wild value moves an end and not the middle": {[]float64{1, 1, 1, 1, 1000}, stats{1, 1, 1000, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(c.values)
			if got := summarize(c.values); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if !slices.Equal(before, c.values) {
				t.Errorf("the values were changed to %v", c.values)
			}
		})
	}
}

func TestPairwise(t *testing.T) {
	ratio := func(a, b float64) float64 { return a / b }
	for name, c := range map[string]struct{ a, b, want []float64 }{
		"values are divided pair by pair":           {[]float64{2, 9}, []float64{1, 3}, []float64{2, 3}},
		"what has no partner is left out":           {[]float64{2, 9, 5}, []float64{1, 3}, []float64{2, 3}},
		"a pair that cannot be divided is left out": {[]float64{2, 9}, []float64{0, 3}, []float64{3}},
		"nothing has no ratios":                     {nil, []float64{1}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pairwise(c.a, c.b, ratio); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestTargetOfADifference(t *testing.T) {
	ours, floor := []float64{10, 20, 90}, []float64{7, 16, 20}
	for bound, want := range map[float64]bool{3.9: false, 4: true} {
		if r := newRow(measurement{target: atMost("difference", bound)}, ours, floor); r.met != want {
			t.Errorf("a median difference of 4 is at most %g: %v", bound, r.met)
		}
	}
}
