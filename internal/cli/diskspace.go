package cli

import (
	"errors"
	"fmt"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/job"
)

// checkDisk returns the error of a machine whose disks are too full for another trial of a job, and what to do about it. resume is
// the command that resumes the job, once it has begun; "" before.
func (a *app) checkDisk(p *session, provider environment.Provider, resume string) error {
	disks := []job.Disk{{What: "results", Dir: a.path(p.dir())}}
	if dir := environment.Disk(provider); dir != "" {
		disks = append(disks, job.Disk{What: "images and environments", Dir: dir})
	}
	err := job.Watermark{Min: int64(p.Job.Environment.MinFreeDisk), Disks: disks, Free: a.FreeDisk}.Check()
	if low := new(job.LowDiskError); errors.As(err, &low) {
		again := ""
		if resume != "" {
			again = ", then run " + resume
		}
		return fmt.Errorf("%w (make room, for example with rollout clean --images --env-type %s%s; environment.min_free_disk: 0 continues regardless)",
			err, clean(p.Job.Environment.Type), again)
	}
	return err
}
