package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/run/shell"
	"github.com/org/rollout-action/internal/run/trial/access"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/processes"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

// isShell reports whether the agent is Rollout's own loop.
func (p *plan) isShell() bool { return p.spec.Agent.Preset == presets.Shell }

// budget returns the agent's budget of its model. Rollout's own loop always has a limit of turns,
// because nothing else would end it.
func (p *plan) budget() agent.Budget {
	b := p.spec.Agent.Budget
	if p.isShell() && b.MaxTurns == 0 {
		b.MaxTurns = shell.MaxTurns
	}
	return b
}

// executeShell runs Rollout's own loop in place of an execute script.
func (x *agentRun) executeShell(ctx context.Context, g *access.Gateway) error {
	if g == nil {
		return failure.Newf(result.InternalError, "the preset %s has no model", presets.Shell) // validate refuses it
	}
	err := x.endGateway(g, x.runShell(ctx, g))
	if errors.Is(err, shell.ErrOverflow) {
		x.Trial.StopCondition, x.Trial.IsTruncated = string(model.StopContext), true
		return nil
	}
	return err
}

// runShell runs the loop until it ends or the agent's time is over. In the latter case it ends the
// processes that the loop started.
func (x *agentRun) runShell(ctx context.Context, g *access.Gateway) error {
	instruction, err := x.role.instruction()
	if err != nil {
		return err
	}
	log, err := x.Capture(result.CommandDir + "/" + result.StdoutFile)
	if err != nil {
		return err
	}
	defer x.Release(log)
	trouble, err := x.Capture(result.CommandDir + "/" + result.StderrFile)
	if err != nil {
		return err
	}
	defer x.Release(trouble)
	opts := environment.ExecOptions{WorkDir: x.spec.Task.Config.Environment.WorkDir, User: x.role.user, Env: x.commandEnv()}
	maps.Copy(opts.Env, x.agentEnv())
	git, err := judgeGit(ctx, x)
	if err != nil {
		return err
	}
	maps.Copy(opts.Env, git)
	clock := timing.NewClock(ctx, x.timeouts.Execute)
	defer clock.End()
	limited := clock.Context()
	marker, err := processes.Start(limited, x.live.env, opts)
	x.agentBegan = !errors.Is(err, environment.ErrNotBegun)
	if err != nil {
		return err
	}
	m := x.opts.Models[x.spec.Agent.Model]
	err = shell.Run(limited, shell.Options{
		API: g.API(), Model: m.Upstream, Transport: g.Transport(), Instruction: instruction, Log: log,
		Exec: func(ctx context.Context, command string, timeout time.Duration, output io.Writer) (int, error) {
			opts := opts
			opts.Stdout, opts.Stderr, opts.Timeout = output, output, timeout
			return clock.Exec(ctx, x.live.env, command, opts)
		},
	})
	late := err != nil && limited.Err() != nil && ctx.Err() == nil
	unknown, failed := marker.End(ctx, late)
	switch {
	case environment.KindOf(err) == environment.KindLost:
		return err
	case failed != nil:
		return failed
	case ctx.Err() != nil:
		return ctx.Err()
	case late:
		if x.remains = unknown; unknown {
			x.Warn("the verifier does not run: processes of the agent may still run, because it ended the process by which Rollout ends them")
		}
		return environment.ErrTimeout
	}
	if err != nil {
		fmt.Fprintln(trouble, err)
	}
	return x.shellFailure(ctx, err)
}

// shellFailure returns the error of a loop as a failure of the trial.
func (x *agentRun) shellFailure(ctx context.Context, err error) error {
	see := x.outputIn(result.CommandDir)
	var unanswered *shell.ModelError
	switch {
	case errors.As(err, &unanswered):
		return failure.Newf(result.AgentExecutionFailed, "the agent ended after %d turns, because %v: see %s", unanswered.Turns, err, see)
	case errors.Is(err, shell.ErrEmpty):
		return failure.Newf(result.ModelEmptyResponse, "the agent ended, because %v: see %s", err, see)
	case environment.KindOf(err) == environment.KindExec:
		return fmt.Errorf("run a command of the agent%s: %w", x.outOfMemory(ctx), err)
	}
	return err
}
