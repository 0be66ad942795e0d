package gate

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/paired"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/testenv"
)

var dropLimit = Policy{Thresholds: Thresholds{MaxPassRateDrop: new(0.0)}}

// until returns the attempts of the first rounds.
func until(j result.Job, rounds int) result.Job {
	j.Results = j.Results.Without(func(o result.Outcome) bool { return o.Attempt > rounds })
	return j
}

func TestLookRounds(t *testing.T) {
	for attempts, want := range map[int]string{1: "[]", 2: "[1 2]", 3: "[1 2 3]", 4: "[2 3 4]", 5: "[1 2 3 4 5]", 7: "[3 5 7]", 10: "[4 7 10]"} {
		if got := fmt.Sprint(LookRounds(attempts)); got != want {
			t.Errorf("%d attempts: %s, want %s", attempts, got, want)
		}
	}
}

// TestLooksAgree: a look at more rounds repeats the earlier decisions, whatever the later rounds
// show, and nothing of later rounds enters a look.
func TestLooksAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	ends := map[Decision]int{}
	for i := range testenv.Times(40, 200) {
		s := suite{Tasks: []int{12, 25}[i%2], Attempts: 3, A: 1, B: 1, Drop: []float64{0, 0.2, 0.6}[i%3]}
		w := s.Draw(rng)
		last := bothLimits.Look(w.Base, w.Head, 3, 3, today)
		for round := 1; round <= 3; round++ {
			l := bothLimits.Look(w.Base, w.Head, 3, round, today)
			if alone := bothLimits.Look(until(w.Base, round), until(w.Head, round), 3, round, today); alone.Decision != l.Decision || alone.Round != l.Round {
				t.Fatalf("after %d rounds: %+v with later rounds, %+v without", round, l, alone)
			}
			if round < last.Round && l.Decision != More || round >= last.Round && (l.Decision != last.Decision || l.Round != last.Round) {
				t.Fatalf("after %d rounds %+v, and at the end %+v", round, l, last)
			}
		}
		ends[last.Decision]++
		if last.Decision == More || last.Reason == "" {
			t.Fatalf("at the end: %+v", last)
		}
	}
	if ends[Red] == 0 || ends[Green] == 0 {
		t.Errorf("decisions %v: this tests little", ends)
	}
}

// TestLookStops: a suite of which all tasks break is red after one round, one that does not change
// is green after one, and a drop within its limit goes on.
func TestLookStops(t *testing.T) {
	all := func(from, to float64) (base, head result.Job) {
		var pairs [][2][]float64
		for range 20 {
			pairs = append(pairs, [2][]float64{{from, from, from}, {to, to, to}})
		}
		return jobs(pairs...)
	}
	base, head := all(1, 0)
	if l := bothLimits.Look(base, head, 3, 1, today); l.Decision != Red || l.Round != 1 {
		t.Errorf("%+v", l)
	}
	within := Policy{Thresholds: Thresholds{MaxMeanRewardDrop: new(0.5)}}
	base, head = all(0.8, 0.5)
	if l := within.Look(base, head, 3, 2, today); l.Decision != More {
		t.Errorf("%+v", l)
	}
	if l := within.Look(base, head, 3, 3, today); l.Decision != Green {
		t.Errorf("%+v", l)
	}
	base, head = all(1, 1)
	if l := bothLimits.Look(base, head, 3, 1, today); l.Decision != Green || l.Round != 1 {
		t.Errorf("%+v", l)
	}
	if l := dropLimit.Look(base, head, 1, 1, today); l.Decision != Green {
		t.Errorf("one attempt: %+v", l)
	}
	if l := (Policy{Thresholds: Thresholds{MaxPassRateDrop: new(0.0)}, Noise: NoiseIgnore}).Look(base, head, 3, 1, today); l.Decision != More {
		t.Errorf("without a test: %+v", l)
	}
}

