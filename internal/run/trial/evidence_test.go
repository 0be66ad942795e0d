package trial_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
)

// hosting is a provider whose environments have services, each of which is an environment. It notes
// what trials do with main and the services once the agent has ended.
type hosting struct {
	environment.Provider
	stopMain error // of StopMain

	mu    sync.Mutex
	calls []string
}

func (h *hosting) note(of, text string) {
	if !strings.Contains(text, "/logs") && !strings.Contains(text, ".sh") { // not scripts and logs of the trial
		h.mu.Lock()
		defer h.mu.Unlock()
		h.calls = append(h.calls, of+": "+text)
	}
}

func (h *hosting) CreateWithServices(ctx context.Context, opts environment.CreateOptions, s environment.Services) (environment.Environment, error) {
	main, err := h.Provider.CreateEnvironment(ctx, opts)
	if err != nil {
		return nil, err
	}
	host := &hostOf{noted: noted{main, h, "main"}, services: map[string]environment.Environment{}}
	for _, other := range s.Others {
		env, err := h.Provider.CreateEnvironment(ctx, environment.CreateOptions{Image: other.Image, Labels: opts.Labels})
		if err != nil {
			return nil, errors.Join(err, host.Destroy(ctx))
		}
		host.services[other.Name] = noted{env, h, other.Name}
	}
	return host, nil
}

// noted is an environment whose commands and copies are noted.
type noted struct {
	environment.Environment
	in   *hosting
	name string
}

func (n noted) Exec(ctx context.Context, script string, opts environment.ExecOptions) (int, error) {
	n.in.note(n.name, script)
	return n.Environment.Exec(ctx, script, opts)
}

func (n noted) CopyFrom(ctx context.Context, src, dst string, opts environment.ExtractOptions) (environment.Extracted, error) {
	n.in.note(n.name, "copy "+src)
	return n.Environment.CopyFrom(ctx, src, dst, opts)
}

// hostOf is main of an environment with services.
type hostOf struct {
	noted
	services map[string]environment.Environment
}

func (h *hostOf) Service(name string) (environment.Environment, bool) {
	env, ok := h.services[name]
	return env, ok
}

func (h *hostOf) ServiceLogs(context.Context, environment.ServiceLog) error { return nil }

func (h *hostOf) StopMain(ctx context.Context) error {
	h.in.note("main", "stop")
	if h.in.stopMain != nil {
		return h.in.stopMain
	}
	return h.Environment.Stop(ctx) // using it afterwards is an error
}

func (h *hostOf) Destroy(ctx context.Context) error {
	err := h.Environment.Destroy(ctx)
	for _, env := range h.services {
		err = errors.Join(err, env.Destroy(ctx))
	}
	return err
}

// State is collected of main, and then of the other services. If the tests run apart, main is
// stopped in between where it is not needed any more. Source: Harbor 0.26, trial.py,
// _collect_artifacts_phased.
func TestStateOfServicesIsReadOnceMainHasEnded(t *testing.T) {
	const (
		ofMain, ofDB = "main: echo of main, main: copy /of/main", "db: echo of db, db: copy /of/db"
		stops        = ", main: stop, "
		state        = `artifacts = [{source = "/of/db", service = "db"}, "/of/main"]
[[verifier.collect]]
service = "db"
command = "echo of db"
[[verifier.collect]]
command = "echo of main"
`
		apart    = "\n[verifier.environment]\n"
		compose  = "services:\n  main: {depends_on: [db]}\n  db: {image: \"{{image}}\", command: [sleep, infinity]}\n"
		lastIsAt = "[[steps]]\nname = \"first\"\n[[steps]]\nname = \"second\"\n"
	)
	for _, c := range []struct {
		name   string
		toml   string
		steps  bool
		job    func(*config.Job)
		broken bool
		agent  string
		order  string
		want   want
	}{
		{name: "tests in the agent's environment need main", toml: state, order: ofMain + ", " + ofDB, want: want{reward: "1"}},
		{name: "tests apart do not", toml: state + apart, order: ofMain + stops + ofDB, want: want{reward: "1"}},
		{
			name: "a job asks for it", toml: state, order: ofMain + stops + ofDB, want: want{reward: "1"},
			job: func(j *config.Job) { j.Verifier.Environment = config.VerifierFresh },
		},
		{
			name: "without tests nothing follows there", toml: state + apart, order: ofMain + stops + ofDB,
			job: func(j *config.Job) { j.Verifier.Disable = true },
		},
		{name: "an agent that failed leaves processes, too", toml: state + apart, agent: "exit 3", order: ofMain + stops + ofDB, want: want{err: result.AgentExecutionFailed, reward: "1"}},
		{name: "main is stopped for services alone", toml: "artifacts = [\"/of/main\"]\n[[verifier.collect]]\ncommand = \"echo of main\"\n" + apart, order: ofMain, want: want{reward: "1"}},
		{name: "in the last step", toml: state + apart + lastIsAt, steps: true, order: ofMain + ", " + ofDB + ", " + ofMain + stops + ofDB, want: want{reward: "1"}},
		{
			name: "there is no reward if main cannot be stopped", toml: state + apart, broken: true, order: ofMain + ", main: stop",
			want: want{err: result.EnvironmentLost, says: []string{"main could not be stopped before the state of services is read", "the engine coughed"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, h := fakePlace, &hosting{}
			p.open = func(t testing.TB) environment.Provider {
				h.Provider = fakePlace.open(t)
				return h
			}
			if c.broken {
				h.stopMain = broken(environment.KindTeardown, false)
			}
			files := map[string]string{}
			if c.steps {
				files = inSteps(reward1, reward1)
			}
			o := p.run(t, story{
				options: harbor, toml: c.toml, job: c.job, files: composed(compose, files),
				agent: script("mkdir -p /of; echo >/of/main; " + c.agent),
			})
			o.check(t, c.want)
			got := strings.Join(slices.DeleteFunc(h.calls, func(call string) bool {
				return !strings.Contains(call, "of ") && !strings.Contains(call, "/of/") && !strings.HasSuffix(call, "stop")
			}), ", ")
			if got != c.order {
				t.Errorf("the order is\n%s, want\n%s", got, c.order)
			}
		})
	}
}
