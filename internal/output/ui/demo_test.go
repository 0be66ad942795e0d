package ui

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"testing"
	"time"

	"golang.org/x/term"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/output/summary"
)

// TestDemo plays a made-up job on the terminal, for developers who change how a job looks:
//
//	go test -c -o /tmp/ui.test ./internal/output/ui
//	ROLLOUT_UI_DEMO=live /tmp/ui.test -test.run TestDemo
//
// ROLLOUT_UI_DEMO is the mode; an interrupt cancels the job, as in rollout.
func TestDemo(t *testing.T) {
	format := os.Getenv("ROLLOUT_UI_DEMO")
	if format == "" {
		t.Skip("ROLLOUT_UI_DEMO is not set: this test is for the eye")
	}
	mode, color, err := DetectMode(os.Stderr, format, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()
	d := &demo{plan: demoPlan()}
	sink, end := New(Options{
		Out: os.Stderr, Mode: mode, Color: color, Concurrency: 8, Heartbeat: 3 * time.Second, Metrics: []string{"mean", "max"},
		Width: func() (int, int) {
			cols, rows, err := term.GetSize(int(os.Stderr.Fd()))
			if err != nil {
				return 80, 24
			}
			return cols, rows
		},
	})
	d.sink = sink
	d.play(ctx, 8)
	end()
	summary.Write(os.Stderr, summary.Input{
		Job: result.Summarize(d.plan, d.trials), Groups: result.Groups(d.plan, d.trials), Trials: result.PackAll(d.trials), Dir: "jobs/demo",
	}, color, 80)
}

type demo struct {
	plan   result.Plan
	mu     sync.Mutex
	sink   event.Sink
	trials []result.Trial
}

func demoPlan() result.Plan {
	plan := result.Plan{JobName: "demo", StartedAt: time.Now(), Metrics: []string{"mean", "max"}}
	tasks := []string{"hello-world", "adaptive-rejection-sampler", "write-compressor", "日本語のタスク名はここにあります", "fix-git-history-of-a-very-large-repository-with-many-submodules-and-lfs"}
	for _, agent := range []string{"claude-code", "oracle"} {
		for _, task := range tasks {
			for attempt := 1; attempt <= 3; attempt++ {
				plan.Trials.Append(result.Key{Agent: agent, Dataset: "terminal-bench", Task: task, Attempt: attempt})
			}
		}
	}
	return plan
}

func (d *demo) emit(e event.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.Time = time.Now()
	if e.Trial != nil {
		d.trials = append(d.trials, *e.Trial)
	}
	d.sink(e)
}

func (d *demo) play(ctx context.Context, workers int) {
	d.emit(event.Event{Kind: event.JobStarted, Total: d.plan.Trials.Len(), Message: "jobs/demo"})
	defer context.AfterFunc(ctx, func() { d.emit(event.Event{Kind: event.Cancelling}) })()
	queue := make(chan result.Key)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for key := range queue {
				if ctx.Err() == nil {
					d.trial(ctx, key)
				}
			}
		})
	}
	for _, key := range d.plan.Trials.All() {
		queue <- key
	}
	close(queue)
	group.Wait()
	d.emit(event.Event{Kind: event.JobEnded})
}

func (d *demo) trial(ctx context.Context, key result.Key) {
	began := time.Now()
	d.emit(event.Event{Kind: event.TrialStarted, Key: &key})
	pause := func() { time.Sleep(time.Duration(300+rand.IntN(1500)) * time.Millisecond) }
	for _, phase := range []event.Phase{event.EnvironmentSetup, event.AgentSetup, event.AgentExecution, event.Verifier, event.Collect} {
		d.emit(event.Event{Kind: event.PhaseStarted, Key: &key, Phase: phase})
		if phase == event.EnvironmentSetup {
			for step := range 5 {
				d.emit(event.Event{Kind: event.Progress, Key: &key, Message: fmt.Sprintf("#%d [%d/5] RUN apt-get update && apt-get install -y git curl build-essential", step+4, step+1)})
				time.Sleep(200 * time.Millisecond)
			}
			if rand.IntN(10) == 0 {
				d.emit(event.Event{Kind: event.Retrying, Key: &key, Delay: 2 * time.Second, Message: "pull: Get \"https://registry.example/v2/\": net/http: TLS handshake timeout"})
			}
		}
		pause()
	}
	t := result.Trial{Key: key, Durations: result.Durations{TotalSec: time.Since(began).Seconds()}, Cost: result.Dollars(0.01)}
	t.Timestamps.EndedAt = time.Now()
	switch n := rand.IntN(10); {
	case ctx.Err() != nil:
		t.Error = &result.Error{Type: result.Cancelled, Message: "the job was cancelled"}
	case n < 6:
		t.Reward = new(1.0)
	case n < 8:
		t.Reward = new(0.25)
	default:
		t.Error = &result.Error{Type: result.AgentExecutionTimeout, Message: "the agent was stopped after 600 s (agent.timeout_sec in task.toml): give it more time with timeout_multiplier, or look at its output in command/stdout.txt\nmore"}
	}
	d.emit(event.Event{Kind: event.TrialEnded, Key: &key, Trial: &t, Message: "jobs/demo/" + key.Dir()})
}
