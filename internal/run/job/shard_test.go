package job

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial"
)

// suite returns the specs of a job: every agent at every task, as often as attempts says.
func suite(agents, tasks, attempts int) []trial.Spec {
	var list []trial.Spec
	for a := range agents {
		for t := range tasks {
			for n := 1; n <= attempts; n++ {
				list = append(list, trial.Spec{Key: result.Key{
					Agent: fmt.Sprint("agent-", a), Dataset: fmt.Sprint("set-", t%2), Task: fmt.Sprintf("task-%03d", t), Attempt: n,
				}})
			}
		}
	}
	return list
}

// someTimings returns durations for about half of the specs' tasks.
func someTimings(list []trial.Spec, r *rand.Rand) Timings {
	timings := Timings{}
	for _, s := range list {
		if key := timed(s.Key); r.IntN(2) == 0 {
			timings[key] = time.Duration(r.ExpFloat64() * float64(time.Minute))
		}
	}
	return timings
}

func TestEveryTrialIsInOneShard(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		list := suite(1+r.IntN(4), 1+r.IntN(30), 1+r.IntN(6))
		n := 1 + r.IntN(40)
		var timings Timings
		if r.IntN(2) == 0 {
			timings = someTimings(list, r)
		}
		shards := Shards(list, n, timings)
		if len(shards) != len(list) {
			t.Fatalf("seed %d: %d trials, shards for %d", seed, len(list), len(shards))
		}
		counts := make([]int, n+1)
		for _, s := range shards {
			if s < 1 || s > n {
				t.Fatalf("seed %d: shard %d of %d", seed, s, n)
			}
			counts[s]++
		}
		empty := 0
		for _, c := range counts[1:] {
			if c == 0 {
				empty++
			}
		}
		if empty > max(0, n-len(list)) {
			t.Errorf("seed %d: %d trials leave %d of %d shards empty", seed, len(list), empty, n)
		}
		if again := Shards(list, n, maps.Collect(maps.All(timings))); !slices.Equal(again, shards) {
			t.Errorf("seed %d: the same arguments gave another split", seed)
		}
	}
}

func TestSplitDoesNotDependOnTheOrderOfTheJobFile(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 2))
		list := suite(2, 20, 1)
		timings := someTimings(list, r)
		byKey := map[result.Key]int{}
		for i, s := range Shards(list, 4, timings) {
			byKey[list[i].Key] = s
		}
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for i, s := range Shards(list, 4, timings) {
			if byKey[list[i].Key] != s {
				t.Fatalf("seed %d: %s moved from shard %d to %d", seed, list[i].Key, byKey[list[i].Key], s)
			}
		}
	}
}

// tasksOf counts the shards of each task.
func tasksOf(list []trial.Spec, shards []int) map[string]int {
	seen := map[string]map[int]bool{}
	for i, s := range list {
		if seen[s.Key.Task] == nil {
			seen[s.Key.Task] = map[int]bool{}
		}
		seen[s.Key.Task][shards[i]] = true
	}
	out := map[string]int{}
	for task, in := range seen {
		out[task] = len(in)
	}
	return out
}

func TestSplitWithoutTimingsIsEven(t *testing.T) {
	for _, tc := range []struct {
		name                    string
		agents, tasks, attempts int
		n                       int
		most                    int // how much the sizes of shards may differ
		divided                 int // how many tasks may be in more than one shard
	}{
		{"tasks that divide without a rest", 1, 8, 3, 4, 0, 0},
		{"tasks with a rest differ by one task", 2, 9, 3, 4, 6, 0},
		{"fewer tasks than shards are divided", 1, 3, 2, 4, 1, 3},
		{"one task with many attempts", 1, 1, 10, 4, 1, 1},
		{"two tasks, three shards", 1, 2, 7, 3, 1, 2},
		{"as many shards as trials", 2, 3, 2, 12, 0, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list := suite(tc.agents, tc.tasks, tc.attempts)
			shards := Shards(list, tc.n, nil)
			counts := make([]int, tc.n)
			for _, s := range shards {
				counts[s-1]++
			}
			if d := slices.Max(counts) - slices.Min(counts); d > tc.most {
				t.Errorf("the sizes are %v", counts)
			}
			divided := 0
			for _, in := range tasksOf(list, shards) {
				if in > 1 {
					divided++
				}
			}
			if divided > tc.divided {
				t.Errorf("%d tasks are divided", divided)
			}
		})
	}
}

func TestOnlyLargeTasksAreDivided(t *testing.T) {
	list := suite(1, 12, 4)
	timings := Timings{}
	for _, s := range list {
		timings[timed(s.Key)] = time.Minute
		if s.Key.Task == "task-005" {
			timings[timed(s.Key)] = time.Hour
		}
	}
	for task, in := range tasksOf(list, Shards(list, 4, timings)) {
		if want := task == "task-005"; (in > 1) != want {
			t.Errorf("%s is in %d shards", task, in)
		}
	}
}

