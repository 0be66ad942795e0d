package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/forge/github"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/run/prove"
	"github.com/org/rollout-action/internal/test/fake"
	"github.com/org/rollout-action/providers"
)

// recorder is an Output that records the calls.
type recorder struct {
	mu     sync.Mutex
	lines  []string
	events []event.Kind
}

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// said reports whether anything was recorded.
func (r *recorder) said() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.lines) > 0
}

func (r *recorder) Line(text string)        { r.note("%s", text) }
func (r *recorder) Warn(text string)        { r.note("warning: %s", text) }
func (r *recorder) Warnings(list diag.List) { r.note("%d warnings", len(list)) }

func (r *recorder) View(app.View) (event.Sink, func()) {
	return func(e event.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e.Kind)
	}, func() {}
}

// host returns a Host for a directory with one task, whose verifier passes if /done exists and
// whose solution creates it.
func host(t *testing.T) (*app.Host, *recorder) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"evals/one/task.toml":            "version = \"1.0\"\nenvironment.docker_image = \"debian:bookworm\"\n",
		"evals/one/instruction.md":       "Make /done.\n",
		"evals/one/solution/solve.sh":    "touch /done\n",
		"evals/one/tests/test.sh":        "if [ -e /done ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt\n",
		"job.yaml":                       "name: nightly\nenvironment: {type: fake}\nagents: [{name: oracle}, {name: nop}]\ndatasets: [{path: evals}]\n",
		"two.yaml":                       "name: two\nn_attempts: 2\nenvironment: {type: fake}\nagents: [{name: oracle}]\ndatasets: [{path: evals}]\ngate: {min_pass_rate: 1}\n",
		"evals/one/environment/.gitkeep": "",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	out := &recorder{}
	return &app.Host{
		Paths: app.Paths{Dir: dir}, Variables: app.Variables{Getenv: func(string) (string, bool) { return "", false }}, Now: time.Now, Output: out, Commands: &bytes.Buffer{},
		GitHub: func() github.Environment { return github.Environment{} }, Hard: context.Background(),
		Providers: providers.Table{{
			Name: fake.Name, Check: func(map[string]any) []environment.ConfigProblem { return nil },
			New: func(context.Context, map[string]any, providers.Host) (environment.Provider, error) {
				return fake.New(fake.Options{}), nil
			},
			Unaddressed: func(map[string]any) []string { return nil },
		}},
	}, out
}

