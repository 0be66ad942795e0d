package environmenttest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/commands"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

var execMutants = []broken{
	{"holds output back until the end", []string{"output is handed on while the command runs"}, hooks{exec: holdBack(false)}},
	{"keeps all output in memory", []string{"256 MiB of output needs no memory"}, hooks{exec: holdBack(false)}},
	{"loses the output of a command that did not end well", []string{"output from before a timeout is kept"}, hooks{exec: holdBack(true)}},
	{"writes both streams to one", []string{"the two output streams keep their order and do not mix"},
		changeExec(func(_ *string, o *environment.ExecOptions) { o.Stderr = o.Stdout })},
	{"passes the script as one argument", []string{"a script of 200 kB runs"}, hooks{
		exec: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
			if len(script) >= 128<<10 {
				return 0, &environment.Error{Kind: environment.KindExec, Err: errors.New("argument list too long")}
			}
			return e.Environment.Exec(ctx, script, o)
		}}},
	{"forgets variables", []string{"variables reach the command unchanged, the nearest wins"},
		changeExec(func(_ *string, o *environment.ExecOptions) { o.Env = nil })},
	{"has variables in its arguments", []string{"values of variables are in no process's arguments"},
		changeExec(func(script *string, _ *environment.ExecOptions) {
			*script = `bash -c 'sleep 3600; :' "$SECRET_A" "$SECRET_B" & until [[ $(tr '\0' ' ' < /proc/$!/cmdline) = *"$SECRET_A"*"$SECRET_B"* ]]; do :; done; ` + *script
		})},
	{"runs everything as root in the root", []string{"a command runs where and as whom it is told",
		"an unknown user cannot start a command", "a missing working directory is an error"},
		changeExec(func(_ *string, o *environment.ExecOptions) { o.User, o.WorkDir = "", "" })},
	{"gives no input", []string{"input arrives unchanged and ends"},
		changeExec(func(_ *string, o *environment.ExecOptions) { o.Stdin = nil })},
	{"never ends the input", []string{"no input is empty input"},
		changeExec(func(_ *string, o *environment.ExecOptions) { o.Stdin, _ = io.Pipe() })},
	{"reads the input before it starts", []string{"input that is not read does not block the command"},
		changeExec(func(_ *string, o *environment.ExecOptions) {
			if o.Stdin != nil {
				data, _ := io.ReadAll(o.Stdin)
				o.Stdin = bytes.NewReader(data)
			}
		})},
	{"loses the end of the output", []string{"what a command writes last arrives whole"},
		changeExec(func(_ *string, o *environment.ExecOptions) { o.Stdout = &cutWriter{w: o.Stdout, left: 10 << 20} })},
	{"swallows a writer's error", []string{"a writer that fails does not stop the command, and its error is returned"}, hooks{
		exec: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
			code, _ := e.Environment.Exec(ctx, script, o)
			return code, nil
		}}},
	{"ignores contexts", []string{"a context that has ended starts nothing", "a cancel kills the command itself"}, hooks{
		exec: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
			return e.Environment.Exec(context.WithoutCancel(ctx), script, o)
		}}},
	{"knows success only", []string{"exit code of a command that fails*", "exit code of a failing last command", "exit code of an unknown command",
		"exit code of a script with a syntax error", "exit code of a script that begins with a dash", "exit code of a command that is *"}, hooks{
		exec: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
			_, err := e.Environment.Exec(ctx, script, o)
			return 0, err
		}}},
	{"knows failure only", []string{"exit code of a command that succeeds", "exit code of an empty script"}, hooks{
		exec: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
			_, err := e.Environment.Exec(ctx, script, o)
			return 1, err
		}}},
	{"reports no time", []string{"the time that a command reports is *"}, reportRan(0)},
	{"reports more time than has passed", []string{"the time that a command reports is *"}, reportRan(time.Hour)},
	{"runs another script", []string{"script with *"}, changeExec(func(script *string, _ *environment.ExecOptions) { *script = "echo another" })},
}

// reportRan returns hooks that make commands report a time.
func reportRan(ran time.Duration) hooks {
	return hooks{exec: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
		code, err := e.Environment.Exec(ctx, script, o)
		if o.Ran != nil {
			*o.Ran = ran
		}
		return code, err
	}}
}

// holdBack passes output on at the end, or never if the command failed.
func holdBack(lose bool) func(*brokenEnv, context.Context, string, environment.ExecOptions) (int, error) {
	return func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
		var held suite.Buffer
		out := o.Stdout
		o.Stdout = &held
		code, err := e.Environment.Exec(ctx, script, o)
		if err == nil || !lose {
			_, _ = io.WriteString(out, held.String())
		}
		return code, err
	}
}

// cutWriter passes on a limited number of bytes.
type cutWriter struct {
	w    io.Writer
	left int
}

