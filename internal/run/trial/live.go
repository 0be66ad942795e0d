package trial

import (
	"context"
	"fmt"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

// liveEnvironment is an environment in which a trial runs.
type liveEnvironment struct {
	env      environment.Environment
	stop     func() (ended bool) // see timing.Deadlines.DestroyOnCancel
	network  environment.Network // the current one
	oomKills int                 // environment.OOMKills at the last call
	// ended is set if the environment was ended because the job was cancelled; see endWatch.
	ended bool
}

// copyTo copies files into the environment.
func (l *liveEnvironment) copyTo(ctx context.Context, files ...environment.Copy) error {
	ctx, cancel := awake.WithTimeout(ctx, timing.CopyTimeout)
	defer cancel()
	return l.env.CopyTo(ctx, files...)
}

// newOOMKills returns the number of processes that were killed for memory since the last call.
func (l *liveEnvironment) newOOMKills(ctx context.Context) int {
	kills := environment.OOMKills(ctx, l.env)
	since := kills - l.oomKills
	l.oomKills = max(kills, l.oomKills)
	return max(0, since)
}

// switchNetwork switches the environment to the network of a phase, if it differs. who names the
// process of the phase.
func (x *agentRun) switchNetwork(ctx context.Context, who string, n environment.Network) error {
	x.refusals.SetActor(who)
	if n.Is(x.live.network) {
		return nil
	}
	ctx, cancel := awake.WithTimeout(ctx, timing.StartTimeout)
	defer cancel()
	if err := environment.SetNetwork(ctx, x.live.env, x.refusals.Counted(n)); err != nil {
		return fmt.Errorf("set the network to %s before %s begins: %w", n, who, err)
	}
	x.live.network = n
	return nil
}

// unenforcedHere returns the limits that do not apply in the current environment.
func (x *agentRun) unenforcedHere() []string {
	if v := x.Trial.Environment.Verifier; v != nil {
		return v.Unenforced
	}
	return x.Trial.Environment.Unenforced
}

// exitKilled is the exit code of a script whose last command was ended by SIGKILL.
const exitKilled = 137

// outOfMemory returns an addition to the message about a failed script if processes were killed for
// memory since the last call: ", and …", or "".
func (x *agentRun) outOfMemory(ctx context.Context) string {
	kills := x.live.newOOMKills(ctx)
	if kills == 0 {
		return ""
	}
	who := "a process was"
	if kills > 1 {
		who = fmt.Sprintf("%d processes were", kills)
	}
	if limit := x.memoryLimit(x.unenforcedHere()); limit != "" {
		return fmt.Sprintf(", and %s killed because the environment needed more memory than its limit of %s", who, limit)
	}
	return fmt.Sprintf(", and %s killed because this machine was out of memory", who)
}
