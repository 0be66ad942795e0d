// Package apptest has the host of use cases in tests: a directory with a job, and the provider
// fake.
package apptest

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

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/forge/github"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/test/fake"
	"github.com/org/rollout-action/providers"
)

// Recorder is an Output that records the calls. Its fields may be read when nothing is reported any
// more.
type Recorder struct {
	mu     sync.Mutex
	Lines  []string
	Events []event.Kind
}

func (r *Recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Lines = append(r.Lines, fmt.Sprintf(format, args...))
}

// Said reports whether anything was recorded.
func (r *Recorder) Said() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.Lines) > 0
}

// Line records a line.
func (r *Recorder) Line(text string) { r.note("%s", text) }

// Warn records a warning.
func (r *Recorder) Warn(text string) { r.note("warning: %s", text) }

// Warnings records how many warnings there are.
func (r *Recorder) Warnings(list diag.List) { r.note("%d warnings", len(list)) }

// View records the kinds of events.
func (r *Recorder) View(host.View) (event.Sink, func()) {
	return func(e event.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.Events = append(r.Events, e.Kind)
	}, func() {}
}

// New returns a Host for a directory with one task, whose verifier passes if /done exists and
// whose solution creates it.
func New(t *testing.T) (*host.Host, *Recorder) {
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
	out := &Recorder{}
	return &host.Host{
		Paths: host.Paths{Dir: dir}, Variables: host.Variables{Getenv: func(string) (string, bool) { return "", false }}, Now: time.Now, Output: out, Commands: &bytes.Buffer{},
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

// PlannedJob creates the directory of a job that was killed before its first trial.
func PlannedJob(t *testing.T, dir string, began time.Time) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	plan := result.Plan{JobName: filepath.Base(dir), StartedAt: began, Trials: result.KeysOf(result.Key{Task: "t", Dataset: "d", Agent: "a", Attempt: 1})}
	if err := result.WriteJSON(filepath.Join(dir, result.PlanFile), plan); err != nil {
		t.Fatal(err)
	}
}

// Refused fails the test if err is not a UsageError that contains text.
func Refused(t *testing.T, err error, text string) {
	t.Helper()
	var usage *host.UsageError
	if !errors.As(err, &usage) || !strings.Contains(err.Error(), text) {
		t.Errorf("%v, want a usage error about %q", err, text)
	}
}

// CancelAt makes the host's provider cancel a run when it is asked for the nth environment, which
// then is not created. The trials before it have ended if one runs at a time.
func CancelAt(h *host.Host, n int, cancel context.CancelFunc) {
	entry := &h.Providers[0]
	connect := entry.New
	entry.New = func(ctx context.Context, cfg map[string]any, on providers.Host) (environment.Provider, error) {
		p, err := connect(ctx, cfg, on)
		return &cancelling{Provider: p, left: n, cancel: cancel}, err
	}
}

// cancelling is the provider of CancelAt.
type cancelling struct {
	environment.Provider
	mu     sync.Mutex
	left   int
	cancel context.CancelFunc
}

// CreateEnvironment creates an environment, or cancels and waits for the end of the context.
func (c *cancelling) CreateEnvironment(ctx context.Context, opts environment.CreateOptions) (environment.Environment, error) {
	c.mu.Lock()
	c.left--
	last := c.left == 0
	c.mu.Unlock()
	if last {
		c.cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return c.Provider.CreateEnvironment(ctx, opts)
}
