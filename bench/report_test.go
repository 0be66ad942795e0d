package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestTargetAppliesToTheMedian(t *testing.T) {
	ours, floor := []float64{11, 12, 50}, []float64{10, 10, 10}
	for name, c := range map[string]struct {
		values [][]float64
		target target
		met    bool
	}{
		"a ratio at its bound is met":                  {[][]float64{ours, floor}, atMost("ratio", 1.2), true},
		"a ratio above its bound is missed":            {[][]float64{ours, floor}, atMost("ratio", 1.19), false},
		"a ratio may be bounded from below":            {[][]float64{ours, floor}, atLeast("ratio", 1.21), false},
		"a bound on ours ignores the floor":            {[][]float64{ours, floor}, atMost("ours", 12), true},
		"a bound on ours needs no floor":               {[][]float64{ours}, atMost("ours", 12), true},
		"without measurements nothing is met":          {[][]float64{nil}, atMost("ours", 1), false},
		"ratios go pair by pair, not median by median": {[][]float64{{1, 9, 2}, {1, 3, 9}}, atMost("ratio", 1), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newRow(measurement{target: c.target}, c.values...); got.met != c.met {
				t.Errorf("met is %v: %+v", got.met, got)
			}
		})
	}
}

func TestReport(t *testing.T) {
	var r report
	r.results = append(r.results,
		newRow(measurement{name: "a.b", unit: "ms", what: "ours", floorIs: "bare", target: atMost("ratio", 1.15)}, []float64{1234, 1300, 1}, []float64{1000, 1000, 1}),
		newRow(measurement{name: "c.d", unit: "MB", what: "size", target: atMost("ours", 45)}, []float64{4.25}))
	if !r.missed() {
		t.Error("the missed target was not reported")
	}
	var table bytes.Buffer
	if err := r.write(&table); err != nil {
		t.Fatal(err)
	}
	want := `MEASURED  UNIT  OURS           FLOOR          RATIO         PAIRS  TARGET        VERDICT        WHAT
a.b       ms    1234 (1–1300)  1000 (1–1000)  1.23 (1–1.3)  3      ratio ≤ 1.15  target missed  ours; floor: bare
c.d       MB    4.25           –              –             1      ours ≤ 45     target met     size
`
	if got := table.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestUnmeasuredTargetsAreMissed(t *testing.T) {
	var r report
	if r.missed() {
		t.Error("an empty report misses targets")
	}
	r.missing = append(r.missing, "docker: no engine")
	var table bytes.Buffer
	if err := r.write(&table); err != nil || !strings.Contains(table.String(), "not measured: docker: no engine") || !r.missed() {
		t.Errorf("missed is %v, %v:\n%s", r.missed(), err, &table)
	}
}
