package job

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job/spending"
	"github.com/org/rollout-action/internal/run/trial"
)

func taskRank(_ int, key result.Key) int {
	var n int
	_, _ = fmt.Sscanf(key.Task, "t%d", &n)
	return n
}

// Two jobs with one worker run the trials of each task one after the other, and take turns to be
// the first.
func TestTurnsInterleaveTwoJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(1, []int{0, 1}, taskRank)
		var mu sync.Mutex
		var order []string
		var group sync.WaitGroup
		for side, name := range []string{"a", "b"} {
			list := specs(4)
			opts := options(newTree(t, list), runnerFunc(func(_ context.Context, spec trial.Spec) trial.Outcome {
				time.Sleep(time.Second) // until all others wait for their turn
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name+spec.Key.Task)
				return passed(spec.Key)
			}), &recorder{})
			opts.Turn = turns.Side(side)
			group.Go(func() {
				defer turns.Leave(side)
				if job, err := Run(t.Context(), list, opts); err != nil || job.CompletedTrials != 4 {
					t.Error(job.CompletedTrials, err)
				}
			})
		}
		group.Wait()
		if got, want := strings.Join(order, " "), "at00 bt00 bt01 at01 at02 bt02 bt03 at03"; got != want {
			t.Errorf("the order is %s, want %s", got, want)
		}
	})
}

// The turns limit the running trials, for any number of workers of each job. A trial that is
// cancelled while it waits uses up none.
func TestTurnsBoundWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(2, nil, taskRank)
		hold := turns.Side(0)
		var done []func()
		for range 2 {
			end, ok := hold(result.Key{})(t.Context())
			if !ok {
				t.Fatal("there is no turn")
			}
			done = append(done, end)
		}
		ctx, cancel := context.WithCancel(t.Context())
		got := make([]bool, 3)
		var group sync.WaitGroup
		for i := range got {
			c := t.Context()
			if i == 0 {
				c = ctx
			}
			group.Go(func() {
				_, got[i] = turns.Side(1)(result.Key{Task: fmt.Sprintf("t%02d", i)})(c)
			})
		}
		synctest.Wait()
		if slices.Contains(got, true) {
			t.Error("a third trial runs")
		}
		cancel()
		synctest.Wait()
		done[0]()
		done[0]() // a second time has no effect
		synctest.Wait()
		if !slices.Equal(got, []bool{false, true, false}) {
			t.Errorf("turns were given to %v", got)
		}
		done[1]()
		group.Wait()
		if !got[2] {
			t.Error("the last one has no turn")
		}
	})
}

// The costs of one job stop the other one, too.
func TestJobsShareABudget(t *testing.T) {
	spent := &spending.Spending{}
	list := specs(3)
	opts := options(newTree(t, list), runnerFunc(func(_ context.Context, spec trial.Spec) trial.Outcome {
		spent.Add(5) // by a trial of the other job
		return costs(spec.Key, 1)
	}), &recorder{})
	opts.Workers, opts.Budget = 1, spending.Budget{CostUSD: 6, Spent: spent}
	job, err := Run(t.Context(), list, opts)
	if err != nil || job.CompletedTrials != 1 || len(job.Stopped) != 1 {
		t.Errorf("%d completed, stopped %+v, %v", job.CompletedTrials, job.Stopped, err)
	}
}

// A job without trials to run does not keep the other one waiting.
func TestTurnsOfAJobThatEnds(t *testing.T) {
	turns := NewTurns(1, []int{0, 1}, taskRank)
	list := specs(1)
	opts := options(newTree(t, list), runnerFunc(func(_ context.Context, spec trial.Spec) trial.Outcome { return passed(spec.Key) }), &recorder{})
	opts.Turn = turns.Side(0)
	ended := make(chan int)
	go func() {
		job, _ := Run(t.Context(), list, opts)
		ended <- job.CompletedTrials
	}()
	turns.Leave(1)
	if n := <-ended; n != 1 {
		t.Errorf("%d trials completed", n)
	}
}

// A job that was resumed may have no trial in the first round that the other one still has some in.
func TestNoTrialWaitsForAJobThatHasNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(1, []int{0, 1}, taskRank)
		turns.Await([]int{1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, ok := turns.Side(1)(result.Key{})(ctx); !ok {
			t.Error("the trial still waits")
		}
	})
}
