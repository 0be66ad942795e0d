package resume

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/run/job"
)

// Job is a job as it is stored in its directory.
type Job struct {
	Dir    string
	Plan   result.Plan
	Config config.Job
	text   []byte // of config.json
}

// ErrNotBegun means that a directory has no plan, so no trial of a job ever began in it.
var ErrNotBegun = errors.New("is not the directory of a job: it has no " + result.PlanFile)

// Load reads the plan and the configuration in a job's directory. It refuses (with a job.Refusal)
// files that no run writes. The error is a diag.List if this version does not know the
// configuration, and ErrNotBegun if there is no plan.
func Load(dir string) (Job, error) {
	j := Job{Dir: dir}
	text, err := nofollow.ReadFile(filepath.Join(dir, result.PlanFile), result.MaxJobFile)
	if errors.Is(err, fs.ErrNotExist) {
		return j, fmt.Errorf("%s %w", dir, ErrNotBegun)
	}
	if err != nil {
		return j, job.Refuse("%v", err)
	}
	if err := bounded.Unmarshal(text, &j.Plan); err != nil {
		return j, job.Refuse("%s: %v: %v", filepath.Join(dir, result.PlanFile), result.ErrTorn, err)
	}
	if err := j.checkPlan(); err != nil {
		return j, job.Refuse("%s: %v", filepath.Join(dir, result.PlanFile), err)
	}
	if j.Plan.ProvesTasks {
		return j, job.Refuse("rollout validate --run wrote it: run that command again")
	}
	if j.Plan.OnlyJudges {
		return j, job.Refuse("rollout rejudge wrote it, so its agents are not to run: run rollout rejudge %s again", j.Plan.Reverifies)
	}
	if j.Plan.Reverifies != "" {
		return j, job.Refuse("rollout verify wrote it, so its agents are not to run: run rollout verify %s again", j.Plan.Reverifies)
	}
	path := filepath.Join(dir, result.ConfigFile)
	if j.text, err = result.ReadConfig(dir); err != nil {
		return j, job.Refuse("its configuration cannot be read: %v", err)
	}
	j.Config, err = config.ParseStored(path, j.text)
	return j, err
}

func (j Job) checkPlan() error {
	if err := j.Plan.Check(); err != nil {
		return err
	}
	if j.Plan.Digest == "" {
		return errors.New("has no digest: it was not made by this version of rollout")
	}
	if j.Plan.JobName == "" {
		return errors.New("has no job_name")
	}
	return job.CheckNames(j.Plan.Trials.Slice())
}

// PathsFrom returns the directory that the relative paths in config.json are relative to, and "" if
// it is not known.
func (j Job) PathsFrom() (string, error) {
	if j.Plan.PathsFrom == "" {
		return "", nil
	}
	real, err := job.RealPath(j.Dir)
	return filepath.Join(real, filepath.FromSlash(j.Plan.PathsFrom)), err
}

// Drift returns the differences that keep the job from being resumed. cfg and now are its current
// configuration and plan.
func (j Job) Drift(cfg config.Job, now result.Plan) ([]Change, error) {
	return drift(j.Config, j.Plan, cfg, now)
}

// Pending returns the trials of the plan now that have to be run. Callers check Drift first. It
// refuses (with a job.Refusal) a directory with files that no run writes.
func (j Job) Pending(now result.Plan, policy RerunPolicy) (Pending, error) {
	digests := make(map[taskName]string, len(now.Tasks))
	for _, t := range now.Tasks {
		digests[taskName{t.Dataset, t.Task}] = t.Digest
	}
	own := now.Own().Slice()
	if err := policy.checkMatches(slices.Concat(own, j.Plan.ConfirmationKeys())); err != nil {
		return Pending{}, err
	}
	out, err := pendingOf(j.Dir, own, digests, policy)
	if err == nil {
		err = out.confirmations(j.Dir, j.Plan, now, policy)
	}
	return out, err
}
