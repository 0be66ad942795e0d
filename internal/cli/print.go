package cli

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/term"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/output/ui"
)

// conclude prints a finished job, and returns the command's outcome. finished and err are what the
// use case returned; print is how to print, nil: the summary.
func (v *invocation) conclude(finished *app.Finished, err error, print func(report.Input) error) error {
	if finished == nil {
		return err
	}
	if print == nil {
		v.show(finished)
	} else {
		if printed := print(finished.Input); !v.closedStdout(printed) { // the exit code is still the job's
			err = errors.Join(err, printed)
		}
		v.printResume(finished)
	}
	if err != nil {
		return err
	}
	switch finished.Outcome {
	case app.Passed:
		return nil
	case app.Stopped:
		return &failure{code: exitCancelled}
	}
	return &failure{code: exitGate}
}

// show prints the summary of a finished job and how to resume it, once. It is app.Host.Finished.
func (v *invocation) show(finished *app.Finished) {
	if v.printed == finished {
		return
	}
	v.printed = finished
	v.printSummary(finished)
	v.printResume(finished)
}

// printResume says how to resume a job that was just cancelled.
func (v *invocation) printResume(finished *app.Finished) {
	if finished.ResumeWith != "" {
		fmt.Fprintf(v.Stderr, "Resume it with: %s\n", finished.ResumeWith)
	}
}

// printSummary shows people on stdout what the reports say.
func (e Env) printSummary(f *app.Finished) {
	in := f.Input
	color, width := e.stdoutStyle()
	ui.Summary(e.Stdout, ui.SummaryInput{
		Job: in.Job, Groups: in.Groups, Trials: in.Trials, Dir: in.Dir, Files: in.Files, Tasks: report.PassedTasks(report.Cases(in)), Resume: f.Resume,
		Missing: f.NoResult && in.Job.SkippedTrials > 0, Running: f.Running, Partial: len(f.Incomplete) > 0 && in.Job.SkippedTrials > 0,
	}, color, width)
	verdict := ui.VerdictInput{Diff: in.Diff, Incomplete: f.Incomplete, Notes: in.Notes, Missing: len(in.Incomplete) > 0}
	if f.Compared {
		verdict.Baseline = in.Baseline
	}
	if f.Judged {
		verdict.Verdict = in.Verdict
	}
	ui.Verdict(e.Stdout, verdict, color, width)
}

func (e Env) printJSON(value any) error {
	text, err := result.Marshal(value)
	if err != nil {
		return err
	}
	_, err = e.Stdout.Write(text)
	return err
}

// stdoutIsTerminal reports whether stdout is a terminal.
func (e Env) stdoutIsTerminal() bool {
	file, ok := e.Stdout.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// unwrapped is the width of text for a file or another program, in columns. Editors wrap it, and
// programs search it by line.
const unwrapped = 1 << 20

// stdoutStyle returns how to print on stdout: with colours only on a terminal that wants them.
func (e Env) stdoutStyle() (color bool, width int) {
	file, ok := e.Stdout.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return false, unwrapped
	}
	_, color, err := ui.DetectMode(file, "auto", e.getenv)
	cols, _, sizeErr := term.GetSize(int(file.Fd()))
	if sizeErr != nil || cols <= 0 {
		cols = 80
	}
	return color && err == nil, cols
}
