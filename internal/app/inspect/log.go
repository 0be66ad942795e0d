package inspect

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/report"
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

// CopyLog writes a log of a trial to w unchanged. Its content is untrusted. If the trial's task has
// steps, the logs setup, command and verifier are those of each step, one after the other, unless
// the trial itself has one.
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
	f := follower{dir: h.Path(req.Dir), key: key, file: file, to: w, copied: map[string]bool{}}
	f.begins = func(dir string) {
		host.Linef(h.Output, "%s of %s:", host.Clean(path.Join(dir, file)), host.Clean(key.String()))
	}
	defer f.close()
	waits := sync.OnceFunc(func() { host.Linef(h.Output, "waiting for %s of %s", host.Clean(file), host.Clean(key.String())) })
	for {
		// The trial may end while its log is read, so check first: if it has ended, the log is
		// complete.
		ended := !req.Follow || f.ended()
		switch err := f.next(ctx); {
		case err == nil:
		case f.broken:
			return err
		case errors.Is(err, fs.ErrNotExist) && !ended:
			waits()
		default:
			return noLog(h, req.Dir, key, file, err)
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
	dir    string
	key    result.Key
	file   string
	to     io.Writer
	open   *os.File
	at     string // below the trial's directory, of the open file
	seen   int64
	broken bool // writing has failed

	begins  func(dir string) // is called before the log of a step
	ofSteps bool             // the file is one of each step
	copied  map[string]bool  // the directories of steps whose logs are copied, or are not there
	some    bool             // the log of a step was copied
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

// next copies what has been written since the last call.
func (f *follower) next(ctx context.Context) error {
	if !f.ofSteps {
		err := f.reopen(f.file)
		if err == nil {
			return f.copy(ctx)
		}
		if !errors.Is(err, fs.ErrNotExist) || !ofRun(f.file) || len(f.steps()) == 0 {
			return err
		}
		f.ofSteps = true
	}
	return f.nextOfSteps(ctx)
}

// nextOfSteps copies the logs of steps. That of a step has ended when the next one has begun.
func (f *follower) nextOfSteps(ctx context.Context) error {
	dirs := f.steps()
	for i, dir := range dirs {
		if f.copied[dir] {
			continue
		}
		last, at := i == len(dirs)-1, path.Join(dir, f.file)
		began := f.open == nil || f.at != at
		switch err := f.reopen(at); {
		case errors.Is(err, fs.ErrNotExist) && (!last || f.some):
		case err != nil:
			return err
		default:
			if f.some = true; began {
				f.begins(dir)
			}
			if err := f.copy(ctx); err != nil {
				return err
			}
		}
		if !last {
			f.copied[dir] = true
		}
	}
	return nil
}

// steps returns the directories of the trial's steps that have begun.
func (f *follower) steps() []string {
	t := result.Trial{Key: f.key}
	if trials, _ := result.ReadTrials(f.dir, []result.Key{f.key}); len(trials) == 1 {
		t = trials[0]
	}
	return report.StepDirs(report.Input{Files: os.DirFS(f.dir)}, t)
}

// ofRun reports whether a file below a trial's directory is the output of its agent or its tests.
func ofRun(file string) bool {
	for _, name := range LogNames() {
		if name != "error" && logPath(name) == file {
			return true
		}
	}
	return false
}

// reopen opens a file below the trial's directory, unless it is already open.
func (f *follower) reopen(file string) error {
	if f.at != file {
		f.close()
		f.open, f.at = nil, file
	}
	now, err := openLog(f.dir, f.key, file)
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
	f.broken = err != nil
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
