package stages

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/trial"
	"github.com/org/rollout-action/internal/run/trial/experiment"
)

// ranks returns job.Options.Rank: judges with scope: group rank the trials of tasks. It is nil
// without such judges, and for the baseline of a pair, because ranks of two jobs are not
// comparable.
func (o *Opened) ranks(runner *trial.Runner, digests experiment.Digests, emit event.Sink) func(context.Context, []result.Trial, func([]result.Trial)) {
	if reporting.UnrankedPlan(o.Tree.Plan) || !slices.ContainsFunc(o.Own(), func(s trial.Spec) bool { return len(s.GroupJudges) > 0 }) {
		return nil
	}
	notice := func(format string, args ...any) {
		emit(event.Event{Time: o.Host.Now().UTC(), Kind: event.Notice, Message: fmt.Sprintf(format, args...)})
	}
	return func(ctx context.Context, trials []result.Trial, write func([]result.Trial)) {
		groups := slices.DeleteFunc(trial.GroupsOf(o.Own(), trials, digests, o.Tree.TrialDir), func(g trial.Group) bool {
			ranked, ok := g.Kept()
			write(ranked)
			return ok
		})
		if len(groups) == 0 {
			return
		}
		notice("all trials have ended; judges rank those of %s", plural.Count(tasksOf(groups), "task"))
		var all errgroup.Group
		all.SetLimit(max(1, o.Job.NConcurrentTrials))
		for _, g := range groups {
			all.Go(func() error {
				if ctx.Err() == nil {
					ranked := runner.JudgeGroup(ctx, g)
					if ranked.Failed != nil {
						notice("%s", ranked.Failed.Message)
					}
					write(ranked.Trials)
				}
				return nil
			})
		}
		_ = all.Wait() // failures are recorded in the trials
	}
}

// tasksOf returns the number of tasks of groups.
func tasksOf(groups []trial.Group) int {
	tasks := map[string]bool{}
	for _, g := range groups {
		tasks[g.String()] = true
	}
	return len(tasks)
}

// groupJudges returns the names of the judges with scope: group.
func groupJudges(specs []judge.Spec) (names []string) {
	for _, s := range specs {
		if s.Ranks() {
			names = append(names, s.Name)
		}
	}
	return names
}
