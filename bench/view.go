package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/library"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/model/trajectory"
	"github.com/org/rollout-action/internal/output/viewer"
	"github.com/org/rollout-action/reporters/html"
)

// view measures the first pages of a server of many jobs, in a separate process, and a job as one
// page.
func (b *bench) view(ctx context.Context) error {
	jobs := filepath.Join(b.dir, "view", "jobs")
	err := each(ctx, 4, viewJobs, func(_ context.Context, i int) error {
		return writeJob(filepath.Join(jobs, fmt.Sprintf("job-%03d", i)), i, viewTrials, 0)
	})
	if err != nil {
		return fmt.Errorf("write the jobs: %w", err)
	}
	if err := writeConversation(filepath.Join(jobs, "job-050", conversationTrial)); err != nil {
		return err
	}
	err = b.measure(ctx,
		measuring{"view.index", b.inChild("view", "view-index"), b.inChild("view", "read-index")},
		measuring{"view.job", b.inChild("view", "view-job"), b.inChild("view", "read-job")},
		measuring{"view.conversation", b.inChild("view", "view-conversation"), b.inChild("view", "read-conversation")},
	)
	if err != nil {
		return err
	}
	b.add("view.memory", b.peaks["view-job"])
	large := filepath.Join(b.dir, "view", "large")
	if err := writeJob(large, 0, pageTrials, 20_000); err != nil {
		return err
	}
	host := host.Host{Now: time.Now, Variables: host.Variables{Getenv: func(string) (string, bool) { return "", false }}}
	library, err := library.OpenLibrary(&host, large, false)
	if err != nil {
		return err
	}
	defer library.Close()
	opened, err := library.Open(ctx, library.Single())
	if err != nil {
		return err
	}
	defer opened.Close()
	var page bytes.Buffer
	return b.measure(ctx, measuring{"view.page", timed(func(ctx context.Context) error {
		in, err := opened.Input(ctx)
		if err != nil {
			return err
		}
		page.Reset()
		err = html.Reporter{}.Write(&page, in)
		return errors.Join(err, os.WriteFile(filepath.Join(b.dir, "page.html"), page.Bytes(), 0o600))
	}), timed(func(context.Context) error {
		return os.WriteFile(filepath.Join(b.dir, "same.html"), page.Bytes(), 0o600)
	})})
}

// writeJob writes the directory of a job. Every third trial fails, and has a log of logBytes.
func writeJob(dir string, n, trials, logBytes int) error {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(n) * time.Hour)
	plan := result.Plan{JobName: "nightly", StartedAt: began, Metrics: []string{"mean"}}
	var done []result.Trial
	for i := range trials {
		key := result.Key{Agent: "my-agent", Dataset: "evals", Task: fmt.Sprintf("task-%04d", i/2), Attempt: 1 + i%2}
		t := result.Trial{Key: key, TaskDigest: strings.Repeat("0", 64), Reward: new(1.0), Cost: result.Dollars(0.25), Usage: &result.Usage{Turns: 12, InputTokens: new(int64(1000)), OutputTokens: new(int64(500))}}
		t.Timestamps.StartedAt, t.Timestamps.EndedAt, t.Durations.TotalSec = began, began.Add(time.Minute), 60
		at := filepath.Join(dir, key.Dir())
		if err := os.MkdirAll(filepath.Join(at, "logs", "verifier"), 0o750); err != nil {
			return err
		}
		if i%3 == 0 {
			t.Reward = new(0.0)
			log := strings.Repeat("expected 3, got 4: a line of a test\n", logBytes/36)
			if err := os.WriteFile(filepath.Join(at, result.VerifierDir, result.StdoutFile), []byte(log), 0o600); err != nil {
				return err
			}
		}
		text, err := result.Marshal(t)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(at, result.ResultFile), text, 0o600); err != nil {
			return err
		}
		plan.Trials.Append(key)
		done = append(done, t)
	}
	return errors.Join(
		result.WriteJSON(filepath.Join(dir, result.PlanFile), plan),
		result.WriteFile(filepath.Join(dir, result.ConfigFile), []byte("{}\n")),
		result.WriteJSON(filepath.Join(dir, result.ResultFile), result.Summarize(plan, done)),
	)
}

// conversationTrial is the trial whose agent had a long conversation.
const conversationTrial = "my-agent/evals/task-0001__1"

// writeConversation writes a conversation of 1,000 turns, 3 MB, to the directory of a trial.
func writeConversation(dir string) error {
	var record trajectory.Trajectory
	for i := range 1000 {
		id := strconv.Itoa(i)
		record.Steps = append(record.Steps, trajectory.Step{
			ID: i + 1, Source: "agent", Message: strings.Repeat("I look at the next file. ", 16),
			Calls:       []trajectory.ToolCall{{ID: id, Name: "bash", Arguments: []byte(`{"command": "cat main.go"}`)}},
			Observation: &trajectory.Observation{Results: []trajectory.Result{{Call: id, Content: strings.Repeat("if err := run(); err != nil { return err }\n", 60)}}},
		})
	}
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, result.ATIFFile), text, 0o600)
}

// firstPage returns the work of a child: to measure the time from the start of a server of the jobs
// until its index has arrived or, if below is not "", the time that the page below takes after
// that.
func firstPage(below string) func(context.Context, *bench) ([]float64, error) {
	return func(ctx context.Context, b *bench) ([]float64, error) {
		host := host.Host{Now: time.Now, Variables: host.Variables{Getenv: func(string) (string, bool) { return "", false }}}
		began := time.Now()
		library, err := library.OpenLibrary(&host, filepath.Join(filepath.Dir(b.dir), "jobs"), false)
		if err != nil {
			return nil, err
		}
		defer library.Close()
		listener, err := viewer.Listen(ctx, 0)
		if err != nil {
			return nil, err
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		server := viewer.New(library, library.Title(), listener.Addr())
		go func() { _ = server.Serve(ctx, listener) }() // ends with ctx
		for _, address := range []string{server.URL(""), server.URL("") + below} {
			if address != server.URL("") {
				began = time.Now()
			}
			if err := get(ctx, address); err != nil {
				return nil, err
			}
			if below == "" {
				break
			}
		}
		return []float64{float64(time.Since(began)) / float64(time.Millisecond)}, nil
	}
}

// get reads a page.
func get(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if n, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK || n < 10_000 {
		return fmt.Errorf("%d, %d bytes: %w", answer.StatusCode, n, err)
	}
	return nil
}

// readFiles returns the work of a child: to read the files matching a pattern in the jobs next to
// its directory.
func readFiles(patterns ...string) func(context.Context, *bench) ([]float64, error) {
	return once(func(_ context.Context, b *bench) error {
		for _, pattern := range patterns {
			files, err := filepath.Glob(filepath.Join(filepath.Dir(b.dir), "jobs", filepath.FromSlash(pattern)))
			if err != nil || len(files) == 0 {
				return fmt.Errorf("%s: %w", pattern, err)
			}
			for _, file := range files {
				if _, err := os.ReadFile(file); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
