package environmenttest

import (
	"context"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// brokenTerminal is a brokenEnv that implements ExecTerminal.
type brokenTerminal struct{ *brokenEnv }

func (b *brokenTerminal) ExecTerminal(ctx context.Context, script string, o environment.ExecOptions, t environment.Terminal) (int, error) {
	return b.m.terminal(b.brokenEnv, ctx, script, o, t)
}

// changeTerminal returns hooks that change the options of a terminal.
func changeTerminal(change func(o *environment.ExecOptions, t *environment.Terminal)) hooks {
	return hooks{patience: 20 * time.Second, terminal: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions, t environment.Terminal) (int, error) {
		change(&o, &t)
		return environment.ExecTerminal(ctx, e.Environment, script, o, t)
	}}
}

var terminalMutants = []broken{
	{"has pipes for a terminal", []string{"a command on a terminal uses *", "typed input *", "a terminal belongs *"},
		hooks{patience: 5 * time.Second, terminal: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions, _ environment.Terminal) (int, error) {
			o.Stderr = o.Stdout
			return e.Environment.Exec(ctx, script, o)
		}}},
	{"does not resize terminals", []string{"a terminal has its size *"},
		changeTerminal(func(_ *environment.ExecOptions, t *environment.Terminal) {
			resized := make(chan environment.TerminalSize)
			t.Resized = resized
		})},
	{"has terminals without a timeout", []string{"a timeout kills a command on a terminal *"},
		changeTerminal(func(o *environment.ExecOptions, _ *environment.Terminal) { o.Timeout = 0 })},
	{"has terminals of what is gone", []string{"a command on the terminal of a destroyed environment is lost"},
		hooks{terminal: func(*brokenEnv, context.Context, string, environment.ExecOptions, environment.Terminal) (int, error) {
			return 0, nil
		}}},
}
