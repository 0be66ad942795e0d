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
	"strings"
	"sync"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// maxReason limits the reason of a verdict in a result, in bytes.
const maxReason = 4 << 10

// defaultJudgeAttempts limits a judge's attempts if retry.judge_attempts is not set.
const defaultJudgeAttempts = 2

// mayJudge reports whether the judges run: the agent ended, and the tests have given a reward or are
// disabled.
func (x *execution) mayJudge() bool {
	if x.live == nil || x.startOver != nil {
		return false
	}
	return x.trial.Reward != nil && (x.noError() || x.agentFailed()) || x.job.Verifier.Disable && x.noError()
}

// warnUnjudged warns that judges do not judge a trial that is verified again, which does not have the
// agent's messages.
func (x *execution) warnUnjudged(context.Context) {
	x.warn("judges judge only what an agent has just done: the reward is that of the tests alone")
}

// endsProcesses reports whether the agent's processes are ended before the judge works.
func endsProcesses(j Judge) bool {
	return j.Place() == judge.InTrial && j.Processes != judge.KeepProcesses
}

// beginProcesses starts the marker for ending the processes of the agent and its install script, if
// judges need that. It may be called again.
func (x *agentRun) beginProcesses(ctx context.Context) error {
	if x.marker != nil || x.making != nil || !slices.ContainsFunc(x.spec.Judges, endsProcesses) {
		return nil
	}
	m, err := startMarker(ctx, x.live.env, environment.ExecOptions{Env: x.commandEnv()})
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
	unknown, err := m.end(ctx, true)
	switch {
	case err != nil:
		return err
	case unknown:
		return errUntouchable
	}
	return nil
}

// judged is the outcome of a judge.
type judged struct {
	run     result.AgentRun
	failed  *failure.Error // the reason why it has no verdict; nil if it has one, or did not have to run
	retries []result.Retry
	omitted []result.Omission
	env     result.USD // the cost of its environments
}