// TestCostsKeepTheirShare: a cost limit is tested at the end, so the looks have half of the chance.
func TestCostsKeepTheirShare(t *testing.T) {
	p := dropLimit
	p.MaxCostIncrease = new(0.1)
	base, head := fall(20, 4)
	tests, late := p.lookedAt(base, head, 3, 1, today)
	if len(tests) != 1 || late != 1 {
		t.Fatalf("%d tests, %d late", len(tests), late)
	}
	if b := p.bounds(3, 1, 1); b.Alpha[2] < 0.0249 || b.Alpha[2] > 0.0251 {
		t.Errorf("bounds %v", b)
	}
	p.Confidence = 0.9
	if b := p.bounds(4, 1, 0); b.Alpha[0] < 0.00199 || b.Alpha[2] > 0.1001 {
		t.Errorf("bounds %v", b)
	}
}

// TestPairsOnly: an attempt that the infrastructure ended leaves out its counterpart.
func TestPairsOnly(t *testing.T) {
	base, head := jobs([2][]float64{{1, 1, 1}, {0, 0, 0}}, [2][]float64{{1, 0, 1}, {1, 1, 1}})
	head.Results.Change(1, func(o *result.Outcome) { o.Reward, o.Error = nil, result.EnvironmentLost })
	head.Results.Change(3, func(o *result.Outcome) { o.Reward, o.Error = nil, result.AgentExecutionTimeout })
	before, after := pairsOf(base, head, 2)
	if before.Results.Len() != 3 || after.Results.Len() != 3 || before.Results.At(1).Task != "t0001" {
		t.Errorf("%+v\n%+v", before.Results, after.Results)
	}
}

// TestSkippedAttemptsDoNotChangeBrokenTasks: a job that makes further attempts only at tasks that
// may still break or be fixed has the verdict of one that makes all of them, to the bit.
func TestSkippedAttemptsDoNotChangeBrokenTasks(t *testing.T) {
	p := Policy{Thresholds: Thresholds{MaxBrokenTasks: new(0), MaxCostUSD: new(1e6)}}
	sweep := os.Getenv(sweepVariable) != ""
	// The documentation's table has three of the suites. Few jobs are some points off.
	documented := []map[bool]float64{{true: 61, false: 65}, {true: 44, false: 46}, {true: 60, false: 60}, {true: 60, false: 60}, {true: 24, false: 27}}
	for i, c := range []suite{
		{Tasks: 30, Attempts: 2, A: 1, B: 0.7}, {Tasks: 30, Attempts: 3, A: 0.3, B: 0.3, Broken: 4}, {Tasks: 100, Attempts: 3, A: 1, B: 0.7, Copied: 0.7},
		{Tasks: 30, Attempts: 5, A: 8, B: 1, Broken: 3, Crashed: 0.3}, {Tasks: 100, Attempts: 5, A: 1, B: 0.7},
	} {
		for _, stored := range []bool{true, false} {
			rng := rand.New(rand.NewPCG(uint64(i), 17))
			made, all, red := 0, 0, 0
			for range testenv.Times(20, 200) {
				w := c.Draw(rng)
				full := p.Check(w.Head, compared(w.Base, w.Head), today)
				base, head, n := fewerAttempts(t, p, w.Base, w.Head, c.Attempts, stored)
				fewer := p.Check(head, compared(base, head), today)
				a, b := find(t, full, "max_broken_tasks"), find(t, fewer, "max_broken_tasks")
				if a.Outcome != b.Outcome || a.Message != b.Message || a.Test.P != b.Test.P || a.Test.Low != b.Test.Low || a.Test.High != b.Test.High {
					t.Fatalf("%s, stored %v: %+v with all attempts, %+v with fewer", c, stored, a, b)
				}
				made, all = made+n, all+w.Head.Results.Len()
				if full.Outcome == Fail {
					red++
				}
			}
			if most := documented[i][stored] + 4; share100(made, all) > most {
				t.Errorf("%s, stored %v: %.0f %% of the trials, want at most %.0f", c, stored, share100(made, all), most)
			}
			if sweep {
				t.Logf("| %s, stored %v | %.0f %% | %d red", c, stored, share100(made, all), red)
			}
		}
	}
}

