package trial_test

import (
	"context"
	"os"
	"testing"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial"
)

// stepsAgain runs a story with steps, and its tests again with the files of change instead. how
// says what each step begins with.
func (sc *scene) stepsAgain(s story, change map[string]string, how ...trial.StepAgain) (first, again outcome) {
	sc.t.Helper()
	first = sc.run(s, s.task(sc.t, sc.place), 1)
	again = sc.verifySteps(s, first, change, how...)
	return first, again
}

// verifySteps runs the tests of a trial of the story again.
func (sc *scene) verifySteps(s story, first outcome, change map[string]string, how ...trial.StepAgain) outcome {
	sc.t.Helper()
	files := map[string]string{}
	for _, from := range []map[string]string{s.files, change} {
		for name, text := range from {
			files[name] = text
		}
	}
	s.files = files
	spec := trial.Spec{
		Key: first.Trial.Key, Task: s.task(sc.t, sc.place), Agent: s.agent,
		Again: &trial.Again{Job: "first", From: "jobs/first", Before: first.Trial, Steps: how, Artifacts: os.DirFS(first.dir)},
	}
	sc.place.slots <- struct{}{}
	defer func() { <-sc.place.slots }()
	o := outcome{dir: sc.t.TempDir()}
	o.Outcome = sc.runner.Run(context.Background(), spec, o.dir)
	checkInvariants(sc.t, sc.job, o)
	return o
}

// wanted returns whether the tests of each step of a trial may run again.
func (sc *scene) wanted(s story, t *task.Task, of result.Trial) (bools []bool, why string) {
	return trial.StepsAgain(trial.Spec{Key: of.Key, Task: t, Agent: s.agent}, sc.job, of)
}

// The tests of each step run again on the files as its agent left them, and on nothing of a later
// step.
func TestVerifyStepsAgain(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s := story{
			agent: script("echo x >>/tmp/state; echo 0.5 >/logs/agent/cost_usd.txt; echo worked"), toml: twoSteps, job: keepOutcome,
			files: inSteps("echo spoiled >>/tmp/state; "+gives("0.25"), gives("0")),
		}
		sc := p.newScene(t, s)
		outcome := trial.StepAgain{Outcome: true}
		first, again := sc.stepsAgain(s, map[string]string{
			"steps/first/tests/test.sh":  "echo once more; [ \"$(cat /tmp/state)\" = x ] && " + gives("1"),
			"steps/second/tests/test.sh": "[ \"$(wc -l </tmp/state)\" -eq 3 ] && grep -q spoiled /tmp/state && " + gives("0.5"),
		}, outcome, outcome)
		if kept := first.Trial.Outcomes(); len(kept) != 2 || kept[0].ID == kept[1].ID || first.Trial.Environment.Outcome.ID != kept[1].ID {
			t.Fatalf("kept: %+v of %+v", kept, first.Trial)
		}
		again.check(t, want{reward: "0.75"})
		if got := rewardsOfSteps(again); got != "first 1, second 0.5" {
			t.Errorf("the steps are %q", got)
		}
		if got := again.file(t, "steps/first/logs/verifier/stdout.txt"); got != "once more\n" {
			t.Errorf("the tests said %q", got)
		}
		r := again.Trial.Reverified
		if r == nil || !r.Outcome || r.Artifacts || r.Environment != first.Trial.Environment.Outcome.ID || *r.Reward != 0.125 || again.Trial.VerifiedOn() != result.OnOutcome {
			t.Errorf("%+v of %+v", r, again.Trial)
		}
		if got := again.Trial; got.Cost.Amount() != 1 || got.Spent().Total().Amount() != 0 || got.Steps[0].Cost != first.Trial.Steps[0].Cost || len(got.Outcomes()) > 0 {
			t.Errorf("cost %v, of which %v was spent: %+v", got.Cost, got.Spent(), got.Steps)
		}
	})
}

// Tests that run apart have the artifacts of their step.
func TestVerifyStepsAgainFromArtifacts(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s := story{
			agent: script("echo x >>/tmp/state; cp /tmp/state /tmp/left"), toml: "artifacts = [\"/tmp/left\"]\nverifier.environment_mode = \"separate\"\n" + twoSteps,
			files: inSteps(gives("0"), gives("0")),
		}
		sc := p.newScene(t, s)
		first, again := sc.stepsAgain(s, map[string]string{
			"steps/first/tests/test.sh":  "[ ! -e /tmp/state ] && [ \"$(wc -l </tmp/left)\" -eq 1 ] && " + gives("1"),
			"steps/second/tests/test.sh": "[ ! -e /tmp/state ] && [ \"$(wc -l </tmp/left)\" -eq 2 ] && " + gives("1"),
		}, trial.StepAgain{Artifacts: true}, trial.StepAgain{Artifacts: true})
		first.check(t, want{reward: "0"})
		again.check(t, want{reward: "1"})
		if s := again.Trial.Steps; s[0].Verifier == nil || len(s[1].Artifacts) != 1 || s[1].Artifacts[0].Path != "steps/second/artifacts/tmp/left" || again.Trial.VerifiedOn() != result.OnArtifacts {
			t.Errorf("%+v", again.Trial)
		}
		if again.file(t, "steps/second/artifacts/tmp/left") != "x\nx\n" {
			t.Error("the artifact is another one")
		}
	})
}

