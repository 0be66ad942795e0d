package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/trial"
)

// ranks returns job.Options.Rank: judges with scope: group rank the trials of tasks. It is nil
// without such judges, and for the baseline of a pair, because ranks of two jobs are not
// comparable.
func (o *opened) ranks(runner *trial.Runner, digests trial.Digests, emit event.Sink) func(context.Context, []result.Trial, func([]result.Trial)) {
	if unrankedPlan(o.tree.Plan) || !slices.ContainsFunc(o.own(), func(s trial.Spec) bool { return len(s.GroupJudges) > 0 }) {
		return nil
	}
	notice := func(format string, args ...any) {
		emit(event.Event{Time: o.host.Now().UTC(), Kind: event.Notice, Message: fmt.Sprintf(format, args...)})
	}
	return func(ctx context.Context, trials []result.Trial, write func([]result.Trial)) {
		groups := slices.DeleteFunc(trial.GroupsOf(o.own(), trials, digests, o.tree.TrialDir), func(g trial.Group) bool {
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

// unrankedPlan reports whether group judges skip a job.
func unrankedPlan(plan result.Plan) bool { return plan.Beside != nil && plan.Beside.Baseline }

// unranked returns a sentence for each judge of groups that has not ranked all of them.
func unranked(plan result.Plan, trials []result.Trial) (sentences []string) {
	if unrankedPlan(plan) {
		return nil
	}
	type of struct{ judge, dataset, task string }
	owed, failed := map[of]bool{}, map[of]string{}
	for _, t := range trials {
		judged := map[string]bool{}
		for _, run := range t.Agents {
			judged[run.Name] = true
			if run.Role == result.RoleJudge && run.Group != nil && run.Error != nil && !run.Group.Ignored {
				failed[of{run.Name, t.Dataset, t.Task}] = run.Error.Message
			}
		}
		for name, score := range t.Scores {
			if score == nil && !judged[name] && len(t.Agents) > 0 {
				owed[of{name, t.Dataset, t.Task}] = true
			}
		}
	}
	count := func(groups []of, name string) (n int) {
		for _, g := range groups {
			if g.judge == name {
				n++
			}
		}
		return n
	}
	compare := func(a, b of) int {
		return strings.Compare(a.judge+"/"+a.dataset+"/"+a.task, b.judge+"/"+b.dataset+"/"+b.task)
	}
	for _, groups := range [][]of{slices.SortedFunc(maps.Keys(owed), compare), slices.SortedFunc(maps.Keys(failed), compare)} {
		for i, g := range groups {
			if i > 0 && groups[i-1].judge == g.judge {
				continue
			}
			n := plural.Count(count(groups, g.judge), "task")
			if why, ok := failed[g]; ok {
				sentences = append(sentences, fmt.Sprintf("the judge %s gave no ranking of %s; the first, %s/%s: %s", g.judge, n, g.dataset, g.task, why))
			} else {
				sentences = append(sentences, fmt.Sprintf("the judge %s has not ranked %s yet: resume the job", g.judge, n))
			}
		}
	}
	return sentences
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
