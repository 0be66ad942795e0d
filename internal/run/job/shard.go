package job

import (
	"cmp"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial"
)

// Shards divides trials among n shards. It returns the shard of each spec, from 1. The result
// depends only on the arguments, so every machine divides in the same way.
//
// The trials of one task stay together, because every machine that needs the task's image builds or
// pulls it once. A task is divided only if there are fewer tasks than shards, or if it is larger
// than a shard's share of all trials.
//
// With timings, the shards take about equally long: the longest task is assigned first, each time
// to the shard with the least to do so far. A task without a timing counts as long as the median of
// the others. Without any timing, the shards have about equally many trials. No shard is empty
// unless there are fewer trials than shards.
//
// A task whose trials judges compare is never divided.
func Shards(specs []trial.Spec, n int, timings Timings) []int {
	shards := make([]int, len(specs))
	if n <= 1 {
		for i := range shards {
			shards[i] = 1
		}
		return shards
	}
	weights, known := timings.weights(specs)
	tasks := unitsOf(specs, weights)
	if !known && len(tasks) < n && !slices.ContainsFunc(tasks, func(t unit) bool { return t.whole }) {
		dealEvenly(tasks, n, shards)
		return shards
	}
	assign(divide(tasks, weights, n), n, shards)
	return shards
}

// unit is a set of trials that stay together. trials are indexes of specs, in the plan's order.
type unit struct {
	dataset, task string
	piece         int // of the task, from 0
	trials        []int
	weight        int64
	whole         bool // it is not divided
}

// unitsOf returns the specs by task, sorted by dataset and task.
func unitsOf(specs []trial.Spec, weights []int64) []unit {
	type name struct{ dataset, task string }
	index := map[name]int{}
	var units []unit
	for i, s := range specs {
		key := name{s.Key.Dataset, s.Key.Task}
		at, ok := index[key]
		if !ok {
			at = len(units)
			index[key] = at
			units = append(units, unit{dataset: key.dataset, task: key.task})
		}
		units[at].trials = append(units[at].trials, i)
		units[at].weight += weights[i]
		units[at].whole = units[at].whole || len(s.GroupJudges) > 0
	}
	slices.SortFunc(units, unit.byName)
	return units
}

func (u unit) byName(o unit) int {
	return cmp.Or(cmp.Compare(u.dataset, o.dataset), cmp.Compare(u.task, o.task), cmp.Compare(u.piece, o.piece))
}

// heaviestFirst orders units by weight, the heaviest first, and then by name.
func (u unit) heaviestFirst(o unit) int {
	return cmp.Or(cmp.Compare(o.weight, u.weight), u.byName(o))
}

// dealEvenly cuts the list of trials, task after task, into n parts whose lengths differ by at most
// one. So it divides at most n-1 tasks.
func dealEvenly(tasks []unit, n int, shards []int) {
	at := 0
	for _, t := range tasks {
		for _, i := range t.trials {
			shards[i] = 1 + at*n/len(shards)
			at++
		}
	}
}

// divide cuts the tasks that are larger than a shard's share, and then the largest ones until there
// is a unit for every shard.
func divide(tasks []unit, weights []int64, n int) []unit {
	var total int64
	for _, t := range tasks {
		total += t.weight
	}
	share := (total + int64(n) - 1) / int64(n)
	var units []unit
	for _, t := range tasks {
		parts := 1
		if t.weight > share && !t.whole {
			parts = min(len(t.trials), int((t.weight+share-1)/share))
		}
		units = append(units, t.cut(parts, weights)...)
	}
	for len(units) < n {
		slices.SortFunc(units, unit.heaviestFirst)
		at := slices.IndexFunc(units, func(u unit) bool { return len(u.trials) > 1 && !u.whole })
		if at < 0 {
			break
		}
		units = slices.Replace(units, at, at+1, units[at].cut(2, weights)...)
		renumber(units)
	}
	return units
}

// renumber numbers the pieces of each task in the order of their trials.
func renumber(units []unit) {
	slices.SortFunc(units, func(a, b unit) int {
		return cmp.Or(cmp.Compare(a.dataset, b.dataset), cmp.Compare(a.task, b.task), cmp.Compare(a.trials[0], b.trials[0]))
	})
	for i := range units {
		units[i].piece = 0
		if i > 0 && units[i].dataset == units[i-1].dataset && units[i].task == units[i-1].task {
			units[i].piece = units[i-1].piece + 1
		}
	}
}

// cut returns the unit in as many parts. They have about the same weight and at least one trial
// each.
func (u unit) cut(parts int, weights []int64) []unit {
	if parts <= 1 {
		return []unit{u}
	}
	var cuts []unit
	left, rest := u.weight, u.trials
	for p := range parts {
		part := unit{dataset: u.dataset, task: u.task, piece: p}
		goal := left / int64(parts-p)
		for len(rest) > parts-p-1 && (len(part.trials) == 0 || part.weight+weights[rest[0]]/2 < goal) || p == parts-1 && len(rest) > 0 {
			part.weight += weights[rest[0]]
			part.trials = append(part.trials, rest[0])
			rest = rest[1:]
		}
		left -= part.weight
		cuts = append(cuts, part)
	}
	return cuts
}

