package app_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/app/rerun"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/apptest"
	"github.com/org/rollout-action/internal/test/fake"
	"github.com/org/rollout-action/providers"
)

func TestRunReturnsTheFinishedJob(t *testing.T) {
	h, out := apptest.New(t)
	finished, err := app.Run(t.Context(), h, stages.RunRequest{Job: stages.JobRequest{File: "job.yaml"}})
	if err != nil {
		t.Fatal(err)
	}
	if j := finished.Input.Job; finished.Outcome != host.Passed || j.CompletedTrials != 2 || j.PassRate != 0.5 {
		t.Errorf("outcome %d, %d trials, pass rate %v", finished.Outcome, j.CompletedTrials, j.PassRate)
	}
	if finished.Input.Dir != filepath.Join("jobs", "nightly") || finished.ResumeWith != "" {
		t.Errorf("directory %s, resume with %q", finished.Input.Dir, finished.ResumeWith)
	}
	if len(out.Events) == 0 || len(out.Lines) != 1 || out.Lines[0] != "0 warnings" {
		t.Errorf("%d events; reported: %q", len(out.Events), out.Lines)
	}
}

// closing is a provider that records when it is closed.
type closing struct {
	environment.Provider
	order *[]string
}

func (c closing) Close() error {
	*c.order = append(*c.order, "closed")
	return c.Provider.Close()
}

// Closing a provider may take seconds, which a cancelled process does not have.
func TestFinishedIsCalledBeforeProviderCloses(t *testing.T) {
	h, _ := apptest.New(t)
	var order []string
	connect := h.Providers[0].New
	h.Providers[0].New = func(ctx context.Context, cfg map[string]any, on providers.Host) (environment.Provider, error) {
		p, err := connect(ctx, cfg, on)
		return closing{p, &order}, err
	}
	h.Finished = func(f *host.Finished) { order = append(order, f.Input.Job.JobName) }
	if _, err := app.Run(t.Context(), h, stages.RunRequest{Job: stages.JobRequest{File: "job.yaml"}}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, ", "); got != "nightly, closed" {
		t.Errorf("the order is %s", got)
	}
}

// The use cases run one after the other, each on the files of those before it.
func TestWrongRequestsAreUsageErrors(t *testing.T) {
	h, _ := apptest.New(t)
	for name, do := range map[string]func() error{
		"rerun without resume": func() error {
			_, err := app.Run(t.Context(), h, stages.RunRequest{Rerun: stages.RerunRequest{OnlyFailed: true}})
			return err
		},
		"a baseline that is missing": func() error {
			_, err := app.Run(t.Context(), h, stages.RunRequest{Job: stages.JobRequest{File: "job.yaml"}, Report: reporting.ReportOptions{Baseline: "nowhere"}})
			return err
		},
		"no directory": func() error {
			_, err := rerun.Resume(t.Context(), h, stages.ResumeRequest{Dir: "nowhere"})
			return err
		},
	} {
		var usage *host.UsageError
		if err := do(); !errors.As(err, &usage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if entries, err := os.ReadDir(h.Path("jobs")); err == nil {
		t.Errorf("something was started: %v", entries)
	}
}

func TestCancelledBeforeTheJobBegan(t *testing.T) {
	h, _ := apptest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	h.Providers[0].New = func(context.Context, map[string]any, providers.Host) (environment.Provider, error) {
		cancel()
		return fake.New(fake.Options{}), nil
	}
	finished, err := app.Run(ctx, h, stages.RunRequest{Job: stages.JobRequest{File: "job.yaml"}})
	if finished != nil || !errors.Is(err, host.ErrCancelled) {
		t.Errorf("%+v, %v", finished, err)
	}
}