// The new rewards decide which steps count. A step that begins by them, and did not run, leaves no
// reward.
func TestVerifiedStepsFollowTheNewRewards(t *testing.T) {
	outcome := trial.StepAgain{Outcome: true}
	gated := "[[steps]]\nname = \"first\"\nmin_reward = 0.6\n[[steps]]\nname = \"second\"\n"
	for _, c := range []struct {
		name          string
		before, after [2]string
		how           []trial.StepAgain
		first, steps  string
		want          want
	}{
		{
			name: "a step after too low a reward does not count", before: [2]string{"1", "1"}, after: [2]string{"0.5", "1"}, how: []trial.StepAgain{outcome, outcome},
			first: "first 1, second 1", steps: "first 0.5", want: want{reward: "0.5"},
		},
		{
			name: "the reward is still too low", before: [2]string{"0", "1"}, after: [2]string{"0.5", "1"}, how: []trial.StepAgain{outcome},
			first: "first 0", steps: "first 0.5", want: want{reward: "0.5"},
		},
		{
			name: "a step that did not run begins", before: [2]string{"0", "1"}, after: [2]string{"0.75", "1"}, how: []trial.StepAgain{outcome},
			first: "first 0", steps: "first 0.75", want: want{err: result.EnvironmentLost, says: []string{"the step second begins, which did not run", "rollout run"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := story{agent: script("true"), toml: gated, job: keepOutcome, files: inSteps(gives(c.before[0]), gives(c.before[1]))}
			sc := fakePlace.newScene(t, s)
			first, again := sc.stepsAgain(s, map[string]string{"steps/first/tests/test.sh": gives(c.after[0]), "steps/second/tests/test.sh": gives(c.after[1])}, c.how...)
			if got := rewardsOfSteps(first); got != c.first {
				t.Fatalf("first, the steps were %q", got)
			}
			again.check(t, c.want)
			if got := rewardsOfSteps(again); got != c.steps {
				t.Errorf("the steps are %q, want %q", got, c.steps)
			}
		})
	}
}

// A step that ended before its tests is as it was; the tests of those before it run again.
func TestVerifiedStepsThatEndedBeforeTheirTestsStay(t *testing.T) {
	for name, c := range map[string]struct {
		options task.Options
		want    want
	}{
		"the trial has no reward":                      {want: want{err: result.AgentExecutionFailed, says: []string{"step second: the agent's execute script ended with exit code 3"}}},
		"in format harbor, too, the agent is verified": {options: harbor, want: want{err: result.AgentExecutionFailed, reward: "0.5"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := story{
				options: c.options, agent: script("[ ! -e /tmp/was ] || exit 3; echo >/tmp/was"), toml: twoSteps, job: keepOutcome,
				files: inSteps(gives("1"), gives("1")),
			}
			sc := fakePlace.newScene(t, s)
			first := sc.run(s, s.task(t, sc.place), 1)
			wanted, why := sc.wanted(s, s.task(t, sc.place), first.Trial)
			if why != "" || len(wanted) != 2 || !wanted[0] {
				t.Fatalf("verified again: %v, %s", wanted, why)
			}
			again := sc.verifySteps(s, first, map[string]string{"steps/second/tests/test.sh": gives("0")}, trial.StepAgain{Outcome: true}, trial.StepAgain{Outcome: wanted[1], Ended: !wanted[1]})
			again.check(t, c.want)
			if got := again.Trial.Steps; len(got) != 2 || *got[0].Reward != 1 || got[1].Error == nil {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestStepsThatHaveChangedAreNotVerifiedAgain(t *testing.T) {
	s := story{agent: script("true"), toml: twoSteps, files: inSteps(gives("1"), gives("1"), gives("1"))}
	sc := fakePlace.newScene(t, s)
	first := sc.run(s, s.task(t, sc.place), 1)
	for name, toml := range map[string]string{
		"another order": "[[steps]]\nname = \"second\"\n[[steps]]\nname = \"first\"\n", "one more": threeSteps, "one less": "[[steps]]\nname = \"first\"\n", "none": "",
	} {
		changed := s
		changed.toml = toml
		if toml == "" {
			changed.files = nil
		}
		if _, why := sc.wanted(changed, changed.task(t, sc.place), first.Trial); why == "" {
			t.Errorf("%s: it is verified again", name)
		}
	}
	plain := story{agent: script("true")}
	before := sc.run(plain, plain.task(t, sc.place), 2)
	if _, why := sc.wanted(s, s.task(t, sc.place), before.Trial); why == "" {
		t.Error("a trial without steps is verified with those of today")
	}
	if wanted, why := sc.wanted(s, s.task(t, sc.place), first.Trial); why != "" || len(wanted) != 2 {
		t.Errorf("unchanged: %v, %s", wanted, why)
	}
}

// A cancelled trial keeps the outcome of no step.
func TestOutcomesOfStepsOfACancelledTrialAreRemoved(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	runs := 0
	o := fakePlace.run(t, story{
		agent: script("true"), toml: twoSteps, job: keepOutcome, files: inSteps(gives("1"), "sleep 1000"), ctx: ctx,
		emit: func(e event.Event) {
			if e.Kind == event.PhaseStarted && e.Phase == event.Verifier {
				if runs++; runs == 2 {
					cancel()
				}
			}
		},
	})
	o.check(t, want{err: result.Cancelled})
	ranSteps("first 1, second -")(t, o)
	if kept := o.Trial.Outcomes(); len(kept) > 0 || o.Trial.Environment.Outcome != nil {
		t.Errorf("kept: %+v", kept)
	}
}
