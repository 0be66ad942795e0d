package ui

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/test/reporttest"
)

// golden compares got with testdata/<name>.golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	reporttest.Golden(t, name+".golden", []byte(got))
}

// syncBuffer can be written by a view while its test reads it.
type syncBuffer struct {
	mu     sync.Mutex
	b      bytes.Buffer
	writes int
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writes++
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// stuck is a reader that takes nothing until it is released.
type stuck chan struct{}

func (s stuck) Write(p []byte) (int, error) {
	<-s
	return len(p), nil
}

// hostile is a name that combines several attacks.
const hostile = "\x1b[2J\x1b]0;title\x07::error::evil\n::add-mask::x\u202e\u200bgnihton##[error]boo\xff\u009b31m"

var start = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

func key(task string, attempt int) *result.Key {
	return &result.Key{Agent: "cpe", Dataset: "bench", Task: task, Attempt: attempt}
}

func reward(k *result.Key, reward, sec float64) *result.Trial {
	return &result.Trial{Key: *k, Reward: &reward, Durations: result.Durations{TotalSec: sec}}
}

func failure(k *result.Key, kind result.ErrorType, message string, sec float64) *result.Trial {
	return &result.Trial{Key: *k, Error: &result.Error{Type: kind, Message: message}, Durations: result.Durations{TotalSec: sec}}
}

func ended(t *result.Trial) event.Event {
	return event.Event{Kind: event.TrialEnded, Key: &t.Key, Trial: t, Message: "jobs/x/" + t.Key.Dir()}
}

// script has one of every event, one second apart.
func script() []event.Event {
	one, two, three, four := key("hello-world", 1), key("hello-world", 2), key("write-compressor", 1), key(hostile, 1)
	kept := reward(three, 1, 3661)
	kept.Error = &result.Error{Type: result.EnvironmentTeardownFailed, Message: "the container could not be removed: try rollout clean"}
	job := result.Job{JobName: "x", Cancelled: true, TotalDurationSec: 17.5, Summary: result.Summary{
		TotalTrials: 12, CompletedTrials: 3, FailedTrials: 3, SkippedTrials: 6, PassRate: 2.0 / 3, PassRateAll: 2.0 / 12,
	}}
	events := []event.Event{
		{Kind: event.JobStarted, Total: 12, Message: "jobs/x"},
		{Kind: event.TrialStarted, Key: one},
		{Kind: event.TrialStarted, Key: two},
		{Kind: event.PhaseStarted, Key: one, Phase: event.EnvironmentSetup},
		{Kind: event.Progress, Key: one, Message: "#7 [3/5] RUN apt-get install -y \x1b[1mgit\x1b[0m"},
		{Kind: event.Retrying, Key: two, Message: "pull: TLS handshake timeout\nmore", Delay: 2500 * time.Millisecond},
		{Kind: event.PhaseStarted, Key: one, Phase: event.AgentExecution, Step: &event.Step{Name: hostile, Number: 2, Of: 3}},
		ended(reward(one, 1, 12.34)),
		{Kind: event.TrialStarted, Key: three},
		ended(reward(two, 0.25, 59.99)),
		{Kind: event.TrialStarted, Key: four},
		ended(failure(four, result.AgentExecutionTimeout, "\n::error::the agent was stopped after 600 s\nsecond line", 600)),
		{Kind: event.Notice, Message: "docker: limit \"storage\" is not enforced"},
		ended(kept),
		{Kind: event.TrialStarted, Key: one},
		{Kind: event.Cancelling, Total: 1, Message: "no more trials are started"},
		ended(failure(one, result.Cancelled, "the job was cancelled", 1)),
		{Kind: event.JobEnded, Job: &job},
	}
	for i := range events {
		events[i].Time = start.Add(time.Duration(i) * time.Second)
	}
	return events
}

// noCommands fails the test if GitHub's runner would take a line for a workflow command.
func noCommands(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[") {
			t.Errorf("a workflow command: %q", line)
		}
	}
}

// noEscapes fails the test if there is anything but printable text and line ends.
func noEscapes(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if line = strings.TrimSuffix(line, "\n"); strings.ContainsFunc(line, untrusted.Invisible) {
			t.Errorf("invisible characters in %q", line)
		}
	}
}
