package prove

import (
	"cmp"
	"slices"

	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/diag"
)

// TaskReport holds the verdict and the findings of one task. Findings are sorted: errors first,
// then by place.
type TaskReport struct {
	Dataset  string
	Task     string
	Dir      string // the task's directory, as a user would type it; for a task with an Origin as task.Task.File returns it
	Path     string // the task's directory from the top of its repository, with forward slashes; "" outside git
	Fetched  bool   // the task comes from a commit, so that Dir is no path
	Verdict  Verdict
	Runs     Runs
	Findings []Finding
}

// Passed reports whether the task is proven and no finding counts against it.
func (p TaskReport) Passed() bool { return p.Verdict == Proven }

// Place returns where a finding is, as path:line:column, seen from dir, which is Dir or Path.
func (p TaskReport) Place(f Finding, dir string) string {
	switch {
	case p.Fetched && f.File != "":
		return f.at(p.Dir + ": " + f.File)
	case p.Fetched:
		return f.at(p.Dir)
	}
	return f.Place(dir)
}

// PlaceInRepository returns where a finding is, seen from the root of the task's repository;
// outside git, as a user would type it.
func (p TaskReport) PlaceInRepository(f Finding) string { return p.Place(f, cmp.Or(p.Path, p.Dir)) }

// Check returns the verdict on a task after its runs, and the findings, sorted. It reads a bounded
// part of each of the task's files.
func Check(t *task.Task, runs Runs) (Verdict, []Finding) {
	if t.Missing || t.Err() != nil {
		return Broken, Lint(t)
	}
	files := lint(t)
	if worksOffline(runs) { // a run is better evidence than the script
		files = slices.DeleteFunc(files, func(f Finding) bool { return f.Rule == ruleVerifierNetwork })
	}
	findings := addProblems(t, append(files, fromRuns(t, runs)...))
	verdict := verdictOf(t, runs)
	if verdict == Proven && slices.ContainsFunc(findings, Finding.Counts) {
		verdict = Flawed
	}
	return verdict, findings
}

// CheckRuns is like Check, but does not read the task's files.
func CheckRuns(t *task.Task, runs Runs) (Verdict, []Finding) {
	findings := addProblems(t, fromRuns(t, runs))
	if t.Missing || t.Err() != nil {
		return Broken, findings
	}
	return verdictOf(t, runs), findings
}

// Lint returns the findings of a task that was not run, sorted: those in its files, and those of
// loading it.
func Lint(t *task.Task) []Finding {
	if t.Missing {
		return []Finding{{Rule: TaskFormat, Severity: Error, Message: "there is no such task: a run would start the others, and its trials would end with task_not_found", Hint: "correct the path, or remove it"}}
	}
	return addProblems(t, lint(t))
}

// addProblems returns findings with the problems of loading the task, marks those that the task
// ignores, and sorts them.
func addProblems(t *task.Task, findings []Finding) []Finding {
	for _, p := range t.Problems {
		findings = append(findings, fromProblem(t, p))
	}
	findings = append(findings, applyIgnores(t, findings)...)
	sortFindings(findings)
	return findings
}

func fromProblem(t *task.Task, p diag.Diagnostic) Finding {
	f := Finding{Rule: TaskFormat, Severity: Error, File: t.Below(p.File), Line: p.Line, Column: p.Column, Message: p.Message, Hint: p.Hint}
	if p.Severity == diag.Warning {
		f.Severity = Warning
	}
	return f
}
