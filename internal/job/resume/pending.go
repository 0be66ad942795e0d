package resume

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/nofollow"
	"github.com/org/rollout-action/internal/result"
)

// Pending is what is to be run of a job, and what is there.
type Pending struct {
	Keys    map[result.Key]bool // to be run
	Earlier []result.Trial      // every result that is there, also of what is run again
	Kept    int                 // results that stay
	Missing int                 // trials that have none, or a torn one, and are not to be run
	// Confirmations are the confirmation attempts among Earlier that are made again, if they are still asked for.
	Confirmations map[result.Key]bool
	stale         []result.Key // confirmation attempts of a plan with fewer attempts
}

// pending decides for each of a job's trials whether it is to be run. It refuses a folder that holds what no run has left.
func pendingOf(dir string, keys []result.Key, digests map[taskName]string, policy RerunPolicy) (Pending, error) {
	out := Pending{Keys: map[result.Key]bool{}}
	if err := onlyFolders(dir, keys); err != nil {
		return out, err
	}
	trials, errs := result.ReadEachTrial(dir, keys)
	for i, key := range keys {
		t, err := trials[i], errs[i]
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, result.ErrTorn):
			if policy.OnlyFailed {
				out.Missing++
			} else {
				out.Keys[key] = true
			}
			continue
		case err != nil:
			return out, job.Refuse("%v: remove or mend it", err)
		case t.TaskDigest != "" && t.TaskDigest != digests[taskName{key.Dataset, key.Task}]:
			return out, job.Refuse("%s: is the result of other files of the task than plan.json names: it was not written by this job",
				filepath.Join(dir, filepath.FromSlash(key.Dir()), result.ResultFile))
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

// confirmations adds what there is of confirmation attempts. Those that show nothing, because they were cut short or the infrastructure
// failed, can be made again. now is the plan of today, which may have more attempts than the one that is there.
func (p *Pending) confirmations(dir string, plan, now result.Plan, policy RerunPolicy) error {
	keys := plan.ConfirmationKeys()
	if len(now.Trials) != len(plan.Trials) {
		planned := map[result.Key]bool{}
		for _, k := range now.Trials {
			planned[k] = true
		}
		p.stale = slices.DeleteFunc(keys, func(k result.Key) bool { return planned[k] })
		return nil
	}
	if err := onlyFolders(dir, keys); err != nil {
		return err
	}
	trials, errs := result.ReadEachTrial(dir, keys)
	p.Confirmations = map[result.Key]bool{}
	for i, t := range trials {
		switch {
		case errors.Is(errs[i], fs.ErrNotExist), errors.Is(errs[i], result.ErrTorn):
			continue // made again when it is its turn
		case errs[i] != nil:
			return job.Refuse("%v: remove or mend it", errs[i])
		case !t.Confirmation:
			return job.Refuse("%s: is no confirmation attempt, as plan.json has it", filepath.Join(dir, filepath.FromSlash(keys[i].Dir()), result.ResultFile))
		}
		p.Earlier = append(p.Earlier, t)
		if policy.reruns(t) {
			p.Confirmations[keys[i]] = true
		}
	}
	return nil
}

// onlyFolders refuses trials' folders that are links or files, or are reached through one.
func onlyFolders(dir string, keys []result.Key) error {
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
