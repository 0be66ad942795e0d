package trial_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/model/gateway"
	"github.com/org/rollout-action/internal/run/trial"
	"github.com/org/rollout-action/internal/run/trial/agentfiles"
	"github.com/org/rollout-action/internal/run/trial/judging"
)

// patience limits the time of a test that hangs. No test passes or fails by being faster or slower
// than another.
const patience = time.Minute

// place is a provider that trials can run on.
type place struct {
	name   string
	image  string // is there already
	kernel bool   // real processes: /proc, named pipes, other programs than the usual ones
	limits bool   // all of them are enforced, and the kernel tells them
	// stands: environments have another base than their image, and report it.
	stands bool
	users  func(t testing.TB) bool                 // other users than root; nil: they are a matter of the image
	open   func(t testing.TB) environment.Provider // skips when it is not available
	slots  chan struct{}                           // one for every trial that may run at a time
	// patience is trial.Options.Patience unless a story has its own: an engine that other tests
	// keep busy may need longer to remove a container than a cancelled job gives it.
	patience int
	// lose removes an environment that a trial uses, like an accident.
	lose func(p environment.Provider, id string) error
}

// places lists all places.
var places = []place{fakePlace, dockerPlace, sandboxPlace}

// realPlaces lists the places with a kernel.
var realPlaces = []place{dockerPlace, sandboxPlace}

// everywhere runs a test in every place.
func everywhere(t *testing.T, test func(t *testing.T, p place)) {
	t.Helper()
	inPlaces(t, places, test)
}

func inPlaces(t *testing.T, places []place, test func(t *testing.T, p place)) {
	t.Helper()
	t.Parallel()
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}

// story describes one trial. The zero story is a task whose test always passes, and an agent that
// does nothing wrong.
type story struct {
	files   map[string]string // of the task, in addition to or instead of the usual ones; {{image}} is the place's; "-": removed
	toml    string            // sections of task.toml
	options task.Options      // for loading the task
	agent   agent.Agent
	env     map[string]string // the agent's
	own     *agentfiles.Set   // the agent's files
	job     func(*config.Job)
	secrets []string
	hooks   hooks
	disk    func() error
	emit    event.Sink
	ctx     context.Context
	hard    context.Context
	patient int                       // trial.Options.Patience
	leaves  bool                      // an environment, which the test removes
	models  map[string]*gateway.Model // the job's
	judges  []judging.Judge
	reward  *judge.Reward
}

// outcome is the outcome of a story.
type outcome struct {
	trial.Outcome
	dir    string // the trial's
	events []event.Event
	left   []environment.Listed // environments of the job
}

// scene is a job in a place.
type scene struct {
	t        testing.TB
	place    place
	provider environment.Provider
	job      config.Job
	runner   *trial.Runner
	prepare  func(dir string) // fills the trial's directory before; may be nil
	dataset  string           // the tasks'; "" is "tests"

	mu     sync.Mutex
	events []event.Event
}

// newScene prepares a job. At its end no environment of it may be left.
func (p place) newScene(t testing.TB, s story) *scene {
	t.Helper()
	sc := &scene{t: t, place: p, provider: p.open(t), job: defaultJob(p.name)}
	if s.job != nil {
		s.job(&sc.job)
	}
	t.Cleanup(func() {
		for _, left := range sc.listed() {
			if !left.Kept && !s.leaves {
				t.Errorf("left behind: %+v", left)
			}
			if err := sc.provider.Remove(context.Background(), left.ID); err != nil {
				t.Error(err)
			}
		}
	})
	retrying := environment.Retry(&hooked{Provider: sc.provider, hooks: s.hooks}, environment.RetryPolicy{
		MaxAttempts: sc.job.Retry.MaxAttempts,
		Initial:     time.Duration(sc.job.Retry.InitialDelayMs) * time.Millisecond,
		Max:         time.Duration(sc.job.Retry.MaxDelayMs) * time.Millisecond,
		Multiplier:  sc.job.Retry.Multiplier,
	})
	sc.runner = trial.NewRunner(trial.Options{
		Provider: retrying,
		Job:      sc.job,
		Models:   s.models,
		Redactor: redact.New(s.secrets),
		Hard:     s.hard,
		Patience: cmp.Or(s.patient, p.patience),
		Disk:     s.disk,
		Emit: func(e event.Event) {
			sc.mu.Lock()
			sc.events = append(sc.events, e)
			sc.mu.Unlock()
			if s.emit != nil {
				s.emit(e)
			}
		},
	})
	return sc
}

