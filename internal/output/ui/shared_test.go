package ui

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
)

// All trials of a task share its image, so the reason for a missing image is printed once.
func TestImageFailureIsPrintedOnce(t *testing.T) {
	const cause = "Dockerfile:3: RUN false: exit code 1"
	ended := func(task string, attempt int, kind result.ErrorType, message string) event.Event {
		k := key(task, attempt)
		return event.Event{Kind: event.TrialEnded, Key: k, Message: "jobs/j", Time: start, Trial: &result.Trial{
			Key: *k, Error: &result.Error{Type: kind, Message: message},
		}}
	}
	events := []event.Event{
		{Kind: event.JobStarted, Total: 5, Time: start},
		ended("a", 1, result.EnvironmentBuildFailed, cause),
		ended("b", 1, result.EnvironmentBuildFailed, "another"),
		ended("a", 2, result.EnvironmentBuildFailed, cause),
		ended("a", 3, result.AgentExecutionFailed, "exit code 7"),
		ended("a", 4, result.AgentExecutionFailed, "exit code 7"),
	}
	out := play(Options{Mode: Plain, Level: slog.LevelWarn}, events)
	for text, times := range map[string]int{cause: 1, "environment_build_failed: as " + name(key("a", 1)): 1, "another": 1, "exit code 7": 2} {
		if n := strings.Count(out, text); n != times {
			t.Errorf("%q was printed %d times, want %d:\n%s", text, n, times, out)
		}
	}
}

func TestSummaryQuotesEachMessageOnce(t *testing.T) {
	var trials []result.Trial
	for _, task := range []string{"a", "b", "c", "d"} {
		message := "the first"
		if task == "b" || task == "d" {
			message = "the second"
		}
		trials = append(trials, result.Trial{Key: *key(task, 1), Error: &result.Error{Type: result.EnvironmentBuildFailed, Message: message}})
	}
	var out strings.Builder
	Summary(&out, job(nil, trials), false, 100)
	lines := out.String()
	if strings.Count(lines, "the first") != 1 || strings.Count(lines, "the second") != 1 || strings.Index(lines, "/c__1") > strings.Index(lines, "the second") {
		t.Errorf("the messages were not printed once each:\n%s", lines)
	}
}
