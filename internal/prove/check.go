package prove

import (
	"path/filepath"
	"slices"

	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/task"
)

// Proof is what is known about one task. Findings are sorted: errors first, then by place.
type Proof struct {
	Dataset  string
	Task     string
	Dir      string // its folder, as people would type it
	Path     string // its folder from the top of its repository, with forward slashes; "" outside git
	Verdict  Verdict
	Runs     Runs
	Findings []Finding
}

// Passed tells whether the task is proven and no finding counts against it.
func (p Proof) Passed() bool { return p.Verdict == Proven }

// Check is what is to be said about a task after its runs: the verdict, and the findings, sorted. It reads the task's files,
// a bounded part of each.
func Check(t *task.Task, runs Runs) (Verdict, []Finding) {
	if t.Missing || t.Err() != nil {
		return Broken, withProblems(t, nil)
	}
	findings := withProblems(t, fromRuns(t, runs))
	verdict := judge(t, runs)
	if verdict == Proven && slices.ContainsFunc(findings, Finding.Counts) {
		verdict = Flawed
	}
	return verdict, findings
}

// withProblems is findings and what loading the task has found, sorted.
func withProblems(t *task.Task, findings []Finding) []Finding {
	if t.Missing {
		findings = append(findings, Finding{Rule: "task-format", Severity: Error, Message: "there is no such task", Hint: "correct the path, or remove it"})
	}
	for _, p := range t.Problems {
		findings = append(findings, ofProblem(t, p))
	}
	sortFindings(findings)
	return findings
}

func ofProblem(t *task.Task, p diag.Diagnostic) Finding {
	f := Finding{Rule: "task-format", Severity: Error, File: below(t, p.File), Line: p.Line, Message: p.Message, Hint: p.Hint}
	if p.Severity == diag.Warning {
		f.Severity = Warning
	}
	return f
}

// below is a file's name below the task's folder; "" for the folder itself and what is not in it.
func below(t *task.Task, file string) string {
	abs, err := filepath.Abs(file)
	if err != nil {
		return ""
	}
	name, err := filepath.Rel(t.Dir, abs)
	if err != nil || name == "." || !filepath.IsLocal(name) {
		return ""
	}
	return filepath.ToSlash(name)
}