func defaultJob(provider string) config.Job {
	return config.Job{
		Name:              "trial-test-" + rand.Text(),
		NAttempts:         1,
		NConcurrentTrials: 1,
		TimeoutMultiplier: 1,
		Retry:             config.Retry{MaxAttempts: 2, InitialDelayMs: 10, MaxDelayMs: 50, Multiplier: 2},
		InstructionPath:   "/tmp/instruction.md",
		MaxStreamSize:     64 << 20,
		Environment:       config.Environment{Type: provider, PreserveEnv: config.PreserveNever},
		Verifier:          config.Verifier{OnAgentFailure: config.SkipVerifier},
	}
}

// listed returns the environments of this job.
func (sc *scene) listed() []environment.Listed {
	sc.t.Helper()
	all, err := sc.provider.List(context.Background())
	if err != nil {
		sc.t.Fatalf("List: %v", err)
	}
	return slices.DeleteFunc(all, func(l environment.Listed) bool { return l.Labels.Job != sc.job.Name })
}

// run runs one attempt at a story's task and checks the invariants of every trial.
func (sc *scene) run(s story, t *task.Task, attempt int) outcome {
	sc.t.Helper()
	ctx := cmp.Or[context.Context](s.ctx, context.Background())
	spec := trial.Spec{
		Key:   result.Key{Agent: s.agent.Name, Dataset: cmp.Or(sc.dataset, "tests"), Task: t.Name, Attempt: attempt},
		Task:  t,
		Agent: s.agent,
		Files: s.own, Env: s.env, Judges: s.judges, Reward: s.reward,
	}
	if spec.Agent.Name == "" {
		spec.Agent.Name, spec.Key.Agent = "scripted", "scripted"
	}
	sc.place.slots <- struct{}{}
	defer func() { <-sc.place.slots }()
	o := outcome{dir: sc.t.TempDir()}
	if sc.prepare != nil {
		sc.prepare(o.dir)
	}
	done := make(chan trial.Outcome, 1)
	go func() { done <- sc.runner.Run(ctx, spec, o.dir) }()
	select {
	case o.Outcome = <-done:
	case <-time.After(10 * patience):
		sc.t.Fatal("the trial hangs")
	}
	sc.mu.Lock()
	o.events = slices.Clone(sc.events)
	sc.mu.Unlock()
	checkInvariants(sc.t, sc.job, o)
	return o
}

// run runs a story in a place.
func (p place) run(t testing.TB, s story) outcome {
	t.Helper()
	sc := p.newScene(t, s)
	o := sc.run(s, s.task(t, p), 1)
	o.left = sc.listed()
	return o
}

