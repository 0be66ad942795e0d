package ui

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/output/termtext"
)

// Texts that the plain and the live view share.

// outcome returns a trial's outcome in a few cells, with its style.
func outcome(l termtext.Styles, t *result.Trial) string {
	switch {
	case t == nil || t.Reward == nil && t.Error == nil:
		return l.Dim.Render("· done")
	case t.Reward == nil:
		return l.Bad.Render("✗ error")
	case t.Agent == agent.Nop && t.Passed():
		return l.Warn.Render("! " + termtext.Number(*t.Reward)) // the task rewards doing nothing
	case t.Agent == agent.Nop:
		return l.Dim.Render("· " + termtext.Number(*t.Reward)) // as expected
	case t.Passed():
		return l.Good.Render("✓ " + termtext.Number(*t.Reward))
	}
	return l.Warn.Render("✗ " + termtext.Number(*t.Reward))
}

// problem returns a trial's error on one line: its type, and the first line of its message.
func problem(e *result.Error) string {
	if message := termtext.FirstLine(e.Message); message != "" {
		return untrusted.Line(string(e.Type)) + ": " + message
	}
	return untrusted.Line(string(e.Type))
}

func startLine(e event.Event, concurrency int) string {
	toRun := e.Total - len(e.Kept)
	line := "Running "
	if e.AtMost {
		line += "at most "
	}
	line += plural.Count(toRun, "trial")
	switch {
	case e.Kept == nil:
	case len(e.Kept) > 0 && !slices.ContainsFunc(e.Kept, func(t result.Trial) bool { return t.Reused == nil }):
		line += fmt.Sprintf(", %d reused", len(e.Kept))
	default:
		line = fmt.Sprintf("Resuming: %d of %s %s done, %d to run", len(e.Kept), plural.Count(e.Total, "trial"), plural.Are(e.Total), toRun)
	}
	if concurrency > 1 && toRun > 1 {
		line += fmt.Sprintf(", %d at a time", min(concurrency, toRun))
	}
	return line + "; results in " + untrusted.ShellPath(e.Message)
}

// retrying says when something is tried again.
func retrying(e event.Event) string {
	if e.Delay > 0 {
		return "retrying in " + termtext.Took(e.Delay.Seconds())
	}
	return "retrying now"
}

func noticeLine(e event.Event) string {
	return "note: " + termtext.FirstLine(e.Message)
}

// cancelLine describes what happens to the running trials, and how to skip the wait for their logs.
func cancelLine(stopping int, again string) string {
	if stopping == 0 {
		return "Cancelling: no more trials are started"
	}
	return fmt.Sprintf("Cancelling: stopping %s; %s without their logs", plural.Count(stopping, "trial"), again)
}

// heartbeat returns a line about the running trials, or "" if there are none.
func (s *state) heartbeat(now time.Time) string {
	if len(s.running) == 0 {
		return ""
	}
	oldest := s.running[0]
	doing := phaseName(oldest.phase)
	if oldest.step != nil {
		doing += " of " + stepName(oldest.step)
	}
	line := fmt.Sprintf("… %d running, the oldest: %s (%s, %s)", len(s.running), oldest.name, doing, termtext.Age(now.Sub(oldest.since)))
	if oldest.progress != "" {
		line += ": " + oldest.progress
	}
	return line
}

// timeOf returns the time of an event, or now if it has none.
func timeOf(e event.Event, now func() time.Time) time.Time {
	if e.Time.IsZero() {
		return now()
	}
	return e.Time
}

// phaseNames are the names of phases for users, at most phaseWidth cells wide.
var phaseNames = map[event.Phase]string{
	event.EnvironmentSetup: "environment",
	event.AgentSetup:       "agent setup",
	event.AgentExecution:   "agent",
	event.Verifier:         "verifier",
	event.Judging:          "judging",
	event.Collect:          "logs",
	event.Teardown:         "cleanup",
}

const phaseWidth = len("environment")

func phaseName(p event.Phase) string {
	return cmp.Or(phaseNames[p], "starting")
}

// maxStep is how many cells of a step's name are shown.
const maxStep = 20

// stepName returns the name of a step for users.
func stepName(s *event.Step) string {
	return fmt.Sprintf("step %d/%d %s", s.Number, s.Of, termtext.CutEnd(untrusted.Line(s.Name), maxStep))
}
