package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/clitest"
	"github.com/org/rollout-action/internal/test/fake"
	"github.com/org/rollout-action/providers"
)

// connecting is a New of a provider.
type connecting = func(ctx context.Context, cfg map[string]any, host providers.Host) (environment.Provider, error)

// offered are the providers that the command lines of tests can choose.
var offered = clitest.Providers(lasting)

// lasting is the fake provider with one world for all command lines, so that each finds what an
// earlier one has kept.
var lasting = clitest.Entry("lasting", func(context.Context, map[string]any, providers.Host) (environment.Provider, error) {
	return fake.New(fake.Options{World: lastingWorld}), nil
})

var lastingWorld = fake.NewWorld()

// withProvider adds a provider named "tried" to offered while a test runs. The tests that call it
// do not run in parallel: they share offered.
func withProvider(t *testing.T, connect connecting) {
	t.Helper()
	before := offered
	t.Cleanup(func() { offered = before })
	offered = clitest.Providers(clitest.Entry("tried", connect))
}

// tried is a fake provider that notes when it is closed.
type tried struct {
	*fake.Provider
	closed atomic.Bool
}

func newTried() *tried { return &tried{Provider: fake.New(fake.Options{World: fake.NewWorld()})} }

func (p *tried) Close() error {
	p.closed.Store(true)
	return p.Provider.Close()
}

const triedJob = `name: nightly
environment: {type: tried}
agents: [{name: nop}]
datasets: [{path: evals}]
`

// jobDir is a directory with a job of a task that passes whatever the agent does.
func jobDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "job.yaml", triedJob)
	writeTask(t, dir, "evals/one")
	return dir
}