// task writes the story's task to disk and loads it.
func (s story) task(t testing.TB, p place) *task.Task {
	t.Helper()
	built := false
	files := map[string]string{
		"instruction.md": "Do it.\n",
		"tests/test.sh":  "echo 1 >/logs/verifier/reward.txt\n",
	}
	for name, text := range s.files {
		files[name] = text
		built = built || strings.HasPrefix(name, "environment/")
	}
	toml := "version = \"1.0\"\n" + s.toml
	if !built && !strings.Contains(toml, "docker_image") {
		toml = "version = \"1.0\"\nenvironment.docker_image = \"{{image}}\"\n" + s.toml
	}
	if files["task.toml"] == "" {
		files["task.toml"] = toml
	}
	dir := filepath.Join(t.TempDir(), "puzzle")
	for name, text := range files {
		if text == "-" {
			continue
		}
		full := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		text = strings.ReplaceAll(text, "{{image}}", p.image)
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return (&task.Loader{Options: s.options}).Load(dir)
}

// checkInvariants checks properties of every trial, for all outcomes.
func checkInvariants(t testing.TB, job config.Job, o outcome) {
	t.Helper()
	tr := o.Trial
	ts, ds := tr.Timestamps, tr.Durations
	if ts.StartedAt.IsZero() || ts.EndedAt.Before(ts.StartedAt) {
		t.Errorf("the trial ran from %v to %v", ts.StartedAt, ts.EndedAt)
	}
	checkSpan(t, "the trial", &ts.StartedAt, &ts.EndedAt, &ds.TotalSec)
	last := ts.StartedAt
	for _, phase := range []struct {
		name         string
		began, ended *time.Time
		seconds      *float64
	}{
		{"environment setup", ts.EnvironmentSetupStartedAt, ts.EnvironmentSetupEndedAt, ds.EnvironmentSetupSec},
		{"agent setup", ts.AgentSetupStartedAt, ts.AgentSetupEndedAt, ds.AgentSetupSec},
		{"agent execution", ts.AgentExecutionStartedAt, ts.AgentExecutionEndedAt, ds.AgentExecutionSec},
		{"verifier", ts.VerifierStartedAt, ts.VerifierEndedAt, ds.VerifierSec},
		{"judging", ts.JudgesStartedAt, ts.JudgesEndedAt, ds.JudgesSec},
	} {
		if phase.began == nil && phase.ended == nil && (phase.seconds == nil || len(tr.Steps) > 0) {
			continue // the steps of a task have their own
		}
		checkSpan(t, phase.name, phase.began, phase.ended, phase.seconds)
		if phase.began != nil && phase.began.Before(last) {
			t.Errorf("%s began at %v, before what precedes it ended (%v)", phase.name, phase.began, last)
		}
		if phase.ended != nil {
			last = *phase.ended
		}
	}
	if ts.EndedAt.Before(last) {
		t.Errorf("the trial ended at %v, before its last phase did (%v)", ts.EndedAt, last)
	}
	if e := tr.Error; e != nil && (e.Message == "" || strings.Contains(e.Message, "\n")) {
		t.Errorf("the message must be one line: %q", e.Message)
	}
	if tr.Environment == nil || tr.Environment.Provider != job.Environment.Type {
		t.Errorf("environment: %+v", tr.Environment)
	}
	if _, err := result.Marshal(tr); err != nil {
		t.Errorf("the result cannot be written: %v", err)
	}
}

func checkSpan(t testing.TB, name string, began, ended *time.Time, seconds *float64) {
	t.Helper()
	if began == nil || ended == nil || seconds == nil {
		t.Errorf("%s has only some of its times: %v, %v, %v", name, began, ended, seconds)
		return
	}
	const rounding = 0.003 // of both stamps and the seconds to milliseconds, and the clock may be adjusted meanwhile
	if diff := ended.Sub(*began).Seconds() - *seconds; diff > rounding || diff < -rounding {
		t.Errorf("%s took %gs, but its stamps are %v apart", name, *seconds, ended.Sub(*began))
	}
}

// want is the expected outcome of a trial.
type want struct {
	err    result.ErrorType
	reward string   // as written in JSON; "" is null
	says   []string // parts of the error's message
	detail []string // parts of the detail for error.txt
}

func (o outcome) check(t testing.TB, w want) {
	t.Helper()
	var kind result.ErrorType
	message := ""
	if e := o.Trial.Error; e != nil {
		kind, message = e.Type, e.Message
	}
	if kind != w.err {
		t.Fatalf("error %q (%s), want %q\ndetail: %s", kind, message, w.err, o.Detail)
	}
	if got := o.reward(); got != w.reward {
		t.Errorf("reward %q, want %q (%s)", got, w.reward, message)
	}
	contains(t, "message", message, w.says...)
	contains(t, "detail", o.Detail, w.detail...)
	if message != "" {
		t.Logf("%s: %s", kind, message)
	}
}

func (o outcome) reward() string {
	if o.Trial.Reward == nil {
		return ""
	}
	text, _ := result.Marshal(*o.Trial.Reward)
	return strings.TrimSpace(string(text))
}

func contains(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s: %q is not in %q", what, part, text)
		}
	}
}

// file is the content of a file in the trial's directory.
func (o outcome) file(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(o.dir, filepath.FromSlash(name)))
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

func (o outcome) has(name string) bool {
	_, err := os.Lstat(filepath.Join(o.dir, filepath.FromSlash(name)))
	return !errors.Is(err, os.ErrNotExist)
}

// script returns an agent with an execute script.
func script(execute string) agent.Agent { return agent.Agent{Name: "scripted", Execute: execute} }