func (c *cutWriter) Write(p []byte) (int, error) {
	n := min(len(p), c.left)
	c.left -= n
	_, err := c.w.Write(p[:n])
	return len(p), err
}

// killEverything ends all processes of an environment, whoever started them.
func (e *brokenEnv) killEverything(ctx context.Context) {
	_, _ = e.Environment.Exec(context.WithoutCancel(ctx), "kill -9 -1", environment.ExecOptions{})
}

var killMutants = []broken{
	{"returns after a timeout and leaves everything running", killed(), hooks{exec: abandon}},
	{"returns after a timeout and leaves everything running, and has no limits", []string{"a timeout kills a command " + filledStorage},
		hooks{exec: abandon, unenforced: func() []string { return nil }}},
	{"kills everything, not only what the command started", []string{"what an older process starts while a command is killed lives on",
		"what an older process starts and abandons while a command is killed lives on"}, hooks{
		exec: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
			code, err := e.Environment.Exec(ctx, script, o)
			if err != nil {
				e.killEverything(ctx)
			}
			return code, err
		}}},
	{"kills in all environments", []string{"killing in one environment leaves the others alone"}, hooks{
		programs: true,
		exec: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
			code, err := e.Environment.Exec(ctx, script, o)
			if err != nil {
				for _, other := range e.m.all() {
					other.killEverything(ctx)
				}
			}
			return code, err
		}}},
	{"waits for its writers", []string{"a writer that blocks does not keep a timeout from ending the command"}, hooks{
		patience: 15 * time.Second,
		exec: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
			w := &awaited{w: o.Stdout}
			o.Stdout = w
			defer w.under.Lock()
			return e.Environment.Exec(ctx, script, o)
		}}},
	{"reports a timeout whenever there is one", []string{"a timeout has no effect on a command that ends in time"}, hooks{
		exec: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
			code, err := e.Environment.Exec(ctx, script, o)
			if o.Timeout > 0 {
				err = environment.ErrTimeout
			}
			return code, err
		}}},
	{"ends commands that wait when files come", []string{"files and networks may change while a command waits, whose end ends what came later"}, hooks{
		exec: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
			if script != "echo ready; read -r" {
				return e.Environment.Exec(ctx, script, o)
			}
			o.Stdin = strings.NewReader("\n") // as if the copy had ended it
			return e.Environment.Exec(ctx, script, o)
		}}},
	{"waits for the background", []string{"a background process that holds the output open does not hold up its command"},
		changeExec(func(script *string, _ *environment.ExecOptions) { *script += "\nwait" })},
	{"kills what a command leaves running", []string{"a server outlives the command that started it*",
		"a background process may write to the output of a command that has ended"}, hooks{
		programs: true,
		exec: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
			code, err := e.Environment.Exec(ctx, script, o)
			e.killEverything(ctx)
			return code, err
		}}},
	{"goes on writing after Exec", []string{"a background process may write to the output of a command that has ended"}, hooks{
		exec: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
			code, err := e.Environment.Exec(ctx, script, o)
			if w := o.Stdout; strings.Contains(script, "started") {
				go func() {
					for range 300 {
						time.Sleep(10 * time.Millisecond)
						_, _ = w.Write(nil)
					}
				}()
			}
			return code, err
		}}},
	{"loses output", []string{"output of background processes before the exit arrives"},
		changeExec(func(_ *string, o *environment.ExecOptions) { o.Stdout = nil })},
}

// filledStorage is the attack that needs a storage limit, or one reported as not enforced.
const filledStorage = "that has filled the storage"

// killed returns the names of the checks of commands that are killed, but for filledStorage.
func killed() (names []string) {
	for _, c := range slices.Concat(commands.KillChecks(), commands.HostileKillChecks()) {
		if (strings.HasPrefix(c.Name, "a timeout kills ") || strings.HasPrefix(c.Name, "a cancel kills ")) && !strings.HasSuffix(c.Name, filledStorage) {
			names = append(names, c.Name)
		}
	}
	return names
}

// abandon leaves a command running when its time is over.
func abandon(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
	limit := o.Timeout
	o.Timeout = 0
	type result struct {
		code int
		err  error
	}
	ended := make(chan result, 1)
	go func() {
		code, err := e.Environment.Exec(context.WithoutCancel(ctx), script, o)
		ended <- result{code, err}
	}()
	var timeout <-chan time.Time
	if limit > 0 {
		timeout = time.After(limit)
	}
	select {
	case r := <-ended:
		return r.code, r.err
	case <-timeout:
		return 0, environment.ErrTimeout
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// awaited records whether a write is in progress.
type awaited struct {
	w     io.Writer
	under sync.Mutex
}

func (a *awaited) Write(p []byte) (int, error) {
	a.under.Lock()
	defer a.under.Unlock()
	return a.w.Write(p)
}
