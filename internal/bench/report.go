package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"text/tabwriter"
	"time"
)

// Report is the output of --json.
type Report struct {
	StartedAt time.Time `json:"started_at"`
	Machine   Machine   `json:"machine"`
	Rounds    int       `json:"rounds"` // --rounds
	Image     string    `json:"image"`  // --image
	Results   []Result  `json:"results"`
	// Missing lists the parts that could not be measured, with the reason.
	Missing []string `json:"missing"`
}

// Machine is the machine that made the report.
type Machine struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
}

// Result is one measurement and its floor.
type Result struct {
	Name  string `json:"name"` // e.g. docker.sequential
	Unit  string `json:"unit"` // of ours and floor: ms, MB or trials/s
	Ours  Side   `json:"ours"`
	Floor *Side  `json:"floor"` // null if there is nothing to compare with
	Ratio *Stats `json:"ratio"` // ours / floor, pair by pair; null without a floor
	// Target is the bound for the median of Of; Met says whether it holds.
	Target Target `json:"target"`
	Met    bool   `json:"target_met"`
}

// Side is one of the two sides of a comparison.
type Side struct {
	What string `json:"what"`
	Stats
}

// Target is a bound on a median, at most or at least.
type Target struct {
	Of      string   `json:"of"` // ours, ratio, or difference: ours - floor, pair by pair
	AtMost  *float64 `json:"at_most,omitempty"`
	AtLeast *float64 `json:"at_least,omitempty"`
}

func atMost(of string, bound float64) Target { return Target{Of: of, AtMost: &bound} }

func atLeast(of string, bound float64) Target { return Target{Of: of, AtLeast: &bound} }

// holds reports whether a value meets the target.
func (t Target) holds(value float64) bool {
	return (t.AtMost == nil || value <= *t.AtMost) && (t.AtLeast == nil || value >= *t.AtLeast)
}

func (t Target) String() string {
	if t.AtMost != nil {
		return fmt.Sprintf("%s ≤ %g", t.Of, *t.AtMost)
	}
	return fmt.Sprintf("%s ≥ %g", t.Of, *t.AtLeast)
}

// series is one side's measurements, before they are summarised.
type series struct {
	what   string
	values []float64
}

func (s series) side() Side { return Side{What: s.what, Stats: summarize(s.values)} }

// newResult compares two series; a floor without values means that there is none.
func newResult(name, unit string, ours, floor series, target Target) Result {
	r := Result{Name: name, Unit: unit, Ours: ours.side(), Target: target}
	judged := r.Ours.Stats
	if len(floor.values) > 0 {
		side, pairs := floor.side(), summarize(ratios(ours.values, floor.values))
		r.Floor, r.Ratio = &side, &pairs
		switch target.Of {
		case "ratio":
			judged = pairs
		case "difference":
			judged = summarize(differences(ours.values, floor.values))
		}
	}
	r.Met = judged.N > 0 && target.holds(judged.Median)
	return r
}

// missed reports whether any target was missed or could not be measured.
func (r Report) missed() bool {
	for _, result := range r.Results {
		if !result.Met {
			return true
		}
	}
	return len(r.Missing) > 0
}

func newReport(rounds int, image string, now time.Time) Report {
	return Report{
		StartedAt: now.UTC().Truncate(time.Second),
		Machine:   Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()},
		Rounds:    rounds,
		Image:     image,
		Results:   []Result{},
		Missing:   []string{},
	}
}

func (r Report) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// writeTable prints the report for users: medians with the lowest and highest values.
func (r Report) writeTable(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MEASURED\tUNIT\tOURS\tFLOOR\tRATIO\tPAIRS\tTARGET\tVERDICT")
	for _, res := range r.Results {
		floor, ratio := "–", "–"
		if res.Floor != nil {
			floor, ratio = res.Floor.String(), res.Ratio.String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n",
			res.Name, res.Unit, res.Ours.Stats, floor, ratio, res.Ours.N, res.Target, verdict(res.Met))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, reason := range r.Missing {
		fmt.Fprintf(out, "not measured: %s\n", reason)
	}
	return nil
}

func verdict(met bool) string {
	if met {
		return "target met"
	}
	return "target missed"
}

func (s Stats) String() string {
	if s.N == 1 {
		return short(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", short(s.Median), short(s.Min), short(s.Max))
}

// short formats a number with three significant digits, and all digits before the point.
func short(f float64) string {
	if math.Abs(f) >= 100 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.3g", f)
}
