package prove

import (
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
)

// Report holds the verdicts and findings of all tasks of a run. Its texts may come from outside.
type Report struct {
	Tasks []TaskReport // in the order of the datasets, by task
	Dir   string       // the directory of the job whose trials are the evidence; "" if nothing was run
	Files fs.FS        // that directory, for the logs that explain findings; nil: none
	Notes []string     // sentences to show to users
	// Cancelled reports whether runs are missing because of a cancel.
	Cancelled bool
	StartedAt time.Time
}

// Outcome is the overall result of a report.
type Outcome string

// The outcomes.
const (
	Passed     Outcome = "passed"     // all tasks are proven
	Failed     Outcome = "failed"     // a task is at fault
	Incomplete Outcome = "incomplete" // no task is at fault, but the infrastructure failed some
	Stopped    Outcome = "cancelled"
)

// Outcome returns the overall result. A task at fault outweighs failures of the infrastructure, and
// a cancel everything.
func (r Report) Outcome() Outcome {
	out := Passed
	for _, p := range r.Tasks {
		switch {
		case p.Verdict.NothingKnown() && out == Passed:
			out = Incomplete
		case !p.Passed() && !p.Verdict.NothingKnown():
			out = Failed
		}
	}
	if r.Cancelled {
		out = Stopped
	}
	return out
}

// Counts returns the number of tasks with each verdict. Every verdict has an entry.
func (r Report) Counts() map[Verdict]int {
	counts := map[Verdict]int{}
	for _, v := range Verdicts {
		counts[v] = 0
	}
	for _, p := range r.Tasks {
		counts[p.Verdict]++
	}
	return counts
}

// Headline returns the numbers of verdicts and findings in one line. It has no text from outside.
func (r Report) Headline() string {
	counts := r.Counts()
	parts := []string{fmt.Sprintf("%d of %d proven", counts[Proven], len(r.Tasks))}
	for _, v := range Verdicts {
		if n := counts[v]; n > 0 && v != Proven {
			part := fmt.Sprintf("%d %s", n, v.Words())
			if v == NotRun {
				part += " because of the interruption"
			}
			parts = append(parts, part)
		}
	}
	text := strings.Join(parts, ", ")
	errors, warnings, ignored := 0, 0, 0
	for _, p := range r.Tasks {
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
		if c.n > 0 {
			findings = append(findings, plural.Count(c.n, c.what))
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

// NothingKnown reports whether the runs say nothing about the task.
func (v Verdict) NothingKnown() bool { return v == Unknown || v == NotRun }

// Words returns the verdict in words, such as "no solution".
func (v Verdict) Words() string { return strings.ReplaceAll(string(v), "_", " ") }

// Seconds returns the total time of all runs of the task.
func (p TaskReport) Seconds() float64 {
	sum := 0.0
	for _, group := range [][]result.Trial{p.Runs.Oracle, p.Runs.Nop} {
		for _, t := range group {
			sum += t.Durations.TotalSec
		}
	}
	return sum
}