func compared(base, head result.Job) *result.Diff {
	d := result.Compare(base, head)
	return &d
}

// fewerAttempts runs the rounds of a policy that limits only broken tasks, and returns the jobs and
// how many attempts the job made. A stored baseline has all of its attempts.
func fewerAttempts(t *testing.T, p Policy, base, head result.Job, attempts int, stored bool) (fewerBase, fewer result.Job, made int) {
	t.Helper()
	open := map[result.Key]int{} // the last attempt of each task
	for _, o := range head.Results.All() {
		open[o.Unnumbered()] = 1
	}
	cut := func(j result.Job) result.Job {
		j.Results = j.Results.Without(func(o result.Outcome) bool { return o.Attempt > open[o.Unnumbered()] })
		return j
	}
	for round := 1; ; round++ {
		fewerBase, fewer = base, cut(head)
		if !stored {
			fewerBase = cut(base)
		}
		l := p.Look(fewerBase, fewer, attempts, round, today)
		if l.Decision != More {
			if want := p.Check(head, compared(base, head), today).Outcome == Fail; want != (l.Decision == Red) {
				t.Fatalf("%+v, and red with all attempts: %v", l, want)
			}
			return fewerBase, fewer, fewer.Results.Len()
		}
		for _, key := range l.Tasks {
			open[key] = round + 1
		}
	}
}

// early counts decisions of simulated jobs.
type early struct{ runs, full, red, rounds int }

// stopEarly simulates jobs under a policy, with all attempts and with looks.
func stopEarly(p Policy, s suite, runs int, seed uint64) early {
	rng := rand.New(rand.NewPCG(seed, 41))
	e := early{runs: runs}
	for range runs {
		w := s.Draw(rng)
		if verdict(p, w.Base, w.Head).Outcome == Fail {
			e.full++
		}
		l := p.Look(w.Base, w.Head, s.Attempts, s.Attempts, today)
		if l.Decision == Red {
			e.red++
		}
		e.rounds += l.Round
	}
	return e
}

func (e early) plus(o early) early {
	return early{e.runs + o.runs, e.full + o.full, e.red + o.red, e.rounds + o.rounds}
}

// trials returns the share of the trials that were made, in percent.
func (e early) trials(attempts int) float64 { return share100(e.rounds, e.runs*attempts) }

// earlySuites simulates suites of so many tasks and attempts: three shapes, in which the attempts
// of a task are independent or go together, of which nothing changed, every task's chance fell, or
// half of the tasks broke. About four of five jobs with all attempts find the fall.
func earlySuites(t *testing.T, p Policy, tasks, attempts, runs int) (unchanged, fell, broke early) {
	t.Helper()
	drop := 0.2 * math.Sqrt(20/float64(tasks)) * []float64{0, 0, 1.15, 1, 0.9, 0.85}[attempts]
	for i, s := range []suite{{A: 1, B: 0.7}, {A: 0.3, B: 0.3}, {A: 1, B: 0.7, Copied: 0.7}} {
		s.Tasks, s.Attempts = tasks, attempts
		seed := uint64(10*tasks + i)
		e := stopEarly(p, s, runs, seed)
		unchanged = unchanged.plus(e)
		if paired.AtLeast(e.runs, e.red, 0.05) < 0.0003 {
			t.Errorf("%s: red in %d of %d unchanged runs", s, e.red, e.runs)
		}
		s.Drop = drop
		fell = fell.plus(stopEarly(p, s, runs, seed+5))
		s.Drop, s.Broken = 0, tasks/2
		broke = broke.plus(stopEarly(p, s, max(1, runs/4), seed+7))
	}
	t.Logf("| %d | %d | %.0f %% | %.0f %% | %.0f %% | %.1f %%; %.1f %% | %.1f %%; %.1f %% |", attempts, tasks,
		unchanged.trials(attempts), fell.trials(attempts), broke.trials(attempts), share100(unchanged.red, unchanged.runs), share100(unchanged.full, unchanged.runs),
		share100(fell.red, fell.runs), share100(fell.full, fell.runs))
	return unchanged, fell, broke
}

