package rerun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/inspect"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/resume"
	"github.com/org/rollout-action/internal/run/job/reuse"
	"github.com/org/rollout-action/internal/run/trial"
)

// followUp is a new job whose trials start from the files of an earlier job's trials: it runs their
// tests or their judges again. The earlier job does not change.
type followUp struct {
	*stages.Planned
	stored  resume.Job
	trials  []string // parts of the names of trials; empty: all
	again   []trial.Spec
	carried []reuse.Found
	missed  map[string][]string // by the reason: the trials that cannot be run again
}

// planFollowUp plans a follow-up of the job in the directory of a request. Messages use what:
// "verified" or "judged".
func planFollowUp(ctx context.Context, h *host.Host, req stages.ResumeRequest, trials []string, what string) (_ *followUp, err error) {
	stored, err := LoadStored(h.Paths, req.Dir, what+" again")
	if err != nil {
		return nil, err
	}
	switch {
	case job.Running(h.Path(req.Dir)):
		return nil, host.Usagef("%s is still running: its trials can be %s again when it has ended", host.Clean(req.Dir), what)
	case stored.Plan.Shard != nil:
		return nil, host.Usagef("%s is a shard: use the job that rollout merge makes of all shards", host.Clean(req.Dir))
	}
	p, err := PlanStored(ctx, h, stored, req)
	if err != nil {
		return nil, err
	}
	q := &followUp{Planned: p, stored: stored, trials: trials, missed: map[string][]string{}}
	q.Orders, q.Purpose = stages.Orders{Report: req.Report}, stages.Purpose{Reverifies: filepath.Clean(req.Dir)}
	q.Job.Environment.PreserveEnv, q.Job.Environment.Keep = config.PreserveNever, config.KeepNone
	if err := q.choose(); err != nil {
		p.Close()
		return nil, err
	}
	return q, nil
}

// LoadStored reads an existing job for a follow-up. Messages use what, as in planFollowUp.
func LoadStored(paths host.Paths, dir, what string) (resume.Job, error) {
	if err := paths.CheckJobDir(dir); err != nil {
		return resume.Job{}, err
	}
	stored, err := resume.Load(paths.Path(dir))
	var refusal job.Refusal
	if errors.As(err, &refusal) || errors.Is(err, resume.ErrNotBegun) {
		err = host.Usagef("%s cannot be %s: %w", host.Clean(dir), what, err)
	}
	return stored, err
}

// choose reduces the plan to the requested trials that the earlier job has.
func (q *followUp) choose() error {
	q.LeaveOutLike(q.stored.Plan)
	q.Rounds = q.stored.Plan.Rounds
	wanted := map[result.Key]bool{}
	for _, key := range q.stored.Plan.Trials.All() {
		wanted[key] = len(q.trials) == 0 && !q.Rounds.Leaves(key)
	}
	for _, part := range q.trials {
		key, err := inspect.FindTrial(q.Host.Paths, q.Reverifies, part)
		if err != nil {
			return err
		}
		wanted[key] = true
	}
	there := map[result.Key]bool{}
	for _, s := range q.Specs {
		there[s.Key] = true
	}
	for _, key := range q.stored.Plan.Trials.All() {
		if wanted[key] && !there[key] {
			q.miss(key, "the job has no such task, agent or attempt any more")
		}
	}
	q.Specs = slices.DeleteFunc(q.Specs, func(s trial.Spec) bool { return !wanted[s.Key] })
	return nil
}

// place chooses the directory of the new job, next to that of the old one. name is the name that
// the user chose; "": the old name with suffix, and a number if that job exists.
func (q *followUp) place(name, suffix string) error {
	q.Numbered, q.Unnamed = nil, false
	q.Job.JobsDir = filepath.Dir(q.Reverifies)
	if q.Job.Name = name; name != "" {
		if result.Slug(name) != name || result.PatternIn(name) != "" || strings.ContainsAny(name, "{}") || strings.HasPrefix(name, "-") {
			return host.Usagef("--name %s: cannot be the name of a directory", host.Clean(name))
		}
		return nil
	}
	base := q.stored.Plan.JobName + suffix
	for n := 1; ; n++ {
		q.Job.Name = base
		if n > 1 {
			q.Job.Name = fmt.Sprintf("%s-%d", base, n)
		}
		if _, err := os.Lstat(q.Host.Path(q.Dir())); errors.Is(err, fs.ErrNotExist) || n == 1000 {
			return nil
		}
	}
}

// miss records why a trial cannot be run again.
func (q *followUp) miss(key result.Key, reason string) {
	q.missed[reason] = append(q.missed[reason], key.String())
}

// explainMissed names the trials that cannot be run again. It uses what as planFollowUp does.
func (q *followUp) explainMissed(what string, carried bool) {
	for _, reason := range slices.Sorted(maps.Keys(q.missed)) {
		names := q.missed[reason]
		after := ""
		if carried {
			after = "; their earlier results are taken over"
		}
		host.Linef(q.Host.Output, "%s cannot be %s again, because %s: %s%s", plural.Count(len(names), "trial"), what, host.Clean(reason), untrusted.Names(names), after)
	}
}

// before returns the results of the earlier job by trial. It reports those that cannot be read.
func (q *followUp) before() map[result.Key]result.Trial {
	trials, unreadable := result.ReadTrials(q.Host.Path(q.Reverifies), job.Keys(q.Specs))
	for _, u := range unreadable {
		host.Warnf(q.Host.Output, "%v", u)
	}
	before := map[result.Key]result.Trial{}
	for _, t := range trials {
		before[t.Key] = t
	}
	return before
}

// source returns the earlier job as a source of reused results.
func (q *followUp) source() reuse.Source {
	return reuse.Source{Label: q.Reverifies, Dir: q.Host.Path(q.Reverifies), Job: q.stored.Plan.JobName}
}
