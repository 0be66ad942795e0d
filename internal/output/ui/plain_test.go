package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/output/termtext"
)

// play shows the events and returns the output.
func play(opts Options, events []event.Event) string {
	var out syncBuffer
	opts.Out = &out
	sink, end := New(opts)
	for _, e := range events {
		sink(e)
	}
	end()
	sink(events[0]) // dropped
	return out.String()
}

func TestPlain(t *testing.T) {
	out := play(Options{Mode: Plain, Level: slog.LevelWarn, Concurrency: 4}, script())
	golden(t, "plain", out)
	noCommands(t, out)
	noEscapes(t, out)
}

func TestLevelSelectsPlainMessages(t *testing.T) {
	lines := map[slog.Level][]event.Kind{
		slog.LevelDebug: {event.TrialStarted, event.PhaseStarted, event.Progress, event.Retrying, event.Notice},
		slog.LevelInfo:  {event.Progress, event.Retrying, event.Notice},
		slog.LevelWarn:  {event.Retrying, event.Notice},
		slog.LevelError: {},
	}
	always := []event.Kind{event.JobStarted, event.TrialEnded, event.Cancelling}
	all := slices.Concat(lines[slog.LevelDebug], always)
	for level, shown := range lines {
		shown = append(shown, always...)
		for _, kind := range all {
			e := event.Event{Kind: kind, Key: key("t", 1), Phase: event.Verifier, Message: "m", Total: 1, Time: start}
			if out := play(Options{Mode: Plain, Level: level}, []event.Event{e}); (out != "") != slices.Contains(shown, kind) {
				t.Errorf("with level %s, %s writes %q", level, kind, out)
			}
		}
	}
}

func TestPlainNamesTheStep(t *testing.T) {
	out := play(Options{Mode: Plain, Level: slog.LevelDebug}, []event.Event{
		{Kind: event.PhaseStarted, Key: key("t", 1), Phase: event.AgentExecution, Step: &event.Step{Name: "build", Number: 2, Of: 3}},
		{Kind: event.PhaseStarted, Key: key("t", 1), Phase: event.Verifier, Step: &event.Step{Name: hostile, Number: 3, Of: 3}},
		{Kind: event.PhaseStarted, Key: key("t", 1), Phase: event.Judging},
	})
	noCommands(t, out)
	noEscapes(t, out)
	if want := `[0/0] → cpe/bench/t__1  agent  step 2/3 build
[0/0] → cpe/bench/t__1  verifier  step 3/3 ::error::evil⏎::add…
[0/0] → cpe/bench/t__1  judging
`; out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

func TestPlainColoursOnlyVerdicts(t *testing.T) {
	out := play(Options{Mode: Plain, Level: slog.LevelWarn, Concurrency: 4, Color: true}, script())
	golden(t, "plain-color", strings.ReplaceAll(out, "\x1b", "ESC"))
}

func TestJSON(t *testing.T) {
	out := play(Options{Mode: JSON, Level: slog.LevelDebug}, script())
	golden(t, "json", out)
	noCommands(t, out)
	noEscapes(t, out)
	for line := range strings.Lines(out) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		for _, name := range []string{"time", "level", "msg", "event"} {
			if fields[name] == nil {
				t.Errorf("no %s in %s", name, line)
			}
		}
	}
}