func TestRunReturnsTheFinishedJob(t *testing.T) {
	h, out := host(t)
	finished, err := app.Run(t.Context(), h, app.RunRequest{Job: app.JobRequest{File: "job.yaml"}})
	if err != nil {
		t.Fatal(err)
	}
	if j := finished.Input.Job; finished.Outcome != app.Passed || j.CompletedTrials != 2 || j.PassRate != 0.5 {
		t.Errorf("outcome %d, %d trials, pass rate %v", finished.Outcome, j.CompletedTrials, j.PassRate)
	}
	if finished.Input.Dir != filepath.Join("jobs", "nightly") || finished.ResumeWith != "" {
		t.Errorf("directory %s, resume with %q", finished.Input.Dir, finished.ResumeWith)
	}
	if len(out.events) == 0 || len(out.lines) != 1 || out.lines[0] != "0 warnings" {
		t.Errorf("%d events; reported: %q", len(out.events), out.lines)
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
	h, _ := host(t)
	var order []string
	connect := h.Providers[0].New
	h.Providers[0].New = func(ctx context.Context, cfg map[string]any, on providers.Host) (environment.Provider, error) {
		p, err := connect(ctx, cfg, on)
		return closing{p, &order}, err
	}
	h.Finished = func(f *app.Finished) { order = append(order, f.Input.Job.JobName) }
	if _, err := app.Run(t.Context(), h, app.RunRequest{Job: app.JobRequest{File: "job.yaml"}}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, ", "); got != "nightly, closed" {
		t.Errorf("the order is %s", got)
	}
}

// The use cases run one after the other, each on the files of those before it.
func TestUseCasesOfAJobInShards(t *testing.T) {
	h, out := host(t)
	for i := range 2 {
		finished, err := app.Run(t.Context(), h, app.RunRequest{Job: app.JobRequest{File: "two.yaml"}, Shard: &result.Shard{Index: i + 1, Total: 2}})
		if err != nil || finished.Outcome != app.Passed {
			t.Fatalf("shard %d: %+v, %v", i+1, finished, err)
		}
	}
	shards := []string{filepath.Join("jobs", "two.shard-1-of-2"), filepath.Join("jobs", "two.shard-2-of-2")}
	missing, err := app.Merge(t.Context(), h, app.MergeRequest{Paths: absolute(h, shards[:1])})
	if err != nil || missing.Outcome != app.Failed || len(missing.Incomplete) != 1 {
		t.Errorf("one shard: %+v, %v", missing, err)
	}
	merged, err := app.Merge(t.Context(), h, app.MergeRequest{Paths: absolute(h, shards)})
	if err != nil || merged.Outcome != app.Passed || merged.Input.Job.CompletedTrials != 2 {
		t.Fatalf("both shards: %+v, %v", merged, err)
	}
	again, err := app.Report(t.Context(), h, app.ReportRequest{Dir: merged.Input.Dir, Options: app.ReportOptions{Baseline: shards[0]}})
	if err != nil || again.Input.Job.PassRate != merged.Input.Job.PassRate || again.Input.Diff == nil {
		t.Errorf("report: %+v, %v", again, err)
	}
	out.lines = nil
	resumed, err := app.Resume(t.Context(), h, app.ResumeRequest{Dir: shards[0]})
	if err != nil || resumed.Outcome != app.Passed {
		t.Fatalf("resume: %+v, %v", resumed, err)
	}
	if text := strings.Join(out.lines, "\n"); !strings.Contains(text, "Nothing to run: 1 of 1 trial in jobs/two.shard-1-of-2 is done") {
		t.Errorf("resume reported %q", text)
	}
}

func absolute(h *app.Host, dirs []string) []string {
	var out []string
	for _, dir := range dirs {
		out = append(out, h.Path(dir))
	}
	return out
}

func TestProveReturnsTheReport(t *testing.T) {
	h, _ := host(t)
	report, err := app.Prove(t.Context(), h, app.ProveRequest{Job: app.JobRequest{File: "evals", Sets: nil}, Runs: 1, NopRuns: 1})
	if err == nil || report != nil {
		t.Errorf("without the provider docker: %+v, %v", report, err)
	}
	h, _ = host(t)
	report, err = app.Prove(t.Context(), h, app.ProveRequest{Job: app.JobRequest{File: "job.yaml"}, Runs: 2, NopRuns: 1})
	if err != nil || report.Outcome() != prove.Passed || len(report.Tasks) != 1 || len(report.Tasks[0].Runs.Oracle) != 2 {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestWrongRequestsAreUsageErrors(t *testing.T) {
	h, _ := host(t)
	for name, do := range map[string]func() error{
		"rerun without resume": func() error {
			_, err := app.Run(t.Context(), h, app.RunRequest{Rerun: app.RerunRequest{OnlyFailed: true}})
			return err
		},
		"a baseline that is missing": func() error {
			_, err := app.Run(t.Context(), h, app.RunRequest{Job: app.JobRequest{File: "job.yaml"}, Report: app.ReportOptions{Baseline: "nowhere"}})
			return err
		},
		"no directory": func() error {
			_, err := app.Resume(t.Context(), h, app.ResumeRequest{Dir: "nowhere"})
			return err
		},
	} {
		var usage *app.UsageError
		if err := do(); !errors.As(err, &usage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if entries, err := os.ReadDir(h.Path("jobs")); err == nil {
		t.Errorf("something was started: %v", entries)
	}
}

func TestCancelledBeforeTheJobBegan(t *testing.T) {
	h, _ := host(t)
	ctx, cancel := context.WithCancel(t.Context())
	h.Providers[0].New = func(context.Context, map[string]any, providers.Host) (environment.Provider, error) {
		cancel()
		return fake.New(fake.Options{}), nil
	}
	finished, err := app.Run(ctx, h, app.RunRequest{Job: app.JobRequest{File: "job.yaml"}})
	if finished != nil || !errors.Is(err, app.ErrCancelled) {
		t.Errorf("%+v, %v", finished, err)
	}
}