// assign gives each unit to the shard with the least to do so far, the heaviest unit first: no
// shard has more than 4/3 of the work of the largest shard in the best division of the units.
// Source: R. L. Graham, Bounds on multiprocessing timing anomalies, 1969.
func assign(units []unit, n int, shards []int) {
	units = slices.SortedFunc(slices.Values(units), unit.heaviestFirst)
	type load struct {
		weight int64
		trials int
	}
	loads := make([]load, n)
	for _, u := range units {
		least := 0
		for s := range loads {
			if cmp.Or(cmp.Compare(loads[s].weight, loads[least].weight), cmp.Compare(loads[s].trials, loads[least].trials)) < 0 {
				least = s
			}
		}
		loads[least].weight += u.weight
		loads[least].trials += len(u.trials)
		for _, i := range u.trials {
			shards[i] = least + 1
		}
	}
}

// Timings holds the expected duration of a trial of an agent at a task. The keys' Attempt is 0.
type Timings map[result.Key]time.Duration

// longestTiming limits the timings in a file, so that sums do not overflow.
const longestTiming = 30 * 24 * time.Hour

// TimingsOf returns the mean durations of the trials of a job. Trials that were cancelled do not
// count.
func TimingsOf(job result.Job) Timings {
	type sum struct {
		total time.Duration
		n     int
	}
	sums := map[result.Key]sum{}
	for _, o := range job.Results.All() {
		if o.Error == result.Cancelled || o.DurationSec < 0 {
			continue
		}
		key := timed(o.Key)
		s := sums[key]
		s.total += time.Duration(min(o.DurationSec, longestTiming.Seconds()) * float64(time.Second)).Round(time.Millisecond)
		s.n++
		sums[key] = s
	}
	timings := Timings{}
	for key, s := range sums {
		timings[key] = s.total / time.Duration(s.n)
	}
	return timings
}

// timed returns the key of a trial's duration in Timings.
func timed(key result.Key) result.Key {
	key.Attempt = 0
	return key
}

// Expect returns the expected duration of each spec, and whether any of them is known. The unknown
// ones count as the median of the known ones.
func (t Timings) Expect(specs []trial.Spec) (each []time.Duration, known bool) {
	each = make([]time.Duration, len(specs))
	unknown := map[int]bool{}
	found := map[result.Key]time.Duration{}
	for i, s := range specs {
		key := timed(s.Key)
		d, ok := t[key]
		if !ok {
			unknown[i] = true
			continue
		}
		each[i] = min(max(d, 0), longestTiming)
		found[key] = each[i]
	}
	if len(found) == 0 {
		return each, false
	}
	middle := median(found)
	for i := range unknown {
		each[i] = middle
	}
	return each, true
}

// weights returns the weights for balancing the specs: milliseconds, at least 1, or 1 for each
// trial if no timing is known.
func (t Timings) weights(specs []trial.Spec) (weights []int64, known bool) {
	each, known := t.Expect(specs)
	weights = make([]int64, len(specs))
	for i, d := range each {
		weights[i] = 1
		if known {
			weights[i] = max(1, d.Milliseconds())
		}
	}
	return weights, known
}

func median(found map[result.Key]time.Duration) time.Duration {
	values := make([]time.Duration, 0, len(found))
	for _, d := range found {
		values = append(values, d)
	}
	slices.Sort(values)
	n := len(values)
	return values[(n-1)/2]/2 + values[n/2]/2
}

// Load is the work of one shard.
type Load struct {
	Trials  int
	Total   time.Duration // of its trials, one after the other
	Longest time.Duration // of its trials
}

// Wall returns the time that a machine with concurrent trials at a time takes.
func (l Load) Wall(concurrent int) time.Duration {
	return max(l.Longest, l.Total/time.Duration(max(1, concurrent)))
}

// Loads returns the work of each of n shards. shards is a result of Shards, each one of Expect.
func Loads(shards []int, n int, each []time.Duration) []Load {
	loads := make([]Load, n)
	for i, s := range shards {
		l := &loads[s-1]
		l.Trials++
		l.Total += each[i]
		l.Longest = max(l.Longest, each[i])
	}
	return loads
}

// MostShards returns the largest number of shards of which none is empty.
func MostShards(specs []trial.Spec) int {
	n := 0
	for _, u := range unitsOf(specs, make([]int64, len(specs))) {
		if u.whole {
			n++
		} else {
			n += len(u.trials)
		}
	}
	return n
}

// ShardsNeeded returns the smallest number of shards, at most limit, with which no shard is
// expected to take longer than target. If the longest trial takes longer than target, it is the
// target. If no number is enough, it returns the one with which the last shard ends first.
func ShardsNeeded(specs []trial.Spec, timings Timings, concurrent int, target time.Duration, limit int) int {
	each, _ := timings.Expect(specs)
	limit = max(1, min(limit, MostShards(specs)))
	var all Load
	for _, d := range each {
		all.Total += d
		all.Longest = max(all.Longest, d)
	}
	goal := max(target, all.Longest, 1)
	first := int(min(int64(limit), int64(all.Total/time.Duration(max(1, concurrent))/goal)))
	best, bestWall := limit, time.Duration(-1)
	for n := max(1, first); n <= limit; n++ {
		var wall time.Duration
		for _, l := range Loads(Shards(specs, n, timings), n, each) {
			wall = max(wall, l.Wall(concurrent))
		}
		if wall <= goal {
			return n
		}
		if bestWall < 0 || wall < bestWall {
			best, bestWall = n, wall
		}
	}
	return best
}
