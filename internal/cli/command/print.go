package command

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/term"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/output/summary"
	"github.com/org/rollout-action/internal/output/ui"
)

// Conclude prints a finished job, and returns the command's outcome. finished and err are what the
// use case returned; print is how to print, nil: the summary.
func (v *Invocation) Conclude(finished *host.Finished, err error, print func(report.Input) error) error {
	if finished == nil {
		return err
	}
	if print == nil {
		v.show(finished)
	} else {
		if printed := print(finished.Input); !v.ClosedStdout(printed) { // the exit code is still the job's
			err = errors.Join(err, printed)
		}
		v.printResume(finished)
	}
	if err != nil {
		return err
	}
	switch finished.Outcome {
	case host.Passed:
		return nil
	case host.Stopped:
		return &Failure{Code: ExitCancelled}
	}
	return &Failure{Code: ExitGate}
}

// show prints the summary of a finished job and how to resume it, once. It is host.Host.Finished.
func (v *Invocation) show(finished *host.Finished) {
	if v.printed == finished {
		return
	}
	v.printed = finished
	v.printSummary(finished)
	v.printResume(finished)
}

// printResume says how to resume a job that was just cancelled.
func (v *Invocation) printResume(finished *host.Finished) {
	if finished.ResumeWith != "" {
		fmt.Fprintf(v.Stderr, "Resume it with: %s\n", finished.ResumeWith)
	}
}

// printSummary shows people on stdout what the reports say.
func (e Env) printSummary(f *host.Finished) {
	in := f.Input
	color, width := e.StdoutStyle()
	summary.Write(e.Stdout, summary.Input{
		Job: in.Job, Groups: in.Groups, Trials: in.Trials, Dir: in.Dir, Files: in.Files, Tasks: report.PassedTasks(report.Cases(in)), Resume: f.Resume, Versus: in.ComparedPairs(report.MaxPairs),
		Missing: f.NoResult && in.Job.SkippedTrials > 0, Running: f.Running, Partial: len(f.Incomplete) > 0 && in.Job.SkippedTrials > 0,
	}, color, width)
	verdict := summary.VerdictInput{Diff: in.Diff, Incomplete: f.Incomplete, Notes: in.Notes, Missing: len(in.Incomplete) > 0, Cancelled: f.Outcome == host.Stopped}
	if f.Compared {
		verdict.Baseline = in.Baseline
	}
	if f.Judged {
		verdict.Verdict = in.Verdict
	}
	summary.WriteVerdict(e.Stdout, verdict, color, width)
}

// PrintJSON prints a value on stdout, as results are written.
func (e Env) PrintJSON(value any) error {
	text, err := result.Marshal(value)
	if err != nil {
		return err
	}
	_, err = e.Stdout.Write(text)
	return err
}

// StdoutIsTerminal reports whether stdout is a terminal.
func (e Env) StdoutIsTerminal() bool {
	file, ok := e.Stdout.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// unwrapped is the width of text for a file or another program, in columns. Editors wrap it, and
// programs search it by line.
const unwrapped = 1 << 20

// StdoutStyle returns how to print on stdout: with colours only on a terminal that wants them.
func (e Env) StdoutStyle() (color bool, width int) {
	file, ok := e.Stdout.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return false, unwrapped
	}
	_, color, err := ui.DetectMode(file, "auto", e.Variable)
	cols, _, sizeErr := term.GetSize(int(file.Fd()))
	if sizeErr != nil || cols <= 0 {
		cols = 80
	}
	return color && err == nil, cols
}

// Shown returns the path of a user's file for messages: from the current directory, if the file is
// below it.
func (v *Invocation) Shown(file string) string { return v.Host().Shown(file) }

// PrintWarnings prints the warnings among problems on stderr.
func (v *Invocation) PrintWarnings(problems diag.List) {
	for _, p := range problems.Warnings() {
		p.File = v.Shown(p.File)
		fmt.Fprintln(v.Stderr, p)
	}
}

// PrintProblems prints problems that kept a command from starting on stderr.
func (v *Invocation) PrintProblems(problems diag.List) {
	for _, p := range problems {
		p.File = v.Shown(p.File)
		fmt.Fprintln(v.Stderr, p)
	}
	if n := len(problems.Errors()); n > 0 {
		fmt.Fprintf(v.Stderr, "%s, nothing was started\n", plural.Count(n, "problem"))
	}
}