// judgeAll runs the judges, and adds their scores and the reward to the result. Source:
// docs/internals/judges.md.
func (x *execution) judgeAll(ctx context.Context) error {
	before, again := x.trial, x.spec.Judging
	tests, rewards := x.trial.Reward, maps.Clone(x.trial.Rewards)
	x.trial.TestsReward, x.trial.Reward = tests, nil
	x.trial.Agents = []result.AgentRun{x.policyRun()}
	in, err := x.writeEvidence()
	if err != nil {
		return fmt.Errorf("write what the judges see: %w", err)
	}
	if again != nil {
		before = again.Before
	}
	if err := x.writeUnjudged(before); err != nil {
		return err
	}
	all := make([]judged, len(x.spec.Judges))
	var beside sync.WaitGroup
	defer beside.Wait() // even when a judge in this environment panics
	facts := judge.Facts{Tests: tests, Rewards: rewards}
	for i, j := range x.spec.Judges {
		if given, ok := again.given(j.Name); ok {
			all[i] = given
		} else if j.Place() != judge.InTrial {
			beside.Go(func() { all[i] = x.judgeBeside(ctx, j, in, facts) })
		}
	}
	inTrial := func(ends bool) {
		for i, j := range x.spec.Judges {
			if _, ok := again.given(j.Name); !ok && j.Place() == judge.InTrial && endsProcesses(j) == ends {
				all[i] = x.judgeOne(ctx, j, in, facts, x.untouchable)
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
	beside.Wait()
	if stopped := cmp.Or(ctx.Err(), lost); stopped != nil {
		x.noteJudges(all)
		return stopped
	}
	return x.score(all, tests, rewards)
}

// judgeBeside runs a judge outside the trial's environment, as soon as the number of such judges
// allows it.
func (x *execution) judgeBeside(ctx context.Context, j Judge, in *evidence, facts judge.Facts) judged {
	select {
	case x.judges <- struct{}{}:
		defer func() { <-x.judges }()
	case <-ctx.Done():
	}
	return x.judgeOne(ctx, j, in, facts, nil)
}

// judgeOne runs a judge, and again if it gave no verdict and may try again. blocked is the reason
// why it cannot run, or nil. It does not change the trial's record, because judges run side by
// side.
func (x *execution) judgeOne(ctx context.Context, j Judge, in *evidence, facts judge.Facts, blocked error) (out judged) {
	out.run = result.AgentRun{Name: j.Name, Role: result.RoleJudge, Agent: j.Spec.Agent, Model: j.Agent.Model, Placement: string(j.Place()), Digest: x.opts.Digests.JudgeOf(j.Spec)}
	defer func() {
		if f := out.failed; f != nil {
			f.Message = strings.Join(strings.Fields(failure.Hide(x.secrets, f.Message)), " ")
			out.run.Error = &result.Error{Type: f.Type, Message: f.Message}
		}
	}()
	applies, err := j.Applies(facts)
	switch {
	case err != nil:
		out.failed = failure.Newf(result.JudgeFailed, "the judge %s failed: its condition when %v", j.Name, err)
		return out
	case !applies:
		out.run.Skipped = true
		return out
	case blocked != nil:
		out.failed = failure.Newf(result.JudgeFailed, "the judge %s cannot run: %v", j.Name, blocked)
		return out
	}
	x.judgeIn(ctx, j, in, j.Name, &out)
	return out
}

// judgeIn runs a judge until it gives a verdict, at most as often as it may try. Its files are in
// the directory below, in that of all judges.
func (x *execution) judgeIn(ctx context.Context, j Judge, in material, below string, out *judged) {
	dir := filepath.Join(x.dir, result.JudgesDir, below)
	earlier, err := x.spec.Judging.continueJudge(dir, out)
	if err != nil {
		out.failed = failure.Newf(result.InternalError, "the files of the judge %s could not be kept: %v", j.Name, err)
		return
	}
	attempts := JudgeAttempts(x.job)
	began := x.now()
	out.run.StartedAt = new(result.Stamp(began))
	defer func() { out.run.Sec = new(result.Seconds(x.now().Sub(began))) }()
	for n := 1; ; n++ {
		out.run.Attempts = earlier + n
		again := x.judgeOnce(ctx, j, in, below, out)
		x.writeJudged(dir, out)
		if out.failed == nil || !again || n >= attempts || ctx.Err() != nil {
			return
		}
		out.retries = append(out.retries, result.Retry{
			Operation: "judge " + j.Name, Attempt: n, Message: failure.Brief(out.failed, x.secrets), At: result.Stamp(x.now()),
		})
		if err := setAside(dir); err != nil {
			out.failed = failure.Newf(result.InternalError, "the files of the judge %s could not be kept: %v", j.Name, err)
			return
		}
	}
}

// judgeOnce runs an attempt of a judge. again reports whether another one may succeed.
func (x *execution) judgeOnce(ctx context.Context, j Judge, in material, below string, out *judged) (again bool) {
	defer func() {
		if p := recover(); p != nil {
			r := record{secrets: x.secrets}
			func() { defer r.recoverPanic(); panic(p) }()
			out.failed, again = &failure.Error{Type: r.trial.Error.Type, Message: r.trial.Error.Message, Detail: r.detail}, false
		}
	}()
	attempt, err := x.judgeAttempt(j, in, below)
	if err != nil {
		f := classify(event.Judging, err, x.timeouts, x.secrets)
		f.Message = fmt.Sprintf("the judge %s cannot run: %s", j.Name, f.Message)
		out.failed = f
		return false
	}
	v, err := x.runAlone(ctx, j, attempt)
	if err != nil {
		out.failed = classify(event.Judging, err, x.timeouts, x.secrets)
		return false
	}
	t := attempt.trial
	run := &out.run
	run.StopCondition, run.IsTruncated = t.StopCondition, t.IsTruncated
	run.Usage = run.Usage.Plus(t.Usage) // of all attempts, as the cost
	run.Cost = run.Cost.Plus(t.Costs.Model)
	out.env = out.env.Plus(t.Costs.Environment)
	run.Warnings = append(run.Warnings, t.Warnings...)
	out.retries = append(out.retries, t.Retries...)
	for _, o := range t.Omitted {
		out.omitted = append(out.omitted, result.Omission{Path: result.JudgesDir + "/" + below + "/" + o.Path, Reason: o.Reason})
	}
	if _, err := os.Stat(filepath.Join(attempt.dir, result.TrajectoryFile)); err == nil {
		run.Trajectory = result.JudgesDir + "/" + below + "/" + result.TrajectoryFile
	}
	if out.failed = attempt.failureOf(); out.failed != nil {
		lost := out.failed.Type == result.EnvironmentLost || out.failed.Type == result.Cancelled
		return !lost && t.StopCondition == "" && (j.Place() != judge.InTrial || x.untouchable == nil) // concurrent judges do not set it
	}
	run.Verdict, run.Score, run.Criteria = v.JSON, &v.Score, v.Criteria
	run.Reason = excerpt.Middle(failure.Hide(x.secrets, v.Reason), maxReason)
	return false
}

// runAlone runs an attempt of a judge, and ends the processes that it started, or woke, in the
// environment of the trial, so that no later judge meets them.
func (x *execution) runAlone(ctx context.Context, j Judge, attempt *judgeRun) (judge.Verdict, error) {
	if !endsProcesses(j) {
		return attempt.run(ctx), nil
	}
	m, err := startMarker(ctx, x.live.env, environment.ExecOptions{Env: x.commandEnv()})
	if err != nil {
		return judge.Verdict{}, err
	}
	v := attempt.run(ctx)
	unknown, err := m.end(ctx, true)
	if unknown && err == nil {
		err = errUntouchable
	}
	x.untouchable = err // judges in this environment run one after the other
	return v, nil
}

// policyRun returns the record of the trial's own agent.
func (x *execution) policyRun() result.AgentRun {
	run := result.AgentRun{
		Name: x.spec.Agent.Name, Role: result.RolePolicy, Agent: x.spec.Agent.Name, Model: x.spec.Agent.Model, Trainable: x.trial.Trainable, Usage: x.trial.Usage, Cost: x.trial.Costs.Model,
		Sec: x.trial.Durations.AgentExecutionSec, StopCondition: x.trial.StopCondition, IsTruncated: x.trial.IsTruncated, Error: x.trial.Error,
	}
	if _, err := os.Stat(filepath.Join(x.dir, result.TrajectoryFile)); err == nil {
		run.Trajectory = result.TrajectoryFile
	}
	return run
}

// noteJudges adds the records, costs and warnings of the judges to the result.
func (x *execution) noteJudges(all []judged) {
	for _, j := range all {
		if j.run.Name == "" {
			continue
		}
		x.trial.Agents = append(x.trial.Agents, j.run)
		x.trial.Costs.Judges = x.trial.Costs.Judges.Plus(j.run.Cost)
		x.trial.Costs.Environment = x.trial.Costs.Environment.Plus(j.env)
		x.trial.Retries = append(x.trial.Retries, j.retries...)
		x.trial.Omitted = append(x.trial.Omitted, j.omitted...)
		for _, w := range j.run.Warnings {
			x.warn("the judge %s: %s", j.run.Name, w)
		}
	}
}

// score adds the scores of the judges to the result, and computes its reward. It returns the error
// of the first judge that failed and may not.
func (x *execution) score(all []judged, tests *float64, rewards map[string]float64) error {
	x.noteJudges(all)
	scores := map[string]*float64{}
	named := map[string]float64{}
	var first *failure.Error
	for i, j := range all {
		name := x.spec.Judges[i].Name
		scores[name] = j.run.Score
		if j.run.Score != nil {
			named[name] = *j.run.Score
			for criterion, value := range j.run.Criteria {
				named[name+"."+criterion] = value
			}
		}
		switch {
		case j.failed == nil:
		case x.spec.Judges[i].OnError == judge.Ignore && j.failed.Type.Fault() == result.FaultJudge:
			x.warn("%s: %s; its score is null (on_error: ignore)", j.failed.Type, j.failed.Message)
		case first == nil:
			first = j.failed
		default:
			x.warn("%s: %s", j.failed.Type, j.failed.Message)
		}
	}
	for _, j := range x.spec.GroupJudges {
		scores[j.Name] = nil // until the group is ranked
	}
	x.trial.Scores = scores
	x.nameRewards(rewards, named)
	if first != nil {
		return first
	}
	if x.spec.Reward == nil {
		x.trial.Reward = tests
		return nil
	}
	reward, err := x.spec.Reward.Value(tests, rewards, scores)
	if err != nil {
		return failure.Newf(result.JudgeVerdictInvalid, "the reward %v", err)
	}
	x.trial.Reward = &reward
	return nil
}

// nameRewards adds the scores to the named rewards. A reward of the tests with the name of a judge
// or of one of its criteria is left out, so that tests cannot pose as judges.
func (x *execution) nameRewards(rewards, scores map[string]float64) {
	if len(rewards) == 0 && len(scores) == 0 {
		return
	}
	all := map[string]float64{}
	for _, name := range slices.Sorted(maps.Keys(rewards)) {
		owner, _, _ := strings.Cut(name, ".")
		if x.spec.hasJudge(owner) {
			x.warn("the tests' reward %q is left out: a judge has this name", name)
			continue
		}
		all[name] = rewards[name]
	}
	maps.Copy(all, scores)
	x.trial.Rewards = all
}
