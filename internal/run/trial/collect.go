package trial

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/record"
	"github.com/org/rollout-action/internal/run/trial/reward"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

// collect copies /logs out of the environment in any case, and reads the reward if the tests ended.
// Of an environment that only the tests have, it copies the verifier's. stopMain has copied those
// of one whose main is stopped.
func (x *execution) collect(ctx context.Context) {
	if x.live == nil || x.startOver != nil || x.tests.noMain && !x.tests.moved {
		return
	}
	x.Emit(event.Event{Kind: event.PhaseStarted, Phase: event.Collect})
	c, cancel := x.Cleanup(ctx, timing.CollectTimeout, timing.CollectGrace)
	defer cancel()
	exitCode := x.Trial.VerifierExitCode // nil if the tests did not end
	logs := &record.LogCopy{Record: &x.Record, Env: x.live.env, Rules: x.rules}
	if x.tests.moved {
		logs.Only = record.VerifierLogs
	} else {
		defer x.agentCosts(logs)
	}
	unknown := logs.CopyAll(c, exitCode != nil)
	if exitCode == nil {
		return
	}
	got, failed := x.verdict(logs, *exitCode)
	switch {
	case *exitCode != 0 && x.rules.ExitCodeCounts:
		if failed == nil {
			x.explainIgnoredReward(x.Trial.Error, *exitCode, got.Reward)
		}
	case failed == nil:
		x.Trial.Reward, x.Trial.Rewards = &got.Reward, got.All
		if got.Note != "" {
			x.Warn("%s", got.Note)
		}
		if got.Reward < 0 || got.Reward > 1 {
			x.Warn("the reward %g is not between 0 and 1: a trial passes with exactly 1, and a mean takes each reward as it is", got.Reward)
		}
	case logs.Rewards.Text.Found || logs.Rewards.JSON.Found || unknown == nil || x.rules.Parser != "":
		x.Fail(reward.Explain(failed, x.spec.Task, x.Trial.Omitted))
	case ctx.Err() != nil:
		x.Fail(failure.Cancelled(ctx, event.Collect))
	default:
		x.Fail(failure.Classify(event.Collect, unknown, x.timeouts, x.Secrets))
	}
}

// verdict reads the reward from the files of the tests, or from their output.
func (x *execution) verdict(logs *record.LogCopy, exitCode int) (reward.Verdict, *failure.Error) {
	if x.rules.Parser == "" {
		return logs.Rewards.Read(x.rules, exitCode, x.Secrets)
	}
	return reward.Parsed(x.rules.Parser, x.output.String(), x.spec.Task.Files().TestScript, exitCode, x.outputIn(result.VerifierDir))
}

// collectAgent copies /logs out of the agent's environment, except the directory of the verifier,
// whose tests run in another one.
func (x *execution) collectAgent(ctx context.Context) {
	c, cancel := x.Cleanup(ctx, timing.CollectTimeout, timing.CollectGrace)
	defer cancel()
	logs := &record.LogCopy{Record: &x.Record, Env: x.live.env, Rules: x.rules, Only: record.AgentLogs}
	_ = logs.CopyAll(c, false) // it has warned
	x.agentCosts(logs)
}

// agentCosts adds the cost and the usage that the agent has reported.
func (x *execution) agentCosts(logs *record.LogCopy) {
	if x.spec.Again != nil || x.Trial.Usage != nil { // it is that of the earlier trial, or the gateway has counted it
		return
	}
	x.AddModelCost(logs.Cost)
	_, priced := x.Trial.Costs.Model.Reported()
	if !x.spec.Agent.Reserved() && x.spec.Agent.Model == "" {
		x.AddReportedUsage(priced)
	}
}

// explainIgnoredReward adds to the error of a failed test script that it wrote a reward, which does
// not count. The scripts of datasets for other harnesses end like that.
func (p *plan) explainIgnoredReward(e *result.Error, exitCode int, reward float64) {
	if e.Type == result.VerifierFailed {
		e.Message = fmt.Sprintf("tests/test.sh ended with exit code %d, so the reward %g that it wrote does not count: let it end with exit 0, "+
			"or, if the task was made for Harbor, set %s in the job (its output is in %s)",
			exitCode, reward, p.harborSetting(), p.outputIn(result.VerifierDir))
	}
}

// harborSetting returns the setting that makes the job read this task with Harbor's rules.
func (p *plan) harborSetting() string {
	if p.spec.Key.Dataset == config.TasksDataset {
		return "tasks_format: harbor"
	}
	return "format: harbor for its dataset"
}

// formatErrors lists the errors that a task for Harbor may cause under Rollout's rules.
var formatErrors = []result.ErrorType{result.VerifierFailed, result.VerifierRewardMissing, result.VerifierRewardInvalid}

// suggestHarbor adds the signs that the task was made for Harbor to an error that a wrong format
// may have caused. e may be nil.
func (p *plan) suggestHarbor(e *result.Error) {
	if e == nil || p.spec.Task.Format != task.FormatRollout || strings.Contains(e.Message, p.harborSetting()) {
		return
	}
	if solution := p.spec.Agent.Name == agent.Oracle && e.Type == result.AgentExecutionFailed; !solution && !slices.Contains(formatErrors, e.Type) {
		return
	}
	if sign := p.spec.Task.HarborSign(); sign != "" {
		e.Message += fmt.Sprintf("; the task looks made for Harbor (%s): if it is, set %s in the job", sign, p.harborSetting())
	}
}
