package job

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job/spending"
	"github.com/org/rollout-action/internal/run/trial"
)

// costs returns an outcome that passed and cost some US dollars.
func costs(key result.Key, usd float64) trial.Outcome {
	o := passed(key)
	o.Trial.Costs.Model = result.Dollars(usd)
	o.Trial.Cost = o.Trial.Costs.Total()
	return o
}

// spentUSD returns a sum of some US dollars.
func spentUSD(usd float64) *spending.Spending {
	s := new(spending.Spending)
	s.Add(usd)
	return s
}

func writtenPlan(t *testing.T, tree *Tree) result.Plan {
	t.Helper()
	plan, err := result.ReadPlan(tree.Dir)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// Four trials run when the third dollar is spent. They end, and no other begins.
func TestCostBudgetStartsNoMoreTrials(t *testing.T) {
	list := specs(20)
	tree, rec := newTree(t, list), &recorder{}
	var begun sync.WaitGroup
	begun.Add(4) // one trial for each worker
	runner := runnerFunc(func(_ context.Context, spec trial.Spec) trial.Outcome {
		begun.Done()
		begun.Wait() // so nothing is spent before all four run
		return costs(spec.Key, 0.75)
	})
	opts := options(tree, runner, rec)
	opts.Budget = spending.Budget{CostUSD: 3, Spent: spentUSD(2.5)}
	opts.Confirm = func(context.Context, []result.Trial) ([]trial.Spec, error) {
		t.Error("confirmation attempts are asked for")
		return nil, nil
	}
	job, err := Run(t.Context(), list, opts)
	if err != nil {
		t.Fatal(err)
	}
	if job.CompletedTrials != 4 || job.SkippedTrials != 16 || rec.count(event.Notice) != 1 {
		t.Errorf("%d completed, %d skipped, %d notices; want 4, 16, 1", job.CompletedTrials, job.SkippedTrials, rec.count(event.Notice))
	}
	// The message names the cost of running trials beyond the budget.
	if len(job.Stopped) != 1 || job.Stopped[0].Reason != result.StopBudgetCost || job.Stopped[0].Skipped != 16 || !strings.Contains(job.Stopped[0].Why, "$5.50") {
		t.Errorf("it stopped because of %+v", job.Stopped)
	}
	if plan := writtenPlan(t, tree); len(plan.Stopped) != 1 {
		t.Errorf("the plan says %+v", plan.Stopped)
	}
}

func TestUsedUpBudgetStartsNothing(t *testing.T) {
	for name, budget := range map[string]spending.Budget{"cost": {CostUSD: 3, Spent: spentUSD(3)}, "time": {Duration: time.Nanosecond}} {
		list := specs(3)
		tree := newTree(t, list)
		opts := options(tree, runnerFunc(func(_ context.Context, spec trial.Spec) trial.Outcome {
			t.Errorf("%s: %s runs", name, spec.Key)
			return passed(spec.Key)
		}), &recorder{})
		opts.Budget = budget
		job, err := Run(t.Context(), list, opts)
		if err != nil || job.SkippedTrials != 3 || len(job.Stopped) != 1 || job.Stopped[0].Skipped != 3 {
			t.Errorf("%s: %d skipped, stopped %+v, %v", name, job.SkippedTrials, job.Stopped, err)
		}
	}
}

// If the last trial uses up the budget, nothing was left out.
func TestBudgetOfACompleteJobIsNoReasonToSayMore(t *testing.T) {
	list := specs(2)
	tree := newTree(t, list)
	opts := options(tree, runnerFunc(func(_ context.Context, spec trial.Spec) trial.Outcome { return costs(spec.Key, 1) }), &recorder{})
	opts.Workers, opts.Budget = 1, spending.Budget{CostUSD: 2}
	job, err := Run(t.Context(), list, opts)
	if err != nil || job.Cancelled || job.Stopped != nil || writtenPlan(t, tree).Stopped != nil {
		t.Errorf("cancelled %v, stopped %+v, %v", job.Cancelled, job.Stopped, err)
	}
}

func TestTimeBudgetCancelsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := specs(20)
		tree, rec := newTree(t, list), &recorder{}
		tree.Plan.StartedAt = time.Now().Add(-50 * time.Minute)
		tree.Plan.Resumed = []result.Resumption{{IdleSec: 20 * 60}} // so it has run for half an hour
		begin := time.Now()
		runner := runnerFunc(func(ctx context.Context, spec trial.Spec) trial.Outcome {
			select {
			case <-ctx.Done():
				return stopped(spec.Key)
			case <-time.After(25 * time.Minute):
				return passed(spec.Key)
			}
		})
		opts := options(tree, runner, rec)
		opts.Budget = spending.Budget{Duration: time.Hour}
		job, err := Run(t.Context(), list, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer time.Sleep(DefaultGrace) // until its timer is over
		if took := time.Since(begin); took != 30*time.Minute {
			t.Errorf("it ran for %s", took)
		}
		if job.CompletedTrials != 4 || job.Errors[result.Cancelled] != 4 || job.SkippedTrials != 12 {
			t.Errorf("%d completed, %d cancelled, %d skipped; want 4, 4, 12", job.CompletedTrials, job.Errors[result.Cancelled], job.SkippedTrials)
		}
		if len(job.Stopped) != 1 || job.Stopped[0].Reason != result.StopBudgetDuration || job.Stopped[0].Cancelled != 4 || job.Stopped[0].Skipped != 12 {
			t.Errorf("it stopped because of %+v", job.Stopped)
		}
	})
}

