package paired

import (
	"math"
	"slices"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/signflip"
)

// The methods of a test against a baseline of several runs.
const (
	methodRelabel = "exact relabelling of runs"
	methodDrawn   = "relabelling of runs, drawn at random"
)

// poolSeed is the seed of labellings that are drawn for one test.
const poolSeed = 25

// Pooled reports whether the baseline of the sample is several runs.
func (s Sample) Pooled() bool { return s.Runs != nil }

// pooledSample returns the sample of tasks whose baseline, or job if the sides are exchanged, is
// several runs (result.Attempts.Runs).
//
// All agents of a task use the runs in which each of them has values, and as many attempts of each
// run as the one with the fewest has, the first ones: then runs of an agent that did not change are
// exchangeable, whatever the attempts of one run have in common.
func pooledSample(tasks []result.TaskDiff, values func(*result.Attempts) []float64) Sample {
	s := Sample{Scale: 1}
	at := map[TaskName][]result.TaskDiff{}
	for _, t := range tasks {
		n := TaskName{t.Dataset, t.Task}
		if at[n] == nil {
			s.Names = append(s.Names, n)
		}
		at[n] = append(at[n], t)
	}
	for _, n := range s.Names {
		runs := commonRuns(at[n], values)
		var task Task
		for _, t := range at[n] {
			task = append(task, pooledUnit(t, runs, values))
		}
		s.Tasks, s.Runs, s.Units = append(s.Tasks, task), append(s.Runs, runs), s.Units+len(task)
	}
	return s
}

// sides returns the job's attempts and those of the baseline's runs.
func sides(t result.TaskDiff) (job *result.Attempts, runs []*result.Attempts, exchanged bool) {
	switch {
	case t.Base.Runs() != nil:
		return t.Head, t.Base.Runs(), false
	case t.Head.Runs() != nil:
		return t.Base, t.Head.Runs(), true
	}
	return t.Head, []*result.Attempts{t.Base}, false
}

// commonRuns returns the numbers of the runs in which all agents have values; if there are none,
// the one number -1 stands for the first run of each agent that has some.
func commonRuns(task []result.TaskDiff, values func(*result.Attempts) []float64) []int {
	var common []int
	_, all, _ := sides(task[0])
	for i := range all {
		lacks := func(t result.TaskDiff) bool {
			_, runs, _ := sides(t)
			return i >= len(runs) || runs[i] == nil || len(values(runs[i])) == 0
		}
		if !slices.ContainsFunc(task, lacks) {
			common = append(common, i)
		}
	}
	if common == nil {
		return []int{-1}
	}
	return common
}

// pooledUnit returns the values of a unit in the job and in these runs.
func pooledUnit(t result.TaskDiff, numbers []int, values func(*result.Attempts) []float64) Unit {
	job, runs, exchanged := sides(t)
	all := [][]float64{values(job)}
	for i, run := range runs {
		if run == nil || !slices.Contains(numbers, i) && numbers[0] >= 0 {
			continue
		}
		if v := values(run); len(v) > 0 && (numbers[0] >= 0 || len(all) < 2) {
			all = append(all, v)
		}
	}
	least := len(slices.MinFunc(all, func(a, b []float64) int { return len(a) - len(b) }))
	for i := range all {
		all[i] = all[i][:least]
	}
	u := Unit{Base: slices.Concat(all[1:]...), Head: all[0], ofRuns: &ofRuns{runs: all, exchanged: exchanged}}
	if exchanged {
		u.Base, u.Head = u.Head, u.Base
	}
	u.labels = u.meanLabels()
	return u
}

// meanLabels returns how far the mean would have fallen if each of the runs were the job's, against
// the mean of the others.
func (u Unit) meanLabels() []float64 {
	sums, total, size := make([]float64, len(u.runs)), 0.0, 0.0
	for i, run := range u.runs {
		for _, v := range run {
			sums[i] += v
			size += math.Abs(v)
		}
		total += sums[i]
	}
	n := float64(len(sums))
	labels := make([]float64, len(sums))
	for i, sum := range sums {
		if d := total - n*sum; math.Abs(d) > 1e-12*n*size { // else the same values, added in another order
			labels[i] = u.turned(d / ((n - 1) * float64(len(u.runs[0]))))
		}
	}
	return labels
}

