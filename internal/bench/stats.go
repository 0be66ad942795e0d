package main

import "slices"

// Stats are the median and the extremes of a series of measurements, in its unit.
type Stats struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	N      int     `json:"n"`
}

// summarize returns the Stats of values, in any order, without changing them. Without values, all fields are 0.
func summarize(values []float64) Stats {
	if len(values) == 0 {
		return Stats{}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return Stats{
		Median: sorted[(n-1)/2]/2 + sorted[n/2]/2,
		Min:    sorted[0],
		Max:    sorted[n-1],
		N:      n,
	}
}

// differences returns a-b pair by pair.
func differences(a, b []float64) []float64 {
	var out []float64
	for i := range min(len(a), len(b)) {
		out = append(out, a[i]-b[i])
	}
	return out
}

// ratios returns a/b pair by pair. It leaves out pairs whose second value is 0 or missing.
func ratios(a, b []float64) []float64 {
	var out []float64
	for i := range min(len(a), len(b)) {
		if b[i] != 0 {
			out = append(out, a[i]/b[i])
		}
	}
	return out
}