// The costs of trials that were abandoned, or that panicked, are counted.
func TestTrialsWithoutAnOutcomeOfTheirRunnerHaveTheirCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := specs(2)
		tree := newTree(t, list)
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		opts := options(tree, nil, &recorder{})
		opts.Workers, opts.Budget = 1, spending.Budget{CostUSD: 9, Spent: &spending.Spending{}, Running: &spending.RunningCost{}}
		opts.Runner = runnerFunc(func(_ context.Context, spec trial.Spec) trial.Outcome {
			line := `{"turn":1,"usage":{"input_tokens":5,"output_tokens":5},"cost":0.25}` + "\n"
			if err := os.WriteFile(filepath.Join(tree.TrialDir(spec.Key), result.CallCostsFile), []byte(line), 0o644); err != nil {
				t.Error(err)
			}
			opts.Budget.Spend(spec.Key, 0.25)
			if spec.Key == list[0].Key {
				panic("a bug")
			}
			cancel()
			<-release
			return passed(spec.Key)
		})
		job, err := Run(ctx, list, opts)
		defer close(release)
		if sum := opts.Budget.Spent.Sum(); err != nil || sum != 0.5 {
			t.Errorf("the budget says %g, %v", sum, err)
		}
		trials, _ := result.ReadTrials(tree.Dir, tree.Plan.Own().Slice())
		if len(trials) != 2 || job.TotalCost.Amount() != 0.5 || !job.TotalCost.AtLeast() {
			t.Fatalf("the job has cost %v, a lower bound: %v; the results are %+v", job.TotalCost.Amount(), job.TotalCost.AtLeast(), trials)
		}
		for _, tr := range trials {
			if tr.Costs.Model.Amount() != 0.25 || !tr.CostAtLeast || tr.Usage == nil || tr.Usage.Calls != 1 {
				t.Errorf("%s has cost %+v with %+v", tr.Key, tr.Costs, tr.Usage)
			}
		}
	})
}

// The cost of an unfinished ranking counts once when the judge has ranked again and the trials'
// costs contain it.
func TestCostsOfRankingsThatAreMadeAgainCountOnce(t *testing.T) {
	list := specs(2)
	tree := newTree(t, list)
	opts := options(tree, runnerFunc(func(_ context.Context, spec trial.Spec) trial.Outcome { return costs(spec.Key, 0.5) }), &recorder{})
	opts.Budget = spending.Budget{CostUSD: 9, Spent: spentUSD(2), Unranked: map[result.Key]result.USD{list[0].Key: result.Dollars(2)}}
	opts.Rank = func(_ context.Context, trials []result.Trial, write func([]result.Trial)) {
		for range 2 { // judges
			trials = slices.Clone(trials)
			for i := range trials {
				trials[i].Costs.Judges = result.Dollars(1.5)
			}
			write(trials)
		}
	}
	if _, err := Run(t.Context(), list, opts); err != nil {
		t.Fatal(err)
	}
	if sum := opts.Budget.Spent.Sum(); sum != 4 {
		t.Errorf("two trials have cost 2 each with their judges, and the budget says %g", sum)
	}
}

// A trial that does not end is abandoned, and its result says why it ended.
func TestTimeBudgetAbandonsWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := specs(1)
		tree := newTree(t, list)
		tree.Plan.StartedAt = time.Now()
		release := make(chan struct{})
		opts := options(tree, runnerFunc(func(_ context.Context, spec trial.Spec) trial.Outcome {
			<-release
			return passed(spec.Key)
		}), &recorder{})
		opts.Budget = spending.Budget{Duration: time.Minute}
		job, err := Run(t.Context(), list, opts)
		close(release)
		if err != nil || job.Errors[result.Cancelled] != 1 {
			t.Fatal(job.Errors, err)
		}
		trials, _ := result.ReadTrials(tree.Dir, tree.Plan.Own().Slice())
		if len(trials) != 1 || !strings.Contains(trials[0].Error.Message, "budget.max_duration") {
			t.Errorf("the results are %+v", trials)
		}
	})
}

