package resume

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job"
)

// plan returns the plan for the resumed job: the metrics may have changed, and there may be more
// attempts.
func (j Job) plan(now result.Plan) result.Plan {
	plan := j.Plan
	plan.Metrics, plan.PathsFrom = now.Metrics, now.PathsFrom
	plan.Compared = plan.Compared || now.Compared
	plan.Checksums = now.Checksums
	plan.Stopped = nil
	if plan.Rounds.Follows(now.Rounds) {
		plan.Rounds = now.Rounds
	}
	if now.Trials.Len() != plan.Trials.Len() {
		plan.Trials, plan.Agents, plan.Tasks, plan.Digest = now.Trials, now.Agents, now.Tasks, now.Digest
		plan.Confirm = nil // planned attempts have their numbers now
		plan.Rounds = now.Rounds
	}
	return plan
}

// Reopen makes the directory ready for the pending trials. The tree owns the lock from then on.
//
// If the process is killed at any step, the directory can be resumed. So the configuration is
// replaced before the plan: a job may have more attempts than planned, but not fewer.
//
// prompt returns the tasks' instructions for outputs.jsonl, which gets a line for each result that
// stays. A trial that is to be run again but does not begin, because the job is cancelled, gets its
// line at the end of the run.
func (j Job) Reopen(lock *job.Lock, cfg config.Job, now result.Plan, pending Pending, prompt func(dataset, task string) []result.Message, at time.Time) (*job.Tree, error) {
	plan := j.plan(now)
	plan.Resumed = append(plan.Resumed[:len(plan.Resumed):len(plan.Resumed)], resumption(plan, pending.Earlier, at))
	if now.RolloutVersion != plan.RolloutVersion {
		plan.Resumed[len(plan.Resumed)-1].RolloutVersion = now.RolloutVersion
	}
	t, err := job.Reopen(j.Dir, lock, plan)
	if err != nil {
		return nil, err
	}
	for _, key := range pending.stale {
		if err := t.Supersede(key); err != nil {
			return nil, err
		}
	}
	if err := j.replace(cfg, plan); err != nil {
		return nil, err
	}
	kept := slices.DeleteFunc(slices.Clone(pending.Earlier), func(t result.Trial) bool { return pending.Keys[t.Key] || pending.Confirmations[t.Key] })
	if err := t.Continue(kept, prompt); err != nil {
		return nil, err
	}
	return t, nil
}

// replace writes the configuration and the plan if they differ from the stored ones.
func (j Job) replace(cfg config.Job, plan result.Plan) error {
	cfg.Name = plan.JobName
	for _, file := range []struct {
		name     string
		was, now any
	}{{result.ConfigFile, j.Config, cfg}, {result.PlanFile, j.Plan, plan}} {
		was, err := result.Marshal(file.was)
		if err != nil {
			return err
		}
		now, err := result.Marshal(file.now)
		if err != nil {
			return err
		}
		if bytes.Equal(was, now) {
			continue
		}
		if err := os.Remove(filepath.Join(j.Dir, result.SumsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) { // it has the digest of the old file
			return err
		}
		if err := result.WriteFile(filepath.Join(j.Dir, file.name), now); err != nil {
			return err
		}
	}
	return nil
}

// resumption returns the plan's entry for resuming at a time, with the time in which no trial ran.
func resumption(plan result.Plan, earlier []result.Trial, at time.Time) result.Resumption {
	last := plan.StartedAt
	if n := len(plan.Resumed); n > 0 && plan.Resumed[n-1].At.After(last) {
		last = plan.Resumed[n-1].At
	}
	for _, t := range earlier {
		if end := t.Timestamps.EndedAt; end.After(last) && !end.After(at) {
			last = end
		}
	}
	at = result.Stamp(at)
	return result.Resumption{At: at, IdleSec: result.Seconds(max(0, at.Sub(last)))}
}
