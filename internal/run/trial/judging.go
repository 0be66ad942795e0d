package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/judging"
	"github.com/org/rollout-action/internal/run/trial/processes"
	"github.com/org/rollout-action/internal/run/trial/record"
)

// mayJudge reports whether the judges run: the agent ended, and the tests have given a reward or
// are disabled.
func (x *execution) mayJudge() bool {
	if x.live == nil || x.startOver != nil {
		return false
	}
	return x.Trial.Reward != nil && (x.NoError() || x.AgentFailed()) || x.job.Verifier.Disable && x.NoError()
}

// warnUnjudged warns that judges do not judge a trial that is verified again, which does not have
// the agent's messages.
func (x *execution) warnUnjudged(context.Context) {
	x.Warn("judges judge only what an agent has just done: the reward is that of the tests alone")
}

// beginProcesses starts the marker for ending the processes of the agent and its install script, if
// judges need that. It may be called again.
func (x *agentRun) beginProcesses(ctx context.Context) error {
	if x.marker != nil || x.making != nil || !slices.ContainsFunc(x.spec.Judges, judging.Judge.EndsProcesses) {
		return nil
	}
	m, err := processes.Start(ctx, x.live.env, environment.ExecOptions{Env: x.commandEnv()})
	x.marker = m
	return err
}

// errUntouchable is the reason why no judge works in the environment of an agent.
var errUntouchable = errors.New("processes of the agent or of an earlier judge may still run, because something ended the process by which Rollout ends them: use placement: fresh")

// endProcesses ends the remaining processes of the agent and the tests.
func (x *agentRun) endProcesses(ctx context.Context) error {
	if x.marker == nil {
		return nil
	}
	m := x.marker
	x.marker = nil
	unknown, err := m.End(ctx, true)
	switch {
	case err != nil:
		return err
	case unknown:
		return errUntouchable
	}
	return nil
}

// judgeAll runs the judges, and adds their scores and the reward to the result. Source:
// docs/internals/judges.md.
func (x *execution) judgeAll(ctx context.Context) error {
	before, again := x.Trial, x.spec.Judging
	tests, rewards := x.Trial.Reward, maps.Clone(x.Trial.Rewards)
	x.Trial.TestsReward, x.Trial.Reward = tests, nil
	x.Trial.Agents = []result.AgentRun{x.policyRun()}
	spec := x.spec
	if x.tests.moved {
		spec = x.tests.before.spec
	}
	subject, bench := spec.subject(), x.bench()
	in, err := subject.WriteEvidence(x.Dir, &x.Trial, x.changes, x.Secrets)
	if err != nil {
		return fmt.Errorf("write what the judges see: %w", err)
	}
	if again != nil {
		before = again.Before
	}
	if err := x.writeUnjudged(before); err != nil {
		return err
	}
	all := make([]judging.Outcome, len(x.spec.Judges))
	var apart sync.WaitGroup
	defer apart.Wait() // even when a judge in this environment panics
	facts := judge.Facts{Tests: tests, Rewards: rewards}
	for i, j := range x.spec.Judges {
		if given, ok := again.Given(j.Name); ok {
			all[i] = given
		} else if j.Place() != judge.InTrial {
			apart.Go(func() { all[i] = bench.JudgeApart(ctx, j, in, facts) })
		}
	}
	inTrial := func(ends bool) {
		for i, j := range x.spec.Judges {
			if _, ok := again.Given(j.Name); !ok && j.Place() == judge.InTrial && j.EndsProcesses() == ends {
				all[i] = bench.Judge(ctx, j, in, facts, x.untouchable)
			}
		}
	}
	inTrial(false) // those that need the agent's processes, before these are ended for the others
	x.untouchable = x.endProcesses(ctx)
	var lost error
	if environment.KindOf(x.untouchable) == environment.KindLost {
		lost = x.untouchable
	} else if ctx.Err() == nil {
		inTrial(true)
	}
	apart.Wait()
	if stopped := cmp.Or(ctx.Err(), lost); stopped != nil {
		judging.Note(&x.Trial, all, x.Warn)
		return stopped
	}
	return subject.Score(&x.Trial, all, tests, rewards, x.Warn)
}

// bench returns the bench of the trial's judges.
func (x *execution) bench() *judging.Bench {
	return &judging.Bench{
		Dir: x.Dir, Attempts: judging.Attempts(x.job), Continues: x.spec.Judging != nil, Places: x.judges,
		Secrets: x.Secrets, Now: x.Now, Digest: x.opts.Digests.JudgeOf, Attempt: x.attempt,
	}
}