// TestNoShardIsMuchSlowerThanTheMean compares large splits with the bound of every greedy one.
func TestNoShardIsMuchSlowerThanTheMean(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		list := suite(1+r.IntN(3), 2+r.IntN(40), 1+r.IntN(4))
		timings := someTimings(list, r)
		weights, known := timings.weights(list)
		if !known {
			continue
		}
		n := 2 + r.IntN(12)
		var total, largest int64
		for _, u := range divide(unitsOf(list, weights), weights, n) {
			total += u.weight
			largest = max(largest, u.weight)
		}
		loads := make([]int64, n)
		for i, s := range Shards(list, n, timings) {
			loads[s-1] += weights[i]
		}
		if most := slices.Max(loads); most > total/int64(n)+largest {
			t.Errorf("seed %d: the longest of %d shards takes %d ms of %d, the largest unit %d", seed, n, most, total, largest)
		}
	}
}

// TestSmallSplitsAreCloseToTheBest tries all splits: the bound is Graham's, 4/3 - 1/(3n).
func TestSmallSplitsAreCloseToTheBest(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 4))
		units := make([]unit, 2+r.IntN(6))
		for i := range units {
			units[i] = unit{task: fmt.Sprint(i), trials: []int{i}, weight: int64(1 + r.IntN(50))}
		}
		n := 2 + r.IntN(2)
		shards := make([]int, len(units))
		assign(units, n, shards)
		got := longest(units, shards, n)
		best := bestSplit(units, n)
		if 3*n*int(got) > (4*n-1)*int(best) {
			t.Errorf("seed %d: %d, the best is %d", seed, got, best)
		}
	}
}

func longest(units []unit, shards []int, n int) int64 {
	loads := make([]int64, n)
	for i, s := range shards {
		loads[s-1] += units[i].weight
	}
	return slices.Max(loads)
}

func bestSplit(units []unit, n int) int64 {
	shards := make([]int, len(units))
	best := int64(1 << 60)
	var try func(i int)
	try = func(i int) {
		if i == len(units) {
			best = min(best, longest(units, shards, n))
			return
		}
		for s := 1; s <= n; s++ {
			shards[i] = s
			try(i + 1)
		}
	}
	try(0)
	return best
}

func TestTimingsOf(t *testing.T) {
	key := func(task string, n int) result.Key {
		return result.Key{Agent: "a", Dataset: "d", Task: task, Attempt: n}
	}
	timings := TimingsOf(result.Job{Results: result.OutcomesOf([]result.Outcome{
		{Key: key("mean", 1), DurationSec: 2},
		{Key: key("mean", 2), DurationSec: 4},
		{Key: key("cut short", 1), DurationSec: 1, Error: result.Cancelled},
		{Key: key("endless", 1), DurationSec: 1e300},
		{Key: key("negative", 1), DurationSec: -1},
	}...)})
	want := Timings{key("mean", 0): 3 * time.Second, key("endless", 0): longestTiming}
	if !maps.Equal(timings, want) {
		t.Errorf("got %v, want %v", timings, want)
	}
}

func TestUnknownTasksTakeTheMedian(t *testing.T) {
	list := suite(1, 5, 1)
	timings := Timings{timed(list[0].Key): time.Second, timed(list[1].Key): time.Minute, timed(list[2].Key): time.Hour}
	each, known := timings.Expect(list)
	want := []time.Duration{time.Second, time.Minute, time.Hour, time.Minute, time.Minute}
	if !known || !slices.Equal(each, want) {
		t.Errorf("got %v", each)
	}
	if _, known := (Timings{{Agent: "other"}: time.Hour}).Expect(list); known {
		t.Error("timings of other tasks say something")
	}
}

func TestShardsNeeded(t *testing.T) {
	list := suite(1, 40, 1)
	timings := Timings{}
	for _, s := range list {
		timings[timed(s.Key)] = time.Minute
	}
	slow := maps.Clone(timings)
	slow[timed(list[0].Key)] = time.Hour
	for _, tc := range []struct {
		name       string
		timings    Timings
		concurrent int
		target     time.Duration
		limit      int
		want       int
	}{
		{"forty minutes in quarters of an hour", timings, 1, 15 * time.Minute, 256, 3},
		{"four at a time", timings, 4, 15 * time.Minute, 256, 1},
		{"no more than the limit", timings, 1, time.Minute, 10, 10},
		{"no more than the trials", timings, 1, time.Second, 256, 40},
		{"as long as the longest trial, which cannot be divided", slow, 1, 15 * time.Minute, 256, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := ShardsNeeded(list, tc.timings, tc.concurrent, tc.target, tc.limit); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}
