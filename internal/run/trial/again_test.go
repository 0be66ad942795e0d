package trial_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial"
)

// again verifies a trial of the scene again, with the tests of another task.
func (sc *scene) again(s story, t *task.Task, before result.Trial) (trial.Outcome, trial.Spec) {
	sc.t.Helper()
	spec := trial.Spec{Key: before.Key, Task: t, Agent: s.agent, Env: s.env, Again: &trial.Again{Job: "first", From: "jobs/first", Before: before}}
	sc.place.slots <- struct{}{}
	defer func() { <-sc.place.slots }()
	return sc.runner.Run(context.Background(), spec, sc.t.TempDir()), spec
}

func keepAll(job *config.Job) { job.Environment.PreserveEnv = config.PreserveAlways }

func TestVerifyAgain(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s := story{
			agent: script("echo 42 >/tmp/answer; echo 0.5 >/logs/agent/cost_usd.txt"),
			files: tests("echo 0 >/logs/verifier/reward.txt\necho old >/tests/old\n"), job: keepAll,
		}
		sc := p.newScene(t, s)
		first := sc.run(s, s.task(t, p), 1)
		first.check(t, want{reward: "0"})
		checkKept(t, outcome{Outcome: first.Outcome, left: sc.listed()}, true)
		s.files = tests("test -e /tests/old && exit 0\ngrep -q 42 /tmp/answer && echo 0.75 >/logs/verifier/reward.txt\n")
		out, _ := sc.again(s, s.task(t, p), first.Trial)
		got := out.Trial
		outcome{Outcome: out}.check(t, want{reward: "0.75"})
		r := got.Reverified
		if r == nil || r.Job != "first" || r.From != "jobs/first" || r.Environment != first.Trial.Environment.ID || r.Reward == nil || *r.Reward != 0 ||
			r.TaskDigest != first.Trial.TaskDigest || got.TaskDigest == r.TaskDigest || got.Environment.ID == r.Environment {
			t.Errorf("%+v of %+v", r, got)
		}
		if got.Cost.Amount() != 0.5 || got.Spent().Total().Amount() != 0 {
			t.Errorf("cost %v, of which %v was spent", got.Cost, got.Spent())
		}
		if got.Timestamps.AgentExecutionStartedAt != nil || got.Durations.AgentExecutionSec == nil || *got.Durations.AgentExecutionSec != *first.Trial.Durations.AgentExecutionSec {
			t.Errorf("the agent's times: %+v, %+v", got.Timestamps, got.Durations)
		}
		phases := 0
		for _, e := range sc.events {
			if e.Phase == event.AgentExecution {
				phases++
			}
		}
		if phases != 1 {
			t.Errorf("the agent was run %d times", phases)
		}
		if !slices.ContainsFunc(sc.listed(), func(l environment.Listed) bool { return l.ID == r.Environment && l.Kept }) {
			t.Error("the kept environment is gone")
		}
	})
}

// Files from artifacts have their old paths and modes, and there are no other files.
func TestVerifyAgainFromArtifacts(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s := story{
			agent: script("mkdir -p /srv/out/bin; echo 'echo works' >/srv/out/bin/run; chmod 755 /srv/out/bin/run; echo text >/srv/out/text; ln -s ../text /srv/out/bin/link; echo one >/srv/one; echo else >/srv/else"),
			files: map[string]string{
				"tests/test.sh": "echo 0 >/logs/verifier/reward.txt\n",
				"task.toml":     "version = \"1.0\"\nartifacts = [\"/srv/out\", \"/srv/one\"]\n[environment]\ndocker_image = \"{{image}}\"\n",
			},
		}
		sc := p.newScene(t, s)
		first := sc.run(s, s.task(t, p), 1)
		first.check(t, want{reward: "0"})
		s.files["tests/test.sh"] = "test -x /srv/out/bin/run && ! test -x /srv/out/text && test -L /srv/out/bin/link && grep -q text /srv/out/bin/link && test -e /srv/one && ! test -e /srv/else && echo 1 >/logs/verifier/reward.txt\n"
		spec := trial.Spec{Key: first.Trial.Key, Task: s.task(t, p), Agent: s.agent, Again: &trial.Again{Job: "first", Before: first.Trial, Artifacts: os.DirFS(first.dir)}}
		sc.place.slots <- struct{}{}
		defer func() { <-sc.place.slots }()
		out := sc.runner.Run(context.Background(), spec, t.TempDir())
		outcome{Outcome: out}.check(t, want{reward: "1"})
		if r := out.Trial.Reverified; r == nil || !r.Artifacts || r.Environment != "" || len(out.Trial.Artifacts) != 2 {
			t.Errorf("%+v of %+v", r, out.Trial)
		}
	})
}

func TestVerifyAgainWhatAnAgentFailed(t *testing.T) {
	s := story{agent: script("echo half >/tmp/answer; exit 3"), files: tests("echo 0 >/logs/verifier/reward.txt\n"), job: func(job *config.Job) {
		keepAll(job)
		verifyAnyway(job)
	}}
	sc := fakePlace.newScene(t, s)
	first := sc.run(s, s.task(t, fakePlace), 1)
	first.check(t, want{err: result.AgentExecutionFailed, reward: "0"})
	s.files = tests("grep -q half /tmp/answer && echo 0.5 >/logs/verifier/reward.txt\n")
	out, _ := sc.again(s, s.task(t, fakePlace), first.Trial)
	outcome{Outcome: out}.check(t, want{err: result.AgentExecutionFailed, reward: "0.5"})

	// The kept environment is gone: that is the error, and not the agent's.
	if err := sc.provider.Remove(context.Background(), first.Trial.Environment.ID); err != nil {
		t.Fatal(err)
	}
	out, _ = sc.again(s, s.task(t, fakePlace), first.Trial)
	outcome{Outcome: out}.check(t, want{err: result.EnvironmentStartFailed, says: []string{"restore environment"}})
	if out.Trial.Reward != nil {
		t.Errorf("a reward without tests: %+v", out.Trial)
	}
}

