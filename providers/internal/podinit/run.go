package podinit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/initwire"
)

// Run is a program to run as it is, without a shell. Its user, directory and variables are the
// image's and those of the environment.
type Run struct {
	Args     []string
	Output   io.Writer // gets both outputs
	Begun    func()    // if not nil, is called when it has begun
	Terminal bool      // it runs on a terminal, without input
}

// Run runs a program until it exits, and returns its exit code. If ctx ends, it ends the program
// and all that it started. Fails with KindExec if the program cannot be started.
func (e *Environment) Run(ctx context.Context, of Run) (int, error) {
	r := request{Op: opExec, ID: e.commands.Add(1), Merged: true, Command: &initwire.Command{
		Args: of.Args, Env: e.environ(e.variables()), Dir: cmp.Or(e.opts.Image.WorkDir, "/"), User: e.opts.Image.User,
	}}
	var terminal *environment.Terminal
	if of.Terminal {
		r.Terminal = &environment.TerminalSize{Columns: 80, Rows: 24}
		terminal = &environment.Terminal{Size: *r.Terminal}
	}
	sinks := environment.NewSinks(of.Output, of.Output)
	answer, err := e.run(ctx, r, nil, sinks, terminal, of.Begun)
	_ = sinks.Close() // writers of logs do not fail
	refused := new(guestError)
	switch {
	case err == nil:
		return answer.Code, nil
	case errors.Is(err, errNotEnded):
		return -1, &environment.Error{Kind: environment.KindLost, Err: err}
	case ctx.Err() != nil:
		return -1, ctx.Err()
	case errors.As(err, &refused):
		return -1, &environment.Error{Kind: environment.KindExec, Err: fmt.Errorf("%q could not be started: %w", of.Args, err)}
	}
	return -1, e.failed(ctx, environment.KindLost, "run a program in the container", err)
}