func TestJSONKeepsHostileNames(t *testing.T) {
	out := play(Options{Mode: JSON, Level: slog.LevelDebug}, []event.Event{{Kind: event.TrialStarted, Key: key(hostile, 1), Time: start}})
	var got struct {
		Task string `json:"task_name"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if want := strings.ToValidUTF8(hostile, "�"); got.Task != want {
		t.Errorf("got %q, want %q", got.Task, want)
	}
}

// Preparing an image, or the copy of this machine, may take long before the first trial runs.
func TestPlainSaysWhatTakesLong(t *testing.T) {
	for _, c := range []struct {
		name  string
		level slog.Level
		steps int // seconds in preparation
		want  []string
	}{
		{"a short preparation is not mentioned", slog.LevelWarn, 1, nil},
		{"one that takes a while is", slog.LevelWarn, 5, []string{"[0/1] · cpe/bench/slow__1  copying, second 2"}},
		{"a long one again, ever more seldom", slog.LevelWarn, 55, []string{
			"[0/1] · cpe/bench/slow__1  copying, second 2", "[0/1] · cpe/bench/slow__1  copying, second 6",
			"[0/1] · cpe/bench/slow__1  copying, second 14", "[0/1] · cpe/bench/slow__1  copying, second 30"}},
		{"not if warnings are hidden", slog.LevelError, 55, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out syncBuffer
				sink, end := New(Options{Out: &out, Mode: Plain, Level: c.level})
				sink(event.Event{Kind: event.JobStarted, Total: 1, Message: "jobs/x"})
				sink(event.Event{Kind: event.TrialStarted, Key: key("slow", 1)})
				sink(event.Event{Kind: event.PhaseStarted, Key: key("slow", 1), Phase: event.EnvironmentSetup})
				for i := range c.steps {
					sink(event.Event{Kind: event.Progress, Key: key("slow", 1), Message: fmt.Sprint("copying, second ", i)})
					time.Sleep(999 * time.Millisecond)
				}
				sink(event.Event{Kind: event.PhaseStarted, Key: key("slow", 1), Phase: event.AgentExecution})
				time.Sleep(50 * time.Second)
				sink(ended(reward(key("slow", 1), 1, 170)))
				end()
				var got []string
				for line := range strings.Lines(out.String()) {
					if strings.Contains(line, " · ") {
						got = append(got, strings.TrimSuffix(line, "\n"))
					}
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		})
	}
}

// A cluster may have no place for hours: a line that says so is not repeated until something
// changes, but for the heartbeat.
func TestPlainDoesNotRepeatWhatATrialWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out syncBuffer
		sink, end := New(Options{Out: &out, Mode: Plain, Level: slog.LevelWarn, Heartbeat: time.Minute})
		say := func(words string) {
			sink(event.Event{Kind: event.Progress, Key: key("slow", 1), Message: words})
		}
		sink(event.Event{Kind: event.JobStarted, Total: 1, Message: "jobs/x"})
		sink(event.Event{Kind: event.TrialStarted, Key: key("slow", 1)})
		sink(event.Event{Kind: event.PhaseStarted, Key: key("slow", 1), Phase: event.EnvironmentSetup})
		say("pushing")
		time.Sleep(3 * time.Second)
		say("")
		time.Sleep(10 * time.Second)
		say("waits for a node: none is free")
		time.Sleep(40 * time.Second)
		say("waits for a node: one is starting")
		time.Sleep(75 * time.Second)
		say("")
		time.Sleep(60 * time.Second)
		sink(ended(reward(key("slow", 1), 1, 170)))
		end()
		want := `Running 1 trial; results in jobs/x
[0/1] · cpe/bench/slow__1  pushing
[0/1] · cpe/bench/slow__1  waits for a node: none is free
[0/1] · cpe/bench/slow__1  waits for a node: one is starting
[0/1] … 1 running, the oldest: cpe/bench/slow__1 (environment, 1m57s): waits for a node: one is starting
[0/1] … 1 running, the oldest: cpe/bench/slow__1 (environment, 2m57s)
[1/1] ✓ 1.0    cpe/bench/slow__1  2m50s
`
		if got := out.String(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out syncBuffer
		sink, end := New(Options{Out: &out, Mode: Plain, Heartbeat: time.Minute})
		sink(event.Event{Kind: event.JobStarted, Total: 2, Message: "jobs/x"})
		time.Sleep(150 * time.Second) // nothing runs yet, so there is no line
		sink(event.Event{Kind: event.TrialStarted, Key: key("slow", 1)})
		sink(event.Event{Kind: event.PhaseStarted, Key: key("slow", 1), Phase: event.AgentExecution})
		time.Sleep(40 * time.Second)
		sink(event.Event{Kind: event.Notice, Message: "something was said"})
		time.Sleep(80 * time.Second)
		sink(event.Event{Kind: event.PhaseStarted, Key: key("slow", 1), Phase: event.AgentExecution, Step: &event.Step{Name: "build", Number: 2, Of: 3}})
		time.Sleep(50 * time.Second)
		sink(ended(reward(key("slow", 1), 1, 170)))
		time.Sleep(5 * time.Minute)
		end()
		want := `Running 2 trials; results in jobs/x
[0/2] … 1 running, the oldest: cpe/bench/slow__1 (agent, 30s)
note: something was said
[0/2] … 1 running, the oldest: cpe/bench/slow__1 (agent, 1m40s)
[0/2] … 1 running, the oldest: cpe/bench/slow__1 (agent of step 2/3 build, 2m40s)
[1/2] ✓ 1.0    cpe/bench/slow__1  2m50s
`
		if got := out.String(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

func TestBlockedReaderDoesNotBlockTheWriter(t *testing.T) {
	for _, mode := range []Mode{Plain, JSON, Live} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := make(stuck)
				sink, end := New(Options{Out: out, Mode: mode})
				began := time.Now()
				sink(event.Event{Kind: event.JobStarted, Total: 1, Message: "jobs/x"})
				for i := range 2 * maxQueued {
					sink(event.Event{Kind: event.Progress, Key: key("one", 1), Message: fmt.Sprint(i)})
				}
				sink(ended(failure(key("one", 1), "x", "y", 1)))
				if waited := time.Since(began); waited > 0 {
					t.Errorf("the sink blocked for %v", waited)
				}
				end()
				if waited := time.Since(began); waited > giveUp {
					t.Errorf("closing blocked for %v", waited)
				}
				close(out)
			})
		})
	}
}

func TestSlowReaderGetsEveryFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		sink, end := New(Options{Out: write, Mode: JSON, Level: slog.LevelDebug})
		for i := range 3 * maxQueued {
			sink(event.Event{Kind: event.Progress, Key: key("one", 1), Message: fmt.Sprint(i)})
		}
		for i := range 50 {
			sink(ended(failure(key("one", i+1), "x", "y", 1)))
		}
		var got bytes.Buffer
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(&got, read)
		}()
		end()
		write.Close()
		<-done
		if n := strings.Count(got.String(), `"event":"trial_ended"`); n != 50 {
			t.Errorf("%d of 50 failures were written", n)
		}
		if n := strings.Count(got.String(), `"event":"progress"`); n >= 3*maxQueued {
			t.Error("no line was dropped")
		}
	})
}

func TestConcurrentEvents(t *testing.T) {
	for _, mode := range []Mode{Plain, JSON, Live} {
		var out syncBuffer
		sink, end := New(Options{Out: &out, Mode: mode})
		done := make(chan struct{})
		for worker := range 8 {
			go func() {
				for i := range 200 {
					sink(ended(failure(key("task", worker*200+i), "broken", "no", 1)))
				}
				done <- struct{}{}
			}()
		}
		for range 8 {
			<-done
		}
		end()
		word := "broken"
		if n := strings.Count(out.String(), word); n != 1600 {
			t.Errorf("%s: %d of 1600 failures were written", mode, n)
		}
	}
}

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
	for text, times := range map[string]int{cause: 1, "environment_build_failed: as " + termtext.TrialName(key("a", 1)): 1, "another": 1, "exit code 7": 2} {
		if n := strings.Count(out, text); n != times {
			t.Errorf("%q was printed %d times, want %d:\n%s", text, n, times, out)
		}
	}
}
