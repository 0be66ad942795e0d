package trial_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial"
)

func keepOutcome(job *config.Job) { job.Environment.Keep = config.KeepOutcome }

// checkOutcome checks that only the outcome exists and is recorded in the result, or neither.
func checkOutcome(t *testing.T, o trial.Outcome, left []environment.Listed, kept bool) {
	t.Helper()
	is := o.Trial.Environment.Outcome
	switch {
	case !kept && (is != nil || len(left) > 0):
		t.Errorf("result: %+v; left: %+v", is, left)
	case kept && (is == nil || is.Bytes <= 0 || len(left) != 1 || left[0].ID != is.ID || !left[0].Kept):
		t.Errorf("result: %+v; left: %+v; want one outcome", is, left)
	}
}

// An outcome is verified again as the agent left it, without changes of the first tests. Processes
// that the agent left go on in the first trial.
func TestVerifyOutcomeAgain(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		server, serves := "", "true"
		if p.kernel { // the fake provider has no processes
			server = "(while echo $SECONDS >>/srv/beats; do sleep 0.05; done) >/dev/null 2>&1 &"
			serves = "n=$(wc -l </srv/beats); until test $(wc -l </srv/beats) -gt $n; do sleep 0.05; done"
		}
		s := story{
			agent: script("mkdir -p /srv; echo 42 >/srv/answer\n" + server), job: keepOutcome,
			files: tests(serves + "; echo spoiled >/srv/answer; echo old >/tests/old; echo 0.5 >/logs/verifier/reward.txt\n"),
		}
		sc := p.newScene(t, s)
		first := sc.run(s, s.task(t, p), 1)
		first.check(t, want{reward: "0.5"})
		checkOutcome(t, first.Outcome, sc.listed(), true)
		s.files = tests("test -e /tests/old && exit 0\ngrep -q 42 /srv/answer && echo 0.75 >/logs/verifier/reward.txt\necho spoiled again >/srv/answer\n")
		for range 2 {
			spec := trial.Spec{
				Key: first.Trial.Key, Task: s.task(t, p), Agent: s.agent,
				Again: &trial.Again{Job: "first", From: "jobs/first", Before: first.Trial, Outcome: true},
			}
			sc.place.slots <- struct{}{}
			out := sc.runner.Run(context.Background(), spec, t.TempDir())
			<-sc.place.slots
			outcome{Outcome: out}.check(t, want{reward: "0.75"})
			if r := out.Trial.Reverified; r == nil || !r.Outcome || r.Environment != first.Trial.Environment.Outcome.ID || out.Trial.Environment.Outcome != nil {
				t.Errorf("%+v of %+v", r, out.Trial.Environment)
			}
			checkOutcome(t, first.Outcome, sc.listed(), true)
		}
	})
}

func TestKeepOutcome(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		story story
		want  want
		kept  bool
	}{
		{"of an agent that failed", story{agent: script("exit 3")}, want{err: result.AgentExecutionFailed}, true},
		{"of a trial that is not verified", story{agent: script("true"), job: func(job *config.Job) { job.Verifier.Disable = true }}, want{}, true},
		{"of a trial whose tests fail", story{agent: script("true"), files: tests("exit 1\n")}, want{err: result.VerifierFailed}, true},
		{"not of an agent that was not installed", story{agent: agent.Agent{Name: "scripted", Install: "exit 1", Execute: "true"}}, want{err: result.AgentInstallFailed}, false},
		{"not of an environment that is lost", story{agent: script("true"), hooks: fails("keep", broken(environment.KindLost, false))}, want{reward: "1"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := tc.story
			s.job = func(job *config.Job) {
				if tc.story.job != nil {
					tc.story.job(job)
				}
				keepOutcome(job)
			}
			o := fakePlace.run(t, s)
			o.check(t, tc.want)
			checkOutcome(t, o.Outcome, o.left, tc.kept)
			if len(o.Trial.Warnings) > 0 {
				t.Errorf("warnings: %q", o.Trial.Warnings)
			}
		})
	}
}

// A warning names the reason why an outcome could not be kept.
func TestOutcomesThatCannotBeKept(t *testing.T) {
	t.Parallel()
	full := errors.New("the disk is full")
	var looks atomic.Int32
	for _, tc := range []struct {
		name, says string
		story      story
	}{
		{"because its files are elsewhere", "the engine coughed", story{hooks: fails("keep", broken(environment.KindSnapshot, false))}},
		{"by this provider", "cannot keep", story{hooks: fails("keep", &environment.Error{Err: errors.New("this provider cannot keep it")})}},
		{"because the disk is full", "the disk is full", story{disk: func() error { return full }}},
		{"because the disk becomes full", "the disk is full", story{
			disk: func() error {
				if looks.Add(1) > 1 {
					return full
				}
				return nil
			},
			hooks: hooks{before: func(ctx context.Context, c call) error {
				if c.op != "keep" {
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			}},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := tc.story
			s.agent, s.job = script("true"), keepOutcome
			o := fakePlace.run(t, s)
			o.check(t, want{reward: "1"})
			checkOutcome(t, o.Outcome, o.left, false)
			if len(o.Trial.Warnings) != 1 || !strings.Contains(o.Trial.Warnings[0], tc.says) || !strings.Contains(o.Trial.Warnings[0], "environment.keep") {
				t.Errorf("warnings: %q, want one with %q", o.Trial.Warnings, tc.says)
			}
		})
	}
}

// A failure of the infrastructure that may pass is tried again.
func TestKeepOutcomeIsRetried(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	o := fakePlace.run(t, story{agent: script("true"), job: keepOutcome, hooks: hooks{before: func(_ context.Context, c call) error {
		if c.op == "keep" && tries.Add(1) == 1 {
			return broken(environment.KindSnapshot, true)
		}
		return nil
	}}})
	o.check(t, want{reward: "1"})
	checkOutcome(t, o.Outcome, o.left, true)
	if len(o.Trial.Retries) != 1 || o.Trial.Retries[0].Operation != "keep" {
		t.Errorf("retries: %+v", o.Trial.Retries)
	}
}

// A cancelled trial is run again, so its outcome is of no use.
func TestOutcomesOfCancelledTrialsAreRemoved(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		o := p.run(t, story{
			agent: script("true"), files: tests("sleep 1000\n"), ctx: ctx, job: keepOutcome,
			emit: func(e event.Event) {
				if e.Phase == event.Verifier {
					cancel()
				}
			},
		})
		o.check(t, want{err: result.Cancelled})
		checkOutcome(t, o.Outcome, o.left, false)
	})
}
