//go:build linux

package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/org/rollout-action/providers/internal/initclient"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/providers/internal/initwire"
)

// Exec implements environment.Environment.
func (e *sandboxEnv) Exec(ctx context.Context, script string, opts environment.ExecOptions) (int, error) {
	return e.exec(ctx, script, opts, nil)
}

// exec runs a script, on a terminal if one is given.
func (e *sandboxEnv) exec(ctx context.Context, script string, opts environment.ExecOptions, t *environment.Terminal) (int, error) {
	parts, err := environment.SplitScript(script)
	if err != nil {
		return -1, &environment.Error{Kind: environment.KindExec, Err: err}
	}
	if err := ctx.Err(); err != nil {
		return -1, err
	}
	command := initwire.Command{
		Args:         append([]string{"bash", "-c", environment.EvalArguments, "bash"}, parts...),
		Env:          environ(e.img.Env, e.env, opts.Env, e.network.variables()),
		Dir:          cmp.Or(opts.WorkDir, e.img.WorkDir),
		User:         cmp.Or(opts.User, e.img.User),
		MaxProcesses: e.perUser,
	}
	limited := ctx
	if opts.Timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = awake.WithTimeoutCause(ctx, opts.Timeout, environment.ErrTimeout)
		defer cancel()
	}
	sinks := environment.NewSinks(opts.Stdout, opts.Stderr)
	if e.process.Running() {
		e.entrypoint.ran.Store(true)
	}
	var code int
	if t == nil {
		code, err = e.process.Run(limited, command, opts.Stdin, sinks.Stdout, sinks.Stderr)
	} else {
		code, err = e.process.RunOnTerminal(limited, command, *t, opts.Stdin, sinks.Stdout)
	}
	writing := sinks.Close()
	switch refused := new(initclient.RequestError); {
	case err == nil && writing != nil:
		return code, fmt.Errorf("write the command's output: %w", writing)
	case err == nil:
		return code, nil
	case errors.Is(err, initclient.ErrInput):
		return code, err
	case errors.Is(err, initclient.ErrNotEnded):
		e.process.End()
		return -1, &environment.Error{Kind: environment.KindLost, Err: fmt.Errorf("the sandbox was ended: %w", err)}
	case limited.Err() != nil:
		return -1, context.Cause(limited)
	case errors.As(err, &refused):
		return -1, &environment.Error{
			Kind: environment.KindExec, Err: fmt.Errorf("the command could not be started: %w", err), Hint: e.execHint(command.User),
		}
	}
	return -1, e.lost("run a command in the sandbox")
}

// execHint returns the hint for a command that could not be started.
func (e *sandboxEnv) execHint(user string) string {
	if e.p.store.mode.lacksUser(user) {
		return oneIDHint
	}
	return "the image needs bash, and the working directory and user must exist in it"
}

const oneIDHint = "this machine grants you one user id, so root is the only user in a sandbox: for others install newuidmap (the package uidmap) " +
	"and 65536 ids for you in /etc/subuid and /etc/subgid, run rollout with sudo, or use environment.type: docker"

// environ merges the variables of an image and of maps, of which later ones win. The result is
// sorted.
func environ(image []string, more ...map[string]string) []string {
	all := map[string]string{"PATH": defaultPath, "HOSTNAME": hostname}
	for _, v := range image {
		if key, value, ok := strings.Cut(v, "="); ok {
			all[key] = value
		}
	}
	for _, m := range more {
		maps.Copy(all, m)
	}
	list := make([]string, 0, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, key+"="+all[key])
	}
	return list
}
