package prove

import (
	"path/filepath"
	"slices"
	"strings"

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
	own := len(findings)
	for _, p := range t.Problems {
		f := ofProblem(t, p)
		// Loading warns of Windows line ends itself, and of nothing else in scripts.
		twice := f.Severity == Warning && strings.HasSuffix(f.File, ".sh") &&
			slices.ContainsFunc(findings[:own], func(o Finding) bool { return o.Rule == "crlf" && o.File == f.File })
		if !twice {
			findings = append(findings, f)
		}
	}
	findings = append(findings, ignore(t, findings)...)
	sortFindings(findings)
	return findings
}

func ofProblem(t *task.Task, p diag.Diagnostic) Finding {
	f := Finding{Rule: TaskFormat, Severity: Error, File: below(t, p.File), Line: p.Line, Column: p.Column, Message: p.Message, Hint: p.Hint}
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