// attempt runs an attempt of a judge. It does not change the trial's record, because judges run
// side by side.
func (x *execution) attempt(ctx context.Context, j judging.Judge, in judging.Material, below string) (out judging.Attempt) {
	defer func() {
		if p := recover(); p != nil {
			r := record.Record{Secrets: x.Secrets}
			func() { defer r.RecoverPanic(); panic(p) }()
			out = judging.Attempt{Failed: &failure.Error{Type: r.Trial.Error.Type, Message: r.Trial.Error.Message, Detail: r.Detail}}
		}
	}()
	run, err := x.judgeAttempt(j, in, below)
	if err != nil {
		f := failure.Classify(event.Judging, err, x.timeouts, x.Secrets)
		f.Message = fmt.Sprintf("the judge %s cannot run: %s", j.Name, f.Message)
		return judging.Attempt{Failed: f}
	}
	v, err := x.runAlone(ctx, j, run)
	if err != nil {
		return judging.Attempt{Failed: failure.Classify(event.Judging, err, x.timeouts, x.Secrets)}
	}
	out = judging.Attempt{Verdict: v, Trial: &run.Trial, Failed: run.failureOf()}
	if f := out.Failed; f != nil {
		lost := f.Type == result.EnvironmentLost || f.Type == result.Cancelled
		out.Again = !lost && run.Trial.StopCondition == "" && (j.Place() != judge.InTrial || x.untouchable == nil) // concurrent judges do not set it
	}
	return out
}

// runAlone runs an attempt of a judge, and ends the processes that it started, or woke, in the
// environment of the trial, so that no later judge meets them.
func (x *execution) runAlone(ctx context.Context, j judging.Judge, attempt *judgeRun) (judge.Verdict, error) {
	if !j.EndsProcesses() {
		return attempt.run(ctx), nil
	}
	m, err := processes.Start(ctx, x.live.env, environment.ExecOptions{Env: x.commandEnv()})
	if err != nil {
		return judge.Verdict{}, err
	}
	v := attempt.run(ctx)
	unknown, err := m.End(ctx, true)
	if unknown && err == nil {
		err = errUntouchable
	}
	x.untouchable = err // judges in this environment run one after the other
	return v, nil
}

// policyRun returns the record of the trial's own agent.
func (x *execution) policyRun() result.AgentRun {
	run := result.AgentRun{
		Name: x.spec.Agent.Name, Role: result.RolePolicy, Agent: x.spec.Agent.Name, Model: x.spec.Agent.Model, Trainable: x.Trial.Trainable, Usage: x.Trial.Usage, Cost: x.Trial.Costs.Model,
		Sec: x.Trial.Durations.AgentExecutionSec, StopCondition: x.Trial.StopCondition, IsTruncated: x.Trial.IsTruncated, Error: x.Trial.Error,
	}
	if _, err := os.Stat(filepath.Join(x.Dir, result.TrajectoryFile)); err == nil {
		run.Trajectory = result.TrajectoryFile
	}
	return run
}

// continueJudging makes the record that of the trial whose judges run.
func (x *execution) continueJudging(g *judging.Pending) {
	now := x.Trial
	x.Trial = g.Before
	x.Trial.ConfigDigest = now.ConfigDigest
	if g.From != "" {
		x.Trial.TaskDigest, x.Trial.TaskGitCommitID, x.Trial.Confirmation = now.TaskDigest, now.TaskGitCommitID, false
		x.continueOther(g)
	}
	x.Began = x.Now().Add(-time.Duration(g.Before.Durations.TotalSec * float64(time.Second)))
}

// continueOther makes the record that of a trial which another job ran.
func (x *execution) continueOther(g *judging.Pending) {
	t, before := &x.Trial, g.Before
	t.Reused = nil
	t.Reverified = &result.Reverified{
		Job: g.Job, From: g.From, OnlyJudges: true, StartedAt: before.Timestamps.StartedAt, TaskDigest: before.TaskDigest, Reward: before.Reward, AgentCosts: before.Costs,
	}
	t.Reverified.AgentCosts.Judges = t.Reverified.AgentCosts.Judges.Plus(g.SpentOnGiven())
	*t = t.WithoutKept()
}

// writeUnjudged writes the trial in its state before its judges begin.
func (x *execution) writeUnjudged(before result.Trial) error {
	if x.live == nil { // the execution that ran the agent wrote it
		return judging.WriteUnjudged(x.Dir, before)
	}
	before.Durations.TotalSec = result.Seconds(x.Now().Sub(x.Began))
	if cost := x.live.env.Cost(); cost > 0 { // the environment's cost during judging is unknown if rollout is killed
		before.Costs.Environment = before.Costs.Environment.Plus(result.Dollars(cost))
	}
	return judging.WriteUnjudged(x.Dir, before)
}
