package trial

import (
	"context"
	"os"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial/combine"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// StepAgain says what the tests of a step run on when its trial is verified again. The zero value:
// the environment as the earlier tests left it.
type StepAgain struct {
	Outcome   bool // the files as the step's agent left them
	Artifacts bool // a new environment with the step's artifacts
	// Ended is set if the step ended before its tests: its record is taken over.
	Ended bool
}

// On returns what the tests run on, as result.StepRun.VerifiedOn.
func (s StepAgain) On() string {
	switch {
	case s.Ended:
		return ""
	case s.Outcome:
		return result.OnOutcome
	case s.Artifacts:
		return result.OnArtifacts
	}
	return result.OnEnvironment
}

// StepsAgain returns for each step of the trial t, which ran as s, whether its tests run when it is
// verified again. Otherwise the step ended before them. why is the reason if the steps of the
// task are not those of the trial any more.
func StepsAgain(s Spec, job config.Job, t result.Trial) (verified []bool, why string) {
	const changed = "the steps of its task have changed since"
	now := s.Task.Steps()
	if len(t.Steps) > len(now) {
		return nil, changed
	}
	for i, ran := range t.Steps {
		if now[i].StepName() != ran.Name {
			return nil, changed
		}
		own := s
		own.Task = now[i]
		verified = append(verified, ran.Reward != nil || CanVerifyAgain(own, job, combine.Trial(t, i)))
	}
	n := len(t.Steps)
	if goesOn := n == 0 || t.Steps[n-1].Unmet == ""; n < len(now) && (t.Error == nil && goesOn || n == 0 && t.Reward != nil) {
		return nil, changed
	}
	return verified, ""
}

// TestsApart reports whether the tests run in another environment than the agent, which has nothing
// of the agent's but its artifacts.
func (s Spec) TestsApart(job config.Job) bool {
	t, _ := s.apart(job)
	return t != nil
}

// continueSteps sets how the tests of a trial whose task has steps run again, as far as it is the
// same for all steps.
func (r *Again) continueSteps(to *result.Reverified) {
	to.Outcome, to.Artifacts, to.Environment = true, true, ""
	for i, s := range r.Steps {
		if s.Ended {
			continue
		}
		to.Outcome, to.Artifacts = to.Outcome && s.Outcome, to.Artifacts && s.Artifacts
		if where := combine.Trial(r.Before, i).Environment; !s.Artifacts && where != nil {
			to.Environment = where.ID
			if s.Outcome {
				to.Environment = where.Outcome.ID
			}
		}
	}
}

// stageStepsAgain returns the steps of a trial whose task has steps and which is verified again.
// Each step has a separate environment.
func stageStepsAgain(x *execution) []step {
	steps := []step{{"tests of the steps", func(ctx context.Context) { verifyStages(ctx, x) }}}
	if x.spec.judged() {
		steps = append(steps, step{"no judges", x.warnUnjudged})
	}
	return steps
}

// verifyStages runs the tests of the steps again, and combines their rewards as today's task says.
// A step that begins by the new rewards, and did not run, leaves the trial without a reward.
func verifyStages(ctx context.Context, x *execution) {
	again := x.spec.Again
	for i, t := range x.spec.Task.Steps() {
		if i == len(again.Steps) {
			x.Fail(failure.Newf(result.EnvironmentLost, "by the new rewards, the step %s begins, which did not run: there is no reward without it, and the environment for it is gone; "+
				"run the trial again, with its agent (rollout run)", t.StepName()))
			return
		}
		if again.Steps[i].Ended {
			takeStage(x, i)
		} else {
			verifyStage(ctx, x, t, i)
		}
		begins, whole := next(ctx, x, i)
		if !whole {
			return
		}
		if !begins {
			break
		}
	}
	if x.startOver == nil {
		combine.Rewards(&x.Trial, x.spec.Task.Config.Strategy, x.rules.PartialSteps)
	}
}

// verifyStage runs the tests of a step again. t is the step as a task.
func verifyStage(ctx context.Context, x *execution, t *task.Task, i int) {
	again := x.spec.Again
	how, before := again.Steps[i], combine.Trial(again.Before, i)
	own := &Again{Job: again.Job, From: again.From, Before: before, Outcome: how.Outcome}
	if how.Artifacts {
		own.Artifacts = again.Artifacts
	}
	s := newStage(x, t, nil)
	s.run.spec.Again = own
	s.run.tests = newApart(s.run.plan)
	s.run.continueFrom(own, false) // the trial has the costs
	steps := s.run.steps(nil)
	if err := os.MkdirAll(s.run.Dir, 0o755); err != nil {
		unmade := environment.MarkMachineError(err)
		steps = []step{s.run.phase(event.EnvironmentSetup, func(context.Context) error { return unmade })}
	}
	s.run.walk(ctx, steps)
	where := *s.run.Trial.Environment
	where.Verifier = x.Trial.Environment.Verifier
	x.Trial.Environment = &where
	s.note(x)
	ran := &x.Trial.Steps[i]
	ran.Cost, ran.VerifiedOn = again.Before.Steps[i].Cost, how.On()
}

// takeStage takes over the record of a step that ended before its tests.
func takeStage(x *execution, i int) {
	ran := x.spec.Again.Before.Steps[i]
	ran.Outcome = nil
	combine.Add(&x.Trial, ran, &result.Trial{Durations: result.Durations{AgentExecutionSec: ran.AgentExecutionSec, VerifierSec: ran.VerifierSec}})
	if e := ran.Error; e != nil {
		x.Fail(&failure.Error{Type: e.Type, Message: combine.Label(ran.Name) + e.Message})
	}
}
