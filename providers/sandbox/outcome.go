//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/initwire"
)

const (
	// pauseTime bounds how long processes may take to stop, such as one that writes a large file.
	pauseTime = 10 * time.Second
	// resumeTime bounds how long process 1 may take to resume them.
	resumeTime = 10 * time.Second
)

// KeepOutcome implements environment.OutcomeKeeper. It copies the sandbox's changes while signals
// stop its processes. Control groups could freeze them too, but only in version 2, and not on every
// machine.
func (e *sandboxEnv) KeepOutcome(ctx context.Context) (environment.Outcome, error) {
	doing := "keep the files of sandbox " + e.id
	if err := ctx.Err(); err != nil {
		return environment.Outcome{}, err
	}
	if err := e.checkOutcome(ctx); err != nil {
		return environment.Outcome{}, e.requestFailed(ctx, environment.KindSnapshot, doing, err)
	}
	kept, err := e.keep(ctx)
	var still *environment.Error
	switch {
	case err == nil:
		return kept, nil
	case ctx.Err() != nil:
		return environment.Outcome{}, fmt.Errorf("%s: %w", doing, ctx.Err())
	case errors.As(err, &still):
		return environment.Outcome{}, err
	}
	return environment.Outcome{}, e.requestFailed(ctx, environment.KindSnapshot, doing, err)
}

// checkOutcome returns an error if some of the sandbox's files cannot be copied.
func (e *sandboxEnv) checkOutcome(ctx context.Context) error {
	switch {
	case e.p.memory:
		return errInMemory
	case e.kept != "":
		return fmt.Errorf("it continues with the files of another one, %s", e.kept)
	}
	at, err := environment.FileInMemory(ctx, e)
	if err == nil && at != "" {
		err = fmt.Errorf("%s is in memory", at)
	}
	return err
}

// keep copies the changes of the sandbox into the directory of a kept environment.
func (e *sandboxEnv) keep(ctx context.Context) (environment.Outcome, error) {
	none := environment.Outcome{}
	var m meta
	if err := readJSON(filepath.Join(e.dir(), "meta.json"), &m); err != nil {
		return none, err
	}
	d, err := e.p.store.draft()
	if err != nil {
		return none, err
	}
	defer d.discard()
	up := filepath.Join(d.dir, "up")
	if err := errors.Join(os.Mkdir(up, 0o755), os.WriteFile(filepath.Join(d.dir, "kept"), nil, 0o600)); err != nil {
		return none, err
	}
	if m.Size, err = e.copyStopped(ctx, up); err != nil {
		return none, err
	}
	if err := errors.Join(writeJSON(filepath.Join(d.dir, "meta.json"), m), syncLayer(d.dir), ctx.Err()); err != nil {
		return none, err
	}
	id := newID()
	if err := os.Rename(d.dir, e.p.store.path("env", id)); err != nil {
		return none, err
	}
	return environment.Outcome{ID: id, Size: m.Size}, nil
}

// copyStopped copies the changes of the sandbox while its processes are stopped.
func (e *sandboxEnv) copyStopped(ctx context.Context, to string) (size int64, err error) {
	if _, err := e.process.Call(ctx, initwire.Request{Op: initwire.Pause, Within: pauseTime}); err != nil {
		if ctx.Err() != nil || !e.process.Running() {
			return 0, errors.Join(err, e.resume(ctx))
		}
		return 0, &environment.Error{
			Kind: environment.KindSnapshot, Transient: true, Err: fmt.Errorf("keep the files of sandbox %s: %w", e.id, err),
		}
	}
	var printed bytes.Buffer
	copying := e.p.store.mode.work(ctx, workCopy, filepath.Join(e.dir(), "up"), nil, &printed, toKey+"="+to)
	if err := errors.Join(copying, e.resume(ctx)); err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(printed.String()), 10, 64)
}

// resume lets the processes continue, even after the end of ctx.
func (e *sandboxEnv) resume(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resumeTime)
	defer cancel()
	_, err := e.process.Call(ctx, initwire.Request{Op: initwire.Resume})
	return err
}
