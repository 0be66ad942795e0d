package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/run/shell"
	"github.com/org/rollout-action/internal/run/trial/failure"
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
func (x *agentRun) executeShell(ctx context.Context, g *gateway) error {
	if g == nil {
		return failure.Newf(result.InternalError, "the preset %s has no model", presets.Shell) // validate refuses it
	}
	err := x.closeGateway(g, x.runShell(ctx, g))
	if errors.Is(err, shell.ErrOverflow) {
		x.trial.StopCondition, x.trial.IsTruncated = string(model.StopContext), true
		return nil
	}
	return err
}

// runShell runs the loop until it ends or the agent's time is over. In the latter case it ends the
// processes that the loop started.
func (x *agentRun) runShell(ctx context.Context, g *gateway) error {
	instruction, err := x.role.instruction()
	if err != nil {
		return err
	}
	log, err := x.capture(result.CommandDir + "/" + result.StdoutFile)
	if err != nil {
		return err
	}
	defer x.release(log)
	trouble, err := x.capture(result.CommandDir + "/" + result.StderrFile)
	if err != nil {
		return err
	}
	defer x.release(trouble)
	opts := environment.ExecOptions{WorkDir: x.spec.Task.Config.Environment.WorkDir, User: x.role.user, Env: x.commandEnv()}
	maps.Copy(opts.Env, x.agentEnv())
	git, err := judgeGit(ctx, x)
	if err != nil {
		return err
	}
	maps.Copy(opts.Env, git)
	clock := newClock(ctx, x.timeouts.Execute)
	defer clock.end()
	limited := clock.ctx
	marker, err := startMarker(limited, x.live.env, opts)
	x.agentBegan = !errors.Is(err, environment.ErrNotBegun)
	if err != nil {
		return err
	}
	m := x.opts.Models[x.spec.Agent.Model]
	err = shell.Run(limited, shell.Options{
		API: x.protocol(m), Model: m.Upstream, Transport: g.session.Transport(), Instruction: instruction, Log: log,
		Exec: func(ctx context.Context, command string, timeout time.Duration, output io.Writer) (int, error) {
			opts := opts
			opts.Stdout, opts.Stderr, opts.Timeout = output, output, timeout
			return clock.exec(ctx, x.live.env, command, opts)
		},
	})
	late := err != nil && limited.Err() != nil && ctx.Err() == nil
	unknown, failed := marker.end(ctx, late)
	switch {
	case environment.KindOf(err) == environment.KindLost:
		return err
	case failed != nil:
		return failed
	case ctx.Err() != nil:
		return ctx.Err()
	case late:
		if x.remains = unknown; unknown {
			x.warn("the verifier does not run: processes of the agent may still run, because it ended the process by which Rollout ends them")
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

// marker is a process that begins before an agent's commands. Ending it by its context ends all
// processes that began after it, including those left by commands that have ended.
type marker struct {
	cancel context.CancelFunc
	input  *io.PipeWriter
	done   chan struct{}
	err    error // of Exec; valid when done is closed
}

// markerGrace limits the wait for a marker to end by itself. A marker that a signal has stopped
// ends with the environment.
const markerGrace = 10 * time.Second

// startMarker starts a marker, and returns when it runs. It outlives limited, so that the command
// that is running then is ended first.
func startMarker(limited context.Context, env environment.Environment, opts environment.ExecOptions) (*marker, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(limited))
	input, output := io.Pipe()
	ready := &firstWrite{came: make(chan struct{})}
	m := &marker{cancel: cancel, input: output, done: make(chan struct{})}
	opts.Stdin, opts.Stdout = input, ready
	go func() {
		defer cancel()
		defer close(m.done)
		defer input.Close()
		_, m.err = env.Exec(ctx, "echo; read -r", opts)
	}()
	select {
	case <-ready.came:
		return m, nil
	case <-m.done:
		if m.err == nil {
			m.err = &environment.Error{Kind: environment.KindExec, Err: errors.New("bash in the environment ends without running what it is given")}
		}
		return nil, m.err
	case <-limited.Done():
		if _, err := m.end(limited, true); err != nil {
			return nil, err
		}
		return nil, context.Cause(limited)
	}
}

// end ends the marker; if all is set, with all processes that began after it. unknown reports
// whether the marker had ended before, so that this could not be done. The end of ctx ends the wait
// for a marker that ends by itself.
func (m *marker) end(ctx context.Context, all bool) (unknown bool, err error) {
	select {
	case <-m.done:
		return true, m.lost()
	default:
	}
	if all {
		m.cancel()
		<-m.done
		return false, m.lost()
	}
	m.input.Close()
	grace := time.NewTimer(markerGrace)
	defer grace.Stop()
	select {
	case <-m.done:
		return false, m.lost()
	case <-grace.C:
	case <-ctx.Done():
	}
	return false, nil
}

// lost returns the error of a marker whose environment was lost, or nil. The marker has ended.
func (m *marker) lost() error {
	if environment.KindOf(m.err) == environment.KindLost {
		return m.err
	}
	return nil
}

// firstWrite is a writer that closes came at the first write.
type firstWrite struct {
	once sync.Once
	came chan struct{}
}

func (w *firstWrite) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.came) })
	return len(p), nil
}
