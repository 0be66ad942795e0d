package inspect

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/ctxio"
	"github.com/org/rollout-action/internal/run/job"
)

// LogRequest is the request of CopyLog.
type LogRequest struct {
	Dir   string // of a job
	Trial string // a part of the trial's name
	Name  string // of the log: setup, command, verifier (each also with /stderr), error, or a path below the trial's directory
	// Follow waits for more until the trial has a result or its job no longer runs.
	Follow bool
}

// followEvery is the interval at which a growing log is checked.
const followEvery = 250 * time.Millisecond

// CopyLog writes a log of a trial to w unchanged. Its content is untrusted.
func CopyLog(ctx context.Context, h *host.Host, req LogRequest, w io.Writer) error {
	if err := h.CheckJobDir(req.Dir); err != nil {
		return err
	}
	key, err := FindTrial(h.Paths, req.Dir, req.Trial)
	if err != nil {
		return err
	}
	file, err := checkLog(req.Name)
	if err != nil {
		return err
	}
	f := follower{dir: h.Path(req.Dir), key: key, file: file, to: w}
	defer f.close()
	waits := sync.OnceFunc(func() { host.Linef(h.Output, "waiting for %s of %s", host.Clean(file), host.Clean(key.String())) })
	for {
		// The trial may end while its log is read, so check first: if it has ended, the log is
		// complete.
		ended := !req.Follow || f.ended()
		switch err := f.reopen(); {
		case errors.Is(err, fs.ErrNotExist) && !ended:
			waits()
		case err != nil:
			return noLog(h, req.Dir, key, file, err)
		default:
			if err := f.copy(ctx); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followEvery):
		}
	}
}

// follower copies a growing file, and starts over when another file replaces it.
type follower struct {
	dir  string
	key  result.Key
	file string
	to   io.Writer
	open *os.File
	seen int64
}

func (f *follower) close() {
	if f.open != nil {
		_ = f.open.Close()
	}
}

// ended reports whether nothing more will be written.
func (f *follower) ended() bool {
	_, err := os.Lstat(filepath.Join(f.dir, filepath.FromSlash(f.key.Dir()), result.ResultFile))
	return err == nil || !job.Running(f.dir)
}

// reopen opens the file, unless it is already open.
func (f *follower) reopen() error {
	now, err := openLog(f.dir, f.key, f.file)
	if err != nil {
		if f.open != nil && errors.Is(err, fs.ErrNotExist) {
			return nil // it is being replaced
		}
		return err
	}
	if f.same(now) {
		return now.Close()
	}
	f.close()
	f.open, f.seen = now, 0
	return nil
}

// copy writes the new content of the file.
func (f *follower) copy(ctx context.Context) error {
	n, err := io.Copy(f.to, ctxio.NewReader(ctx, f.open))
	f.seen += n
	return err
}

// same reports whether now is the file being copied and has not been truncated.
func (f *follower) same(now *os.File) bool {
	if f.open == nil {
		return false
	}
	a, errA := f.open.Stat()
	b, errB := now.Stat()
	return errA == nil && errB == nil && os.SameFile(a, b) && b.Size() >= f.seen
}