func writeTask(t *testing.T, dir, name string) {
	t.Helper()
	write(t, dir, name+"/task.toml", "version = \"1.0\"\nenvironment.docker_image = \"debian:bookworm\"\n")
	write(t, dir, name+"/instruction.md", "Do nothing.\n")
	write(t, dir, name+"/tests/test.sh", "echo 1 >/logs/verifier/reward.txt\n")
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	full := filepath.Join(dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// said is what a command line came to.
type said struct {
	code           int
	stdout, stderr string
}

// rollout runs a command line in dir. hard may be nil.
func rollout(t *testing.T, soft, hard context.Context, dir string, args ...string) said {
	t.Helper()
	var stdout, stderr bytes.Buffer
	env := Env{
		Providers: offered,
		Stdin:     strings.NewReader(triedJob), Stdout: &stdout, Stderr: &stderr, Dir: dir, Now: time.Now,
		Getenv: func(string) (string, bool) { return "", false },
	}
	code := Main(soft, cmp.Or(hard, context.Background()), env, args)
	return said{code, stdout.String(), stderr.String()}
}

func (s said) check(t *testing.T, code int, stderr ...string) {
	t.Helper()
	if s.code != code {
		t.Errorf("exit code %d, want %d\n%s%s", s.code, code, s.stdout, s.stderr)
	}
	for _, text := range stderr {
		if !strings.Contains(s.stderr, text) {
			t.Errorf("stderr does not say %q:\n%s", text, s.stderr)
		}
	}
}

// noJobDirectory checks that a job has not begun.
func noJobDirectory(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(dir, "jobs")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a directory of jobs (%v), although nothing was to be run", err)
	}
}

func TestUnusableProviderIsReportedBeforeAnythingStarts(t *testing.T) {
	refuse := func(context.Context, map[string]any, providers.Host) (environment.Provider, error) {
		return nil, &environment.Error{Kind: environment.KindUnavailable, Hint: "run it with sudo", Err: errors.New("the kernel refuses namespaces")}
	}
	for _, tc := range []struct {
		name, provider string
		says           []string
	}{
		{"one that refuses", "tried", []string{"rollout: the kernel refuses namespaces (run it with sudo)\n"}},
		{"an engine that is not there", "docker", []string{"no-engine.sock", ": nothing answers there (start Docker, set DOCKER_HOST to where it listens, or "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			withProvider(t, refuse)
			dir := jobDir(t)
			t.Setenv("DOCKER_HOST", "unix:///nonexistent/no-engine.sock") // a test's own directory is too long for a socket
			rollout(t, t.Context(), nil, dir, "job.yaml", "--env-type", tc.provider).check(t, command.ExitFailed, tc.says...)
			noJobDirectory(t, dir)
			rollout(t, t.Context(), nil, dir, "clean", "--env-type", tc.provider).check(t, command.ExitFailed, tc.says...)
		})
	}
}

func TestCancellingWhileAProviderConnects(t *testing.T) {
	for _, tc := range []struct {
		name string
		// then is what the provider does when the job is cancelled.
		then func(p *tried, hurry func()) (environment.Provider, error)
		// closed: the provider, which is there after all.
		closed bool
	}{
		{"a provider that obeys", func(*tried, func()) (environment.Provider, error) { return nil, context.Canceled }, false},
		{"a provider that fails in its own words", func(*tried, func()) (environment.Provider, error) {
			return nil, &environment.Error{Kind: environment.KindUnavailable, Err: errors.New("interrupted system call")}
		}, false},
		{"a provider that is ready just then", func(p *tried, _ func()) (environment.Provider, error) { return p, nil }, true},
		{"a provider that hangs, until the second signal", func(_ *tried, hurry func()) (environment.Provider, error) {
			hurry()
			select {}
		}, false},
	} {
		for _, words := range [][]string{{"job.yaml", "--env-type", "tried"}, {"clean", "--env-type", "tried"}} {
			t.Run(tc.name+"/"+words[0], func(t *testing.T) {
				soft, cancel := context.WithCancel(t.Context())
				hard, hurry := context.WithCancel(t.Context())
				defer hurry()
				p := newTried()
				withProvider(t, func(ctx context.Context, _ map[string]any, _ providers.Host) (environment.Provider, error) {
					cancel()
					<-ctx.Done()
					return tc.then(p, hurry)
				})
				dir := jobDir(t)
				rollout(t, soft, hard, dir, words...).check(t, command.ExitCancelled, "rollout: c")
				noJobDirectory(t, dir)
				if p.closed.Load() != tc.closed {
					t.Errorf("closed: %v, want %v", p.closed.Load(), tc.closed)
				}
			})
		}
	}
}

// sweptWhileCancelled is cancelled while leftovers are looked for.
type sweptWhileCancelled struct {
	*tried
	cancel func()
}

func (p *sweptWhileCancelled) List(ctx context.Context) ([]environment.Listed, error) {
	p.cancel()
	return nil, ctx.Err()
}

func TestCancellingWhileLeftoversAreRemoved(t *testing.T) {
	soft, cancel := context.WithCancel(t.Context())
	p := newTried()
	withProvider(t, func(context.Context, map[string]any, providers.Host) (environment.Provider, error) {
		return &sweptWhileCancelled{p, cancel}, nil
	})
	dir := jobDir(t)
	o := rollout(t, soft, nil, dir, "job.yaml")
	o.check(t, command.ExitCancelled, "cancelled before the job began")
	if strings.Contains(o.stderr, "warning") {
		t.Errorf("a cancel is no trouble with leftovers:\n%s", o.stderr)
	}
	noJobDirectory(t, dir)
	if !p.closed.Load() {
		t.Error("the provider was not closed")
	}
}

func TestNotesOfAConnectingProviderAreShown(t *testing.T) {
	withProvider(t, func(_ context.Context, _ map[string]any, host providers.Host) (environment.Provider, error) {
		host.Progress("looking at this machine, once:\x1b[2J it takes some seconds")
		host.Progress("done")
		return newTried(), nil
	})
	const first, second = "looking at this machine, once: it takes some seconds", "done"
	for _, tc := range []struct {
		name string
		args []string
		want string // the beginning of stderr
	}{
		{"a line each", []string{"job.yaml"}, "note: " + first + "\nnote: " + second + "\nRunning 1 trial"},
		{"nothing when only errors are wanted", []string{"job.yaml", "--set", "log_level=error"}, "Running 1 trial"},
		{"when cleaning up", []string{"clean", "--env-type", "tried"}, first + "\n" + second + "\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := rollout(t, t.Context(), nil, jobDir(t), tc.args...)
			o.check(t, command.ExitOK)
			if !strings.HasPrefix(o.stderr, tc.want) {
				t.Errorf("stderr: got\n%s\nwant\n%s", o.stderr, tc.want)
			}
		})
	}
	t.Run("as JSON", func(t *testing.T) {
		o := rollout(t, t.Context(), nil, jobDir(t), "job.yaml", "--log-format", "json")
		o.check(t, command.ExitOK)
		var events []string
		for line := range strings.Lines(o.stderr) {
			var e struct{ Event, Msg string }
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			events = append(events, e.Event+": "+e.Msg)
		}
		if want := []string{"notice: looking at this machine, once:\x1b[2J it takes some seconds", "notice: done", "job_started: job started"}; !slices.Equal(events[:min(3, len(events))], want) {
			t.Errorf("got %q, want first %q", events, want)
		}
	})
}