// turned turns the sign of a drop if the sides are exchanged.
func (u Unit) turned(d float64) float64 {
	if u.exchanged && d != 0 {
		return -d
	}
	return d
}

// Flips returns the sample of tasks that broke or were fixed, from one of passes: a unit falls by 1
// if it passed in every attempt of every run of the baseline and in none of the job, and rises by 1
// if it is the other way round. The same holds for each other run in place of the job's.
func (s Sample) Flips() Sample {
	tasks := make([]Task, len(s.Tasks))
	for i, t := range s.Tasks {
		for _, u := range t {
			tasks[i] = append(tasks[i], u.flips())
		}
	}
	s.Tasks = tasks
	return s.withRange()
}

func (u Unit) flips() Unit {
	passes := make([]int, len(u.runs))
	all := 0
	for i, run := range u.runs {
		for _, v := range run {
			if v == 1 {
				passes[i]++
			}
		}
		all += passes[i]
	}
	attempts := len(u.runs[0])
	most := attempts * (len(u.runs) - 1) // of the other runs
	labels := make([]float64, len(u.runs))
	for i, n := range passes {
		switch {
		case n == 0 && all == most:
			labels[i] = u.turned(1)
		case n == attempts && all == n:
			labels[i] = u.turned(-1)
		}
	}
	return Unit{Base: []float64{max(0, labels[0])}, Head: []float64{max(0, -labels[0])}, ofRuns: &ofRuns{labels: labels, runs: u.runs}}
}

// Labels returns the tasks' drops if each run in turn were the job's, the job's own first, in the
// scale of Drops. The sample must be Pooled.
func (s Sample) Labels() [][]float64 {
	out := make([][]float64, len(s.Tasks))
	for i, t := range s.Tasks {
		out[i] = t.labels()
		for j := range out[i] {
			out[i][j] *= float64(len(s.Tasks)) / float64(s.Units)
		}
	}
	return out
}

// labels returns the sums of the units' labels.
func (t Task) labels() []float64 {
	out := slices.Clone(t[0].labels)
	for _, u := range t[1:] {
		for i, d := range u.labels {
			out[i] += d
		}
	}
	return out
}

// runTail returns the tail of the sum of the tasks' drops if the run that is the job's is drawn
// anew for each task: by convolution, or with random labellings if that costs too much.
func runTail(labels [][]float64) (Tail, string) {
	sum := convolution{}
	for _, l := range signflip.Whole(labels) {
		var points []point
		for _, d := range l {
			if i := slices.IndexFunc(points, func(p point) bool { return p.drop == d }); i >= 0 {
				points[i].probability += 1 / float64(len(l))
			} else {
				points = append(points, point{d, 1 / float64(len(l))})
			}
		}
		sum.add(l[0], points)
	}
	if sum.cost() <= maxCells {
		return sum.tail(), methodRelabel
	}
	above, equal := signflip.PValue(labels, poolSeed)
	return Tail{Above: above, Equal: equal}, methodDrawn
}

// allLabelsDiffer is AllDiffer for a baseline of several runs.
func (s Sample) allLabelsDiffer() bool {
	return !s.Binary && !slices.ContainsFunc(s.Tasks, func(t Task) bool {
		l := slices.Sorted(slices.Values(t.labels()))
		return !t.constant() && len(slices.Compact(slices.Clone(l))) < len(l)
	})
}

// ways returns the mean number of labels of a task: 2 if the baseline is one run.
func (s Sample) ways() float64 {
	if !s.Pooled() || len(s.Tasks) == 0 {
		return 2
	}
	sum := 0
	for _, t := range s.Tasks {
		sum += len(t[0].labels)
	}
	return float64(sum) / float64(len(s.Tasks))
}

// Against returns the mean number of runs that a task of the job is compared with.
func (s Sample) Against() float64 { return s.ways() - 1 }

// LeastBroken returns how many broken tasks would be more than chance at alpha, if the tasks that
// did not break were as they are. The sample is one of Flips.
func (s Sample) LeastBroken(alpha float64) int {
	labels := slices.DeleteFunc(s.Labels(), func(l []float64) bool { return l[0] > 0 })
	broken := make([]float64, int(math.Round(s.ways())))
	broken[0] = 1
	for n := 1; ; n++ {
		labels = append(labels, broken)
		if t, _ := runTail(labels); t.Mid() <= alpha || n > len(s.Tasks)+maxNeeded {
			return n
		}
	}
}
