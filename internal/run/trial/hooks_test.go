package trial_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
)

// call is a call of a trial to a provider or an environment.
type call struct {
	op     string                  // build, pull, create, copyTo, exec, copyFrom, snapshot, stop, destroy
	script string                  // of exec: the file's name
	env    environment.Environment // nil before create
	in     environment.Provider    // of env
	build  environment.BuildOptions
	create environment.CreateOptions
	vars   map[string]string // of an exec
}

// hooks holds functions that are called around calls.
type hooks struct {
	before func(ctx context.Context, c call) error // if it returns an error, the call is not made and returns that error
	said   func(c call, text string)               // receives the commands' output to stdout
	// listen, if not nil, makes environments that have a loopback device.
	listen func(ctx context.Context) (net.Listener, error)
}

func (h hooks) around(ctx context.Context, c call, do func() error) error {
	if h.before != nil {
		if err := h.before(ctx, c); err != nil {
			return err
		}
	}
	return do()
}

// hooked is a provider with hooks.
type hooked struct {
	environment.Provider
	hooks
}

func (h *hooked) Unwrap() environment.Provider { return h.Provider }

func (h *hooked) BuildImage(ctx context.Context, opts environment.BuildOptions) (ref string, err error) {
	err = h.around(ctx, call{op: "build", build: opts}, func() (err error) {
		ref, err = h.Provider.BuildImage(ctx, opts)
		return err
	})
	return ref, err
}

func (h *hooked) PullImage(ctx context.Context, ref string, progress func(string)) error {
	return h.around(ctx, call{op: "pull"}, func() error { return h.Provider.PullImage(ctx, ref, progress) })
}

func (h *hooked) CreateEnvironment(ctx context.Context, opts environment.CreateOptions) (environment.Environment, error) {
	var env environment.Environment
	err := h.around(ctx, call{op: "create", create: opts}, func() (err error) {
		env, err = h.Provider.CreateEnvironment(ctx, opts)
		return err
	})
	if err != nil {
		return nil, err
	}
	wrapped := &hookedEnv{env, h.Provider, h.hooks}
	if h.listen != nil {
		return listening{wrapped}, nil
	}
	return wrapped, nil
}

// listening is an environment with a loopback device.
type listening struct{ *hookedEnv }

// ListenLoopback implements environment.LoopbackListener.
func (l listening) ListenLoopback(ctx context.Context) (net.Listener, error) { return l.listen(ctx) }

type hookedEnv struct {
	environment.Environment
	provider environment.Provider
	hooks
}

func (h *hookedEnv) Unwrap() environment.Environment { return h.Environment }

func (h *hookedEnv) call(op string) call {
	return call{op: op, env: h.Environment, in: h.provider}
}

func (h *hookedEnv) CopyTo(ctx context.Context, files ...environment.Copy) error {
	return h.around(ctx, h.call("copyTo"), func() error { return h.Environment.CopyTo(ctx, files...) })
}

func (h *hookedEnv) CopyFrom(ctx context.Context, src, dst string, opts environment.ExtractOptions) (out environment.Extracted, err error) {
	err = h.around(ctx, h.call("copyFrom"), func() (err error) {
		out, err = h.Environment.CopyFrom(ctx, src, dst, opts)
		return err
	})
	return out, err
}

func (h *hookedEnv) Exec(ctx context.Context, script string, opts environment.ExecOptions) (code int, err error) {
	c := h.call("exec")
	c.script, c.vars = script[strings.LastIndexByte(script, '/')+1:], opts.Env
	if h.said != nil {
		opts.Stdout = io.MultiWriter(opts.Stdout, hearing(func(text string) { h.said(c, text) }))
	}
	err = h.around(ctx, c, func() (err error) {
		code, err = h.Environment.Exec(ctx, script, opts)
		return err
	})
	return code, err
}

func (h *hookedEnv) Stop(ctx context.Context) error {
	return h.around(ctx, h.call("stop"), func() error { return h.Environment.Stop(ctx) })
}

func (h *hookedEnv) Destroy(ctx context.Context) error {
	return h.around(ctx, h.call("destroy"), func() error { return h.Environment.Destroy(ctx) })
}

func (h *hookedEnv) Snapshot(ctx context.Context, opts environment.SnapshotOptions) (ref string, err error) {
	err = h.around(ctx, h.call("snapshot"), func() (err error) {
		ref, err = environment.Snapshot(ctx, h.Environment, opts)
		return err
	})
	return ref, err
}

func (h *hookedEnv) KeepOutcome(ctx context.Context) (kept environment.Outcome, err error) {
	err = h.around(ctx, h.call("keep"), func() (err error) {
		kept, err = environment.KeepOutcome(ctx, h.Environment)
		return err
	})
	return kept, err
}

// hearing is a writer that passes text to a function.
type hearing func(text string)

func (h hearing) Write(p []byte) (int, error) {
	h(string(p))
	return len(p), nil
}

// fails makes calls of one kind fail.
func fails(op string, err error) hooks {
	return hooks{before: func(_ context.Context, c call) error {
		if c.op == op {
			return err
		}
		return nil
	}}
}

// broken is a failure of a provider.
func broken(kind environment.Kind, transient bool) error {
	return &environment.Error{Kind: kind, Transient: transient, Err: errors.New("the engine coughed")}
}