// onAnother is a provider whose environments stand on another base than their image.
type onAnother struct{ *tried }

func (p onAnother) CreateEnvironment(ctx context.Context, opts environment.CreateOptions) (environment.Environment, error) {
	env, err := p.tried.CreateEnvironment(ctx, opts)
	return anotherEnv{env, opts.Image}, err
}

type anotherEnv struct {
	environment.Environment
	image string
}

func (e anotherEnv) Unwrap() environment.Environment { return e.Environment }

func (e anotherEnv) Base() *environment.Base {
	return &environment.Base{Requested: e.image, Actual: "this machine's root (Debian GNU/Linux 12)", Reason: "docker.io cannot be reached"}
}

func TestSubstituteImageIsReportedOnceInTheSummaryAndInEveryResult(t *testing.T) {
	withProvider(t, func(context.Context, map[string]any, providers.Host) (environment.Provider, error) {
		return onAnother{newTried()}, nil
	})
	dir := jobDir(t)
	o := rollout(t, t.Context(), nil, dir, "job.yaml", "--n-attempts", "3")
	o.check(t, command.ExitOK)
	const notice = "note: debian:bookworm is NOT used: its trials run on this machine's root (Debian GNU/Linux 12) instead (docker.io cannot be reached)\n"
	if n := strings.Count(o.stderr, notice); n != 1 {
		t.Errorf("%d times %q in\n%s", n, notice, o.stderr)
	}
	const summary = `note: 3 trials did NOT run on the image asked for, but on
  │ this machine's root (Debian GNU/Linux 12)
  │ 3 trials asked for debian:bookworm (docker.io cannot be reached)
`
	report := rollout(t, t.Context(), nil, dir, "report", "jobs/nightly")
	report.check(t, command.ExitOK)
	for what, text := range map[string]string{"the run's summary": o.stdout, "the report": report.stdout} {
		if strings.Count(text, summary) != 1 {
			t.Errorf("%s lacks\n%s\nin\n%s", what, summary, text)
		}
	}
	tree, err := result.ReadTree(filepath.Join(dir, "jobs/nightly"))
	if err != nil {
		t.Fatal(err)
	}
	want := result.Base{Requested: "debian:bookworm", Actual: "this machine's root (Debian GNU/Linux 12)", Reason: "docker.io cannot be reached"}
	for _, trial := range tree.Trials {
		if trial.Environment.Base == nil || *trial.Environment.Base != want {
			t.Errorf("%s has the base %+v, want %+v", trial.Key, trial.Environment.Base, want)
		}
	}
	if len(tree.Trials) != 3 {
		t.Errorf("%d results, want 3", len(tree.Trials))
	}
}