// earlyCase is a case of TestStopEarly.
type earlyCase struct {
	name     string
	policy   Policy
	attempts int
	runs     map[int]int // of each suite, by its tasks
	lost     float64     // points of power that are lost at most
}

// TestStopEarly: jobs that stop early are red in at most one of twenty runs if nothing changed, and
// find a drop about as often as with all attempts. With the sweep it prints the table of the
// documentation.
func TestStopEarly(t *testing.T) {
	few := map[int]int{25: testenv.Times(20, 100)}
	cases := []earlyCase{ // few runs: three standard errors are lost
		{"drop", dropLimit, 2, few, 12}, {"drop", dropLimit, 3, few, 12}, {"drop", dropLimit, 5, map[int]int{10: testenv.Times(16, 100)}, 12},
		{"drop and broken tasks", bothLimits, 2, few, 12}, {"drop and broken tasks", bothLimits, 3, few, 12},
	}
	if os.Getenv(sweepVariable) != "" {
		cases = nil
		all := map[int]int{10: 200, 20: 200, 30: 200, 60: 150, 100: 100, 300: 50}
		for _, k := range []int{2, 3, 5} {
			cases = append(cases, earlyCase{"drop", dropLimit, k, all, 3})
		}
	} else {
		t.Logf("left out: suites of 10 to 300 tasks and 2, 3 and 5 attempts; %s=1 has them", sweepVariable)
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%s, %d attempts", c.name, c.attempts), func(t *testing.T) {
			t.Parallel()
			var unchanged, fell, broke early
			for _, tasks := range slices.Sorted(maps.Keys(c.runs)) {
				u, f, b := earlySuites(t, c.policy, tasks, c.attempts, c.runs[tasks])
				unchanged, fell, broke = unchanged.plus(u), fell.plus(f), broke.plus(b)
			}
			if paired.AtLeast(unchanged.runs, unchanged.red, 0.05) < 0.001 {
				t.Errorf("red in %d of %d unchanged runs", unchanged.red, unchanged.runs)
			}
			if share100(fell.full-fell.red, fell.runs) > c.lost || share100(fell.full, fell.runs) < 50 {
				t.Errorf("finds a drop in %d of %d runs, and in %d with all attempts", fell.red, fell.runs, fell.full)
			}
			// The documentation's table has 68, 55 and 55 % over all sizes; few runs are ten points
			// off.
			most := map[int]float64{2: 78, 3: 65, 5: 65}[c.attempts]
			if os.Getenv(sweepVariable) != "" {
				most -= 7
			}
			if unchanged.trials(c.attempts) > most || broke.trials(c.attempts) > 90 { // few tasks need many attempts
				t.Errorf("%.0f %% of the trials if nothing changed, %.0f %% if half of the tasks broke", unchanged.trials(c.attempts), broke.trials(c.attempts))
			}
		})
	}
}

// TestLookNamesTasks: the note after a round names the first tasks that keep the job running, each
// once and on one line.
func TestLookNamesTasks(t *testing.T) {
	var keys []result.Key
	for _, name := range []string{"a", "b\n::error::x", "c", "d", "e", "f", "g"} {
		keys = append(keys, result.Key{Agent: "one", Task: name}, result.Key{Agent: "two", Task: name})
	}
	got := mayBreak(keys)
	if !strings.HasPrefix(got, "tasks that may still break or be fixed: a, b") || !strings.HasSuffix(got, ", c, d, e and 2 more") || strings.Contains(got, "\n") {
		t.Errorf("%q", got)
	}
	if got := mayBreak(keys[:4]); strings.Contains(got, "more") {
		t.Errorf("%q", got)
	}
}
