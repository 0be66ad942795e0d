package summary

import (
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/test/reporttest"
)

// golden compares got with testdata/<name>.golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	reporttest.Golden(t, name+".golden", []byte(got))
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