// The costs of trials that ran again are added up. Files that an agent left do not count.
func TestSupersededCost(t *testing.T) {
	dir := t.TempDir()
	if cost, err := SupersededCost(dir, nil); err != nil || cost.Amount() != 0 {
		t.Error(cost, err)
	}
	write := func(path string, trial any) {
		path = filepath.Join(dir, result.SupersededDir, filepath.FromSlash(path))
		text, err := json.Marshal(trial)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o755)
		}
		if err == nil {
			err = os.WriteFile(path, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	key := result.Key{Agent: "a", Dataset: "d", Task: "t", Attempt: 1}
	reused := costs(key, 100).Trial
	reused.Reused = &result.Reused{}
	write("a/d/t__1/result.json", costs(key, 1).Trial)
	write("a/d/t__1.2/result.json", costs(key, 2).Trial)
	write("a/d/t__1.3/result.json", reused)
	write("a/d/t__1.4/result.json", "torn")
	write("a/d/t__1.5/trajectory.jsonl", map[string]any{"turn": 1, "cost": 4}) // was killed
	write("a/d/t__1.6/costs.jsonl", map[string]any{"turn": 1, "cost": 8})
	write("a/d/t__1.7/trajectory.jsonl", map[string]any{"turn": 1, "cost": 16}) // was killed while its judges worked
	write("a/d/t__1.7/judges/trial.json", map[string]any{"costs": map[string]any{"model": 16}})
	write("a/d/t__1.7/judges/j/trajectory.jsonl", map[string]any{"turn": 1, "cost": 32})
	write("a/d/t__1/logs/result.json", costs(key, 100).Trial)
	write("a/d/t__1/logs/agent/x/result.json", costs(key, 100).Trial)
	write("a/d/t__1.8/result.json", costs(key, 1).Trial)
	write("a/d/t__1.8/judges/best/trajectory.jsonl", map[string]any{"turn": 1, "cost": 64}) // was killed while it ranked
	if cost, err := SupersededCost(dir, []string{"best"}); err != nil || cost.Amount() != 128 {
		t.Errorf("%v, %v; want 128", cost, err)
	}
}

// If only the judges of a trial run again, the cost of the trial counts once, although its new
// result contains it again.
func TestCostsOfTrialsThatAreJudgedAgainCountOnce(t *testing.T) {
	list := specs(2)
	opts := options(newTree(t, list), runnerFunc(func(_ context.Context, spec trial.Spec) trial.Outcome { return costs(spec.Key, 0.75) }), &recorder{})
	opts.Budget = spending.Budget{CostUSD: 9, Spent: spentUSD(0.5), Carried: map[result.Key]result.USD{list[0].Key: result.Dollars(0.5)}}
	if _, err := Run(t.Context(), list, opts); err != nil {
		t.Fatal(err)
	}
	if sum := opts.Budget.Spent.Sum(); sum != 1.5 {
		t.Errorf("two trials have cost 0.75 each, and the budget says %g", sum)
	}
}

// The model cost of a running trial counts at once, and not again when the trial has ended.
func TestCostsOfRunningTrialsCountOnce(t *testing.T) {
	list := specs(5)
	tree, rec := newTree(t, list), &recorder{}
	opts := options(tree, nil, rec)
	opts.Workers = 1
	opts.Budget = spending.Budget{CostUSD: 1, Spent: &spending.Spending{}, Running: &spending.RunningCost{}}
	opts.Runner = runnerFunc(func(_ context.Context, spec trial.Spec) trial.Outcome {
		for range 3 {
			opts.Budget.Spend(spec.Key, 0.125)
		}
		if spec.Key == list[2].Key && !opts.Budget.Used() {
			t.Error("the budget is not used up while a trial runs")
		}
		return costs(spec.Key, 0.375)
	})
	job, err := Run(t.Context(), list, opts)
	if err != nil {
		t.Fatal(err)
	}
	if sum := opts.Budget.Spent.Sum(); sum != 1.125 || job.CompletedTrials != 3 {
		t.Errorf("spent %g by %d trials, want 1.125 by 3", sum, job.CompletedTrials)
	}
}
