package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// report holds the measurements.
type report struct {
	results []row
	missing []string // what could not be measured, with the reason
}

// row is a measurement and its values.
type row struct {
	measurement
	ours  stats
	floor *stats // nil if there is none
	ratio stats  // ours / floor, pair by pair
	met   bool   // whether the median meets the target
}

// target is a bound on the median of ours, of the ratio, or of the difference ours - floor, pair by
// pair.
type target struct {
	of      string
	bound   float64
	atLeast bool // the bound is the smallest value; otherwise it is the largest
}

func atMost(of string, bound float64) target { return target{of, bound, false} }

func atLeast(of string, bound float64) target { return target{of, bound, true} }

func (t target) String() string {
	return fmt.Sprintf("%s %s %g", t.of, map[bool]string{true: "≥", false: "≤"}[t.atLeast], t.bound)
}

// newRow returns the row of a measurement from its values and, if it has a floor, those of the
// floor.
func newRow(m measurement, values ...[]float64) row {
	r := row{measurement: m, ours: summarize(values[0])}
	found := map[string]stats{"ours": r.ours}
	if len(values) > 1 {
		floor := summarize(values[1])
		r.floor, r.ratio = &floor, summarize(pairwise(values[0], values[1], func(a, b float64) float64 { return a / b }))
		found["ratio"] = r.ratio
		found["difference"] = summarize(pairwise(values[0], values[1], func(a, b float64) float64 { return a - b }))
	}
	compared := found[m.target.of]
	r.met = compared.n > 0 && (compared.median == m.target.bound || (compared.median > m.target.bound) == m.target.atLeast)
	return r
}

// missed reports whether any target was missed or could not be measured.
func (r report) missed() bool {
	return len(r.missing) > 0 || slices.ContainsFunc(r.results, func(one row) bool { return !one.met })
}

// write prints the medians, with the lowest and highest values.
func (r report) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MEASURED\tUNIT\tOURS\tFLOOR\tRATIO\tPAIRS\tTARGET\tVERDICT\tWHAT")
	for _, res := range r.results {
		floor, ratio, verdict, what := "–", "–", map[bool]string{true: "target met", false: "target missed"}[res.met], res.what
		if res.floor != nil {
			floor, ratio, what = res.floor.String(), res.ratio.String(), what+"; floor: "+res.floorIs
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", res.name, res.unit, res.ours, floor, ratio, res.ours.n, res.target, verdict, what)
	}
	err := w.Flush()
	for _, reason := range r.missing {
		fmt.Fprintf(out, "not measured: %s\n", reason)
	}
	return err
}

// stats holds the median and the extremes of a series of measurements, in its unit.
type stats struct {
	median, min, max float64
	n                int
}

// summarize returns the stats of values, in any order, without changing them. Without values, all
// fields are 0.
func summarize(values []float64) stats {
	if len(values) == 0 {
		return stats{}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return stats{median: sorted[(n-1)/2]/2 + sorted[n/2]/2, min: sorted[0], max: sorted[n-1], n: n}
}

func (s stats) String() string {
	if s.n == 1 {
		return short(s.median)
	}
	return fmt.Sprintf("%s (%s–%s)", short(s.median), short(s.min), short(s.max))
}

// short formats a number with three significant digits, and all digits before the point.
func short(f float64) string {
	if math.Abs(f) >= 100 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.3g", f)
}

// pairwise returns f of each pair of values. It leaves out pairs for which f is not a finite
// number.
func pairwise(a, b []float64, f func(a, b float64) float64) []float64 {
	var out []float64
	for i := range min(len(a), len(b)) {
		if v := f(a[i], b[i]); !math.IsInf(v, 0) && !math.IsNaN(v) {
			out = append(out, v)
		}
	}
	return out
}