func TestCanVerifyAgain(t *testing.T) {
	skip, run := config.Job{}, config.Job{}
	skip.Verifier.OnAgentFailure, run.Verifier.OnAgentFailure = config.SkipVerifier, config.RunVerifier
	spec := trial.Spec{Task: story{}.task(t, fakePlace), Agent: agent.Agent{Name: "a"}}
	for kind, want := range map[result.ErrorType][2]bool{ // by the job's setting for a failed agent
		"":                               {true, true},
		result.VerifierFailed:            {true, true},
		result.VerifierTimeout:           {true, true},
		result.VerifierRewardMissing:     {true, true},
		result.EnvironmentTeardownFailed: {true, true},
		result.AgentExecutionFailed:      {false, true},
		result.AgentExecutionTimeout:     {false, true},
		result.AgentInstallFailed:        {false, false},
		result.EnvironmentLost:           {false, false},
		result.EnvironmentBuildFailed:    {false, false},
		result.TaskInvalid:               {false, false},
		result.InternalError:             {false, false},
	} {
		one := result.Trial{}
		if kind != "" {
			one.Error = &result.Error{Type: kind}
		}
		if got := [2]bool{trial.CanVerifyAgain(spec, skip, one), trial.CanVerifyAgain(spec, run, one)}; got != want {
			t.Errorf("%q: %v, want %v", kind, got, want)
		}
	}
}

// visit visits a story's trial on the fake provider.
func visit(t *testing.T, ctx context.Context, s story, after event.Phase, enter func(context.Context, trial.Visited) error) (trial.Outcome, bool, error) {
	t.Helper()
	sc := fakePlace.newScene(t, s)
	one := s.task(t, fakePlace)
	spec := trial.Spec{Key: result.Key{Agent: "scripted", Dataset: "tests", Task: one.Name, Attempt: 1}, Task: one, Agent: s.agent}
	return sc.runner.Visit(ctx, spec, t.TempDir(), trial.Visit{After: after, Enter: enter})
}

func TestVisitStopsAtEachStep(t *testing.T) {
	s := story{agent: agent.Agent{Name: "scripted", Install: "echo i >>/tmp/story", Execute: "echo e >>/tmp/story", CacheInstall: new(true)}, files: tests("echo v >>/tmp/story; echo 1 >/logs/verifier/reward.txt\n")}
	for after, want := range map[event.Phase]string{
		event.EnvironmentSetup: "", event.AgentSetup: "i\n", event.AgentExecution: "i\ne\n", event.Verifier: "i\ne\nv\n",
	} {
		var said strings.Builder
		out, entered, err := visit(t, context.Background(), s, after, func(ctx context.Context, in trial.Visited) error {
			opts := in.Options
			opts.Stdout = &said
			if in.Trial.Error != nil || (in.Trial.Reward != nil) != (after == event.Verifier) {
				t.Errorf("after %s: %+v", after, in.Trial)
			}
			if _, instructed := opts.Env["ROLLOUT_TASK_INSTRUCTION"]; instructed != (after != event.Verifier) {
				t.Errorf("after %s: variables %v", after, opts.Env)
			}
			_, err := in.Environment.Exec(ctx, "test -e /tmp/story && cat /tmp/story", opts)
			return err
		})
		if err != nil || !entered || out.Trial.Error != nil || said.String() != want {
			t.Errorf("after %s: %q, entered %t, %v, %+v", after, said.String(), entered, err, out.Trial.Error)
		}
	}
}

func TestVisitAfterAFailure(t *testing.T) {
	boom := errors.New("boom")
	out, entered, err := visit(t, context.Background(), story{agent: script("echo half >/tmp/half; exit 3")}, event.Verifier, func(_ context.Context, in trial.Visited) error {
		if in.Trial.Error == nil || in.Trial.Error.Type != result.AgentExecutionFailed {
			t.Errorf("the error is %+v", in.Trial.Error)
		}
		return boom
	})
	if !errors.Is(err, boom) || !entered || out.Trial.Error.Type != result.AgentExecutionFailed {
		t.Errorf("entered %t, %v, %+v", entered, err, out.Trial.Error)
	}
	out, entered, err = visit(t, context.Background(), story{agent: script("true"), files: map[string]string{"instruction.md": "-"}}, event.AgentSetup, func(context.Context, trial.Visited) error {
		t.Error("there is an environment of a task that cannot be read")
		return nil
	})
	if err != nil || entered || out.Trial.Error == nil || out.Trial.Error.Type != result.TaskInvalid {
		t.Errorf("entered %t, %v, %+v", entered, err, out.Trial.Error)
	}
}

func TestVisitIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	_, entered, err := visit(t, ctx, story{agent: script("true")}, event.AgentSetup, func(ctx context.Context, _ trial.Visited) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	if !entered || !errors.Is(err, context.Canceled) {
		t.Errorf("entered %t, %v", entered, err)
	}
}
