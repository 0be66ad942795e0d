package rerun

import (
	"errors"
	"io/fs"
	"os"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/resume"
)

// Existing is the existing directory of a job.
type Existing struct {
	Lock   *job.Lock // nil: there is no directory
	Begun  bool
	Stored resume.Job // if it has begun
}

// Plan returns the plan of the job that is continued; nil if none has begun.
func (e Existing) Plan() *result.Plan {
	if !e.Begun {
		return nil
	}
	return &e.Stored.Plan
}

// CheckResumable refuses Resume for a job whose name is not known in advance.
func CheckResumable(p *stages.Planned) error {
	if p.Unnamed {
		return host.Usagef("%s: --resume needs a job with a name, by which its directory is found: add name: to the file, or --name", host.Clean(p.File))
	}
	if p.Numbered != nil {
		return host.Usagef("%s: --resume finds a job's directory by its name, and {run} in name makes a new one with each run: give its --name, or use rollout resume JOB_DIR", host.Clean(p.File))
	}
	return nil
}

// OpenExisting opens the directory of a job that is run with Resume.
func OpenExisting(p *stages.Planned) (e Existing, err error) {
	h, dir := p.Host, p.Dir()
	if err := CheckResumable(p); err != nil {
		return e, err
	}
	if _, err := os.Lstat(h.Path(dir)); errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if e.Lock, err = takeLock(h.Paths, h.Output, h.Now(), dir); err != nil {
		return Existing{}, err
	}
	e.Stored, err = OpenStored(h.Paths, dir)
	if errors.Is(err, resume.ErrNotBegun) {
		if empty, emptyErr := job.NotBegun(h.Path(dir)); emptyErr == nil && empty {
			return e, nil
		}
		err = host.Usagef("%w: choose another --name, or remove the directory", err)
	}
	if err != nil {
		_ = e.Lock.Release() // only the lock file is left, which has no meaning by itself
		return Existing{}, err
	}
	e.Begun = true
	return e, nil
}
