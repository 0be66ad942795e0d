package inspect_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/inspect"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/test/apptest"
)

// runningTrial creates a running job whose only trial has begun. It returns the trial's directory.
func runningTrial(t *testing.T, h *host.Host) (trial string, lock *job.Lock) {
	t.Helper()
	dir := h.Path("jobs/one")
	apptest.PlannedJob(t, dir, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	lock, err := job.TakeLock(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Release() })
	trial = filepath.Join(dir, "a", "d", "t__1")
	if err := os.MkdirAll(filepath.Join(trial, result.CommandDir), 0o755); err != nil {
		t.Fatal(err)
	}
	return trial, lock
}

// following follows the agent's stdout. It returns the lines, and a channel with the result.
func following(ctx context.Context, h *host.Host) (*bufio.Reader, <-chan error) {
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := inspect.CopyLog(ctx, h, inspect.LogRequest{Dir: "jobs/one", Trial: "t__1", Name: "command", Follow: true}, w)
		_ = w.Close()
		ended <- err
	}()
	return bufio.NewReader(r), ended
}

func expectLine(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	if got, err := r.ReadString('\n'); got != want || err != nil {
		t.Fatalf("%q, %v; want %q", got, err, want)
	}
}

// endTrial writes the result of a trial in directory dir, with which following it ends.
func endTrial(t *testing.T, dir string, lines *bufio.Reader, ended <-chan error) {
	t.Helper()
	if err := result.WriteJSON(filepath.Join(dir, result.ResultFile), result.Trial{}); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(lines); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestFollowingEndsWithTheTrial(t *testing.T) {
	h, out := apptest.New(t)
	trial, _ := runningTrial(t, h)
	shown, err := inspect.ShowTrial(h, "jobs/one", "t__1")
	if err != nil || shown.State != inspect.TrialRunning {
		t.Errorf("%+v, %v", shown, err)
	}
	lines, ended := following(t.Context(), h) // the log does not exist yet
	for deadline := time.Now().Add(time.Minute); !out.Said(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the wait for the log is not announced within a minute")
		}
	}
	file := filepath.Join(trial, result.CommandDir, result.StdoutFile)
	log, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	say := func(text string) {
		t.Helper()
		if _, err := log.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	say("one\n")
	expectLine(t, lines, "one\n")
	say("two\n")
	expectLine(t, lines, "two\n")
	// The trial starts over, so another file replaces this one.
	if err := result.WriteFile(file, []byte("again\n")); err != nil {
		t.Fatal(err)
	}
	expectLine(t, lines, "again\n")
	endTrial(t, trial, lines, ended)
	if want := []string{"waiting for command/stdout.txt of a/d/t__1"}; !slices.Equal(out.Lines, want) {
		t.Errorf("reported %q, want %q", out.Lines, want)
	}
}

func TestFollowingEndsWithTheJob(t *testing.T) {
	h, _ := apptest.New(t)
	trial, lock := runningTrial(t, h)
	if err := os.WriteFile(filepath.Join(trial, result.CommandDir, result.StdoutFile), []byte("one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	lines, ended := following(t.Context(), h)
	expectLine(t, lines, "one\n")
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestFollowingEndsWhenItIsCancelled(t *testing.T) {
	h, _ := apptest.New(t)
	runningTrial(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	_, ended := following(ctx, h)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The log of the agent is that of each step, one after the other.
func TestFollowingGoesOnWithTheNextStep(t *testing.T) {
	h, out := apptest.New(t)
	trial, _ := runningTrial(t, h)
	say := func(step, text string, age time.Duration) {
		t.Helper()
		dir := filepath.Join(trial, result.StepsDir, step)
		if err := os.MkdirAll(filepath.Join(dir, result.CommandDir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := result.WriteFile(filepath.Join(dir, result.CommandDir, result.StdoutFile), []byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, time.Now().Add(-age), time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	say("zero", "one\n", time.Hour)
	shown, err := inspect.ShowTrial(h, "jobs/one", "t__1")
	if err != nil || shown.State != inspect.TrialRunning || !slices.Equal(shown.Logs, []string{"steps/zero/command/stdout.txt"}) || len(shown.Ends) != 1 {
		t.Errorf("%+v, %v", shown, err)
	}
	lines, ended := following(t.Context(), h)
	expectLine(t, lines, "one\n")
	say("another", "two\n", 0)
	expectLine(t, lines, "two\n")
	endTrial(t, trial, lines, ended)
	if want := []string{"steps/zero/command/stdout.txt of a/d/t__1:", "steps/another/command/stdout.txt of a/d/t__1:"}; !slices.Equal(out.Lines, want) {
		t.Errorf("reported %q, want %q", out.Lines, want)
	}
}
