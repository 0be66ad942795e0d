package prove

import (
	"slices"

	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/task"
)

// Proof is what is known about one task. Findings are sorted: errors first, then by place.
type Proof struct {
	Dataset  string
	Task     string
	Dir      string // its folder, as people would type it; of a task with an Origin what task.Task.File says
	Path     string // its folder from the top of its repository, with forward slashes; "" outside git
	Fetched  bool   // it was taken out of a commit, so that Dir is no path
	Verdict  Verdict
	Runs     Runs
	Findings []Finding
}

// Passed tells whether the task is proven and no finding counts against it.
func (p Proof) Passed() bool { return p.Verdict == Proven }

// Place is where a finding is, as path:line:column: seen from dir, which is Dir or Path.
func (p Proof) Place(f Finding, dir string) string {
	switch {
	case p.Fetched && f.File != "":
		return f.at(p.Dir + ": " + f.File)
	case p.Fetched:
		return f.at(p.Dir)
	}
	return f.Place(dir)
}

// Check is what is to be said about a task after its runs: the verdict, and the findings, sorted. It reads the task's files,
// a bounded part of each.
func Check(t *task.Task, runs Runs) (Verdict, []Finding) {
	if t.Missing || t.Err() != nil {
		return Broken, Lint(t)
	}
	files := lint(t)
	if worksOffline(runs) { // a run knows better than a look at the script
		files = slices.DeleteFunc(files, func(f Finding) bool { return f.Rule == "verifier-network" })
	}
	findings := complete(t, append(files, fromRuns(t, runs)...))
	verdict := judge(t, runs)
	if verdict == Proven && slices.ContainsFunc(findings, Finding.Counts) {
		verdict = Flawed
	}
	return verdict, findings
}

// Lint is what is to be said about a task that was not run, sorted: what its files tell, and what loading it has found.
func Lint(t *task.Task) []Finding {
	if t.Missing {
		return []Finding{{Rule: TaskFormat, Severity: Error, Message: "there is no such task", Hint: "correct the path, or remove it"}}
	}
	return complete(t, lint(t))
}

// complete adds to findings what loading the task has found, marks those that the task excuses, and sorts.
func complete(t *task.Task, findings []Finding) []Finding {
	for _, p := range t.Problems {
		findings = append(findings, ofProblem(t, p))
	}
	findings = append(findings, ignore(t, findings)...)
	sortFindings(findings)
	return findings
}

func ofProblem(t *task.Task, p diag.Diagnostic) Finding {
	f := Finding{Rule: TaskFormat, Severity: Error, File: t.Below(p.File), Line: p.Line, Column: p.Column, Message: p.Message, Hint: p.Hint}
	if p.Severity == diag.Warning {
		f.Severity = Warning
	}
	return f
}
