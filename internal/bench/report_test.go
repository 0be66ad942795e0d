package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestTargetAppliesToTheMedian(t *testing.T) {
	ours, floor := series{"ours", []float64{11, 12, 50}}, series{"floor", []float64{10, 10, 10}}
	for name, c := range map[string]struct {
		ours, floor series
		target      Target
		met         bool
	}{
		"a ratio at its bound is met":                  {ours, floor, atMost("ratio", 1.2), true},
		"a ratio above its bound is missed":            {ours, floor, atMost("ratio", 1.19), false},
		"a ratio may be bounded from below":            {ours, floor, atLeast("ratio", 1.21), false},
		"a bound on ours ignores the floor":            {ours, floor, atMost("ours", 12), true},
		"a bound on ours needs no floor":               {ours, series{}, atMost("ours", 12), true},
		"without measurements nothing is met":          {series{}, series{}, atMost("ours", 1), false},
		"ratios go pair by pair, not median by median": {series{"", []float64{1, 9, 2}}, series{"", []float64{1, 3, 9}}, atMost("ratio", 1), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newResult("x", "ms", c.ours, c.floor, c.target); got.Met != c.met {
				t.Errorf("met is %v: %+v", got.Met, got)
			}
		})
	}
}

func TestReport(t *testing.T) {
	report := newReport(3, "img", time.Unix(0, 0))
	report.Results = append(report.Results,
		newResult("a.b", "ms", series{"ours", []float64{1234, 1300, 1}}, series{"floor", []float64{1000, 1000, 1}}, atMost("ratio", 1.15)),
		newResult("c.d", "MB", series{"ours", []float64{4.25}}, series{}, atMost("ours", 45)))
	if !report.missed() {
		t.Error("the missed target was not reported")
	}
	var table bytes.Buffer
	if err := report.writeTable(&table); err != nil {
		t.Fatal(err)
	}
	want := `MEASURED  UNIT  OURS           FLOOR          RATIO         PAIRS  TARGET        VERDICT
a.b       ms    1234 (1–1300)  1000 (1–1000)  1.23 (1–1.3)  3      ratio ≤ 1.15  target missed
c.d       MB    4.25           –              –             1      ours ≤ 45     target met
`
	if got := table.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var text bytes.Buffer
	if err := report.writeJSON(&text); err != nil {
		t.Fatal(err)
	}
	var again struct {
		Results []struct {
			Name string
			Ours struct {
				What   string
				Median float64
			}
			Floor *struct{ Max float64 }
			Met   bool `json:"target_met"`
		}
	}
	if err := json.Unmarshal(text.Bytes(), &again); err != nil {
		t.Fatal(err)
	}
	if r := again.Results; len(r) != 2 || r[0].Ours.Median != 1234 || r[0].Floor.Max != 1000 || r[1].Floor != nil || !r[1].Met {
		t.Errorf("the JSON has %+v:\n%s", again, &text)
	}
}

func TestUnmeasuredTargetsAreMissed(t *testing.T) {
	report := newReport(3, "img", time.Now())
	if report.missed() {
		t.Error("an empty report misses targets")
	}
	report.Missing = append(report.Missing, "docker: no engine")
	var table bytes.Buffer
	if err := report.writeTable(&table); err != nil || !strings.Contains(table.String(), "not measured: docker: no engine") || !report.missed() {
		t.Errorf("missed is %v, %v:\n%s", report.missed(), err, &table)
	}
}
