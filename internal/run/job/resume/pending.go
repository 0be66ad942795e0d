package resume

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/run/job"
)

// Pending divides the trials of a job into those to run and those with results that stay.
type Pending struct {
	Keys    map[result.Key]bool // to be run
	Earlier []result.Trial      // all results, also those of trials that are run again
	Named   map[result.Key]bool // those of Keys that the policy names
	Kept    int                 // results that stay
	Missing int                 // trials without a whole result that are not run
	// Confirmations holds the confirmation attempts among Earlier that are made again if
	// job.Options.Confirm returns them.
	Confirmations map[result.Key]bool
	stale         []result.Key // confirmation attempts of a plan with fewer attempts
}

// pendingOf decides for each of a job's trials whether it is run. It refuses a directory with files
// that no run writes.
func pendingOf(dir string, keys []result.Key, digests map[taskName]string, policy RerunPolicy) (Pending, error) {
	out := Pending{Keys: map[result.Key]bool{}, Named: map[result.Key]bool{}}
	for _, key := range keys {
		if policy.names(key) {
			out.Named[key] = true
		}
	}
	if err := checkTrialDirs(dir, keys); err != nil {
		return out, err
	}
	trials, errs := result.ReadEachTrial(dir, keys)
	for i, key := range keys {
		t, err := trials[i], errs[i]
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, result.ErrTorn):
			if policy.OnlyFailed && !out.Named[key] {
				out.Missing++
			} else {
				out.Keys[key] = true
			}
			continue
		case err != nil:
			return out, job.Refuse("%v: remove or repair it", err)
		case t.TaskDigest != "" && t.TaskDigest != digests[taskName{key.Dataset, key.Task}]:
			return out, job.Refuse("%s: the task had other files than %s says, so this job did not write it",
				filepath.Join(dir, filepath.FromSlash(key.Dir()), result.ResultFile), result.PlanFile)
		}
		if t.Confirmation { // of a plan with fewer attempts
			out.Keys[key] = true
			continue
		}
		out.Earlier = append(out.Earlier, t)
		if policy.reruns(t) {
			out.Keys[key] = true
		} else {
			out.Kept++
		}
	}
	return out, nil
}

// confirmations adds the existing confirmation attempts. Those that were cut short, or that failed
// because of the infrastructure, can be made again. now is the current plan, which may have more
// attempts than the stored one.
func (p *Pending) confirmations(dir string, plan, now result.Plan, policy RerunPolicy) error {
	keys := plan.ConfirmationKeys()
	if now.Trials.Len() != plan.Trials.Len() {
		planned := map[result.Key]bool{}
		for _, k := range now.Trials.All() {
			planned[k] = true
		}
		p.stale = slices.DeleteFunc(keys, func(k result.Key) bool { return planned[k] })
		return nil
	}
	if err := checkTrialDirs(dir, keys); err != nil {
		return err
	}
	trials, errs := result.ReadEachTrial(dir, keys)
	p.Confirmations = map[result.Key]bool{}
	for i, t := range trials {
		switch {
		case errors.Is(errs[i], fs.ErrNotExist), errors.Is(errs[i], result.ErrTorn):
			continue // it is made again if it is still needed
		case errs[i] != nil:
			return job.Refuse("%v: remove or repair it", errs[i])
		case !t.Confirmation:
			return job.Refuse("%s: is no confirmation attempt, but %s says so", filepath.Join(dir, filepath.FromSlash(keys[i].Dir()), result.ResultFile), result.PlanFile)
		}
		p.Earlier = append(p.Earlier, t)
		if policy.reruns(t) {
			p.Confirmations[keys[i]] = true
		}
	}
	return nil
}

// checkTrialDirs refuses trials' directories that are links or files, or below one.
func checkTrialDirs(dir string, keys []result.Key) error {
	seen := map[string]bool{}
	for _, key := range keys {
		path := filepath.FromSlash(key.Dir())
		parent := filepath.Dir(path)
		if !seen[parent] {
			seen[parent] = true
			if err := nofollow.CheckDirs(dir, parent); err != nil {
				return job.Refuse("%v", err)
			}
		}
		if err := nofollow.CheckDir(filepath.Join(dir, path)); err != nil {
			return job.Refuse("%v", err)
		}
	}
	return nil
}

type taskName struct{ dataset, task string }
