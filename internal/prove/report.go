package prove

import (
	"fmt"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/result"
)

// Report is what is known about all tasks of a dataset. Texts may come from outside.
type Report struct {
	Proofs []Proof  // in the order of the datasets, by task
	Dir    string   // the folder of the job whose trials are the evidence; "" if nothing was run
	Notes  []string // sentences for people
	// Cancelled: runs are missing because somebody wanted it so.
	Cancelled bool
	StartedAt time.Time
}

// Outcome is what a report comes to.
type Outcome string

// The outcomes.
const (
	Passed     Outcome = "passed"     // all tasks are proven
	Failed     Outcome = "failed"     // a task is not, by its own fault
	Incomplete Outcome = "incomplete" // no task is at fault, but the infrastructure failed some
	Stopped    Outcome = "cancelled"
)

// Outcome puts what is certain first: a task at fault. After a cancel nothing is.
func (r Report) Outcome() Outcome {
	out := Passed
	for _, p := range r.Proofs {
		switch {
		case p.Verdict == Unknown && out == Passed:
			out = Incomplete
		case !p.Passed() && p.Verdict != Unknown:
			out = Failed
		}
	}
	if r.Cancelled {
		out = Stopped
	}
	return out
}

// Counts are how many tasks came to each verdict. Every verdict has an entry.
func (r Report) Counts() map[Verdict]int {
	counts := map[Verdict]int{}
	for _, v := range Verdicts {
		counts[v] = 0
	}
	for _, p := range r.Proofs {
		counts[p.Verdict]++
	}
	return counts
}

// Headline is what the dataset came to in one line, without text from outside.
func (r Report) Headline() string {
	counts := r.Counts()
	parts := []string{fmt.Sprintf("%d of %d proven", counts[Proven], len(r.Proofs))}
	for _, v := range Verdicts {
		if n := counts[v]; n > 0 && v != Proven {
			parts = append(parts, fmt.Sprintf("%d %s", n, v.Words()))
		}
	}
	text := strings.Join(parts, ", ")
	errors, warnings, ignored := 0, 0, 0
	for _, p := range r.Proofs {
		for _, f := range p.Findings {
			switch {
			case f.Ignored != "":
				ignored++
			case f.Severity == Error:
				errors++
			default:
				warnings++
			}
		}
	}
	var findings []string
	for _, c := range []struct {
		n    int
		what string
	}{{errors, "error"}, {warnings, "warning"}} {
		switch {
		case c.n == 1:
			findings = append(findings, "1 "+c.what)
		case c.n > 1:
			findings = append(findings, fmt.Sprintf("%d %ss", c.n, c.what))
		}
	}
	if ignored > 0 {
		findings = append(findings, fmt.Sprintf("%d ignored", ignored))
	}
	if len(findings) > 0 {
		text += "; found: " + strings.Join(findings, ", ")
	}
	return text
}

// Words is a verdict for people.
func (v Verdict) Words() string { return strings.ReplaceAll(string(v), "_", " ") }

// Seconds is how long all runs of a task took together.
func (p Proof) Seconds() float64 {
	sum := 0.0
	for _, group := range [][]result.Trial{p.Runs.Oracle, p.Runs.Nop} {
		for _, t := range group {
			sum += t.Durations.TotalSec
		}
	}
	return sum
}
