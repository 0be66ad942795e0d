package trial

import (
	"context"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial/experiment"
	"github.com/org/rollout-action/internal/run/trial/judging"
	"github.com/org/rollout-action/internal/run/trial/record"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

// Group is a group of trials that a judge ranks; see judging.GroupsOf.
type Group struct {
	judging.Group
	spec Spec // of the trial that has the files of the judge
}

// GroupsOf returns the groups that are pending among the trials of a job. dir returns the directory
// of a trial.
func GroupsOf(specs []Spec, trials []result.Trial, digests experiment.Digests, dir func(result.Key) string) []Group {
	subjects, byKey := make([]judging.Subject, len(specs)), make(map[result.Key]Spec, len(specs))
	for i, s := range specs {
		subjects[i], byKey[s.Key] = s.subject(), s
	}
	var out []Group
	for _, g := range judging.GroupsOf(subjects, trials, digests.JudgeOf, dir) {
		first, _ := g.Files()
		out = append(out, Group{g, byKey[first]})
	}
	return out
}

// JudgeGroup runs a judge that ranks a group. If ctx ends meanwhile, it returns no trials. It
// changes only files of the judge.
func (r *Runner) JudgeGroup(ctx context.Context, g Group) (out judging.Ranked) {
	_, dir := g.Files()
	x := r.execution(g.spec, dir, r.opts.Now(), result.Trial{})
	defer func() {
		if p := recover(); p != nil {
			rec := record.Record{Secrets: x.Secrets}
			func() { defer rec.RecoverPanic(); panic(p) }()
			out.Failed = rec.Trial.Error
		}
	}()
	x.Sink, x.spec.Judging = func(event.Event) {}, &judging.Pending{} // earlier executions' costs count
	var stop func()
	x.Deadlines, stop = timing.NewDeadlines(ctx, x.opts.Hard, x.opts.Patience, x.RecordRetry)
	defer stop()
	made := x.bench().Rank(environment.WithRetryNotify(ctx, x.RecordRetry), &g.Group)
	if ctx.Err() != nil {
		return judging.Ranked{}
	}
	return g.Keep(made)
}

// PendingJudging returns the state from which the judges of a trial continue; see
// judging.PendingOf.
func PendingJudging(s Spec, digests experiment.Digests, dir string) (pending *judging.Pending, why string) {
	return judging.PendingOf(s.subject(), judging.Digests{Agent: digests.Agents[s.Agent.Name], Config: digests.ConfigOf(s.Task)}, dir)
}

// Rejudging returns the state from which judges judge a trial of another job again; see
// judging.Again.
func Rejudging(s Spec, ended result.Trial, dir string, chosen []string) (again *judging.Pending, why string) {
	return judging.Again(s.subject(), ended, dir, chosen)
}
