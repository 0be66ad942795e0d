// Package gatetest simulates jobs for tests of a gate: two runs of one suite of tasks, with or
// without a change between them.
package gatetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/org/rollout-action/internal/core/result"
)

// Suite describes tasks that differ in difficulty, each with a probability of passing. Draw
// simulates runs of them.
type Suite struct {
	Tasks, Attempts int
	HeadAttempts    int     // attempts in the job if the baseline has Attempts; 0: as many
	A, B            float64 // the probabilities are drawn from the beta distribution with these parameters
	// Copied is the share of a task's attempts that copy the first one of the run, so that they
	// succeed and fail together.
	Copied float64
	Drop   float64 // of every task's probability, which stays at least 0
	// Drift is the decrease of the log-odds of every task in the job, as when a model or a network
	// is worse today.
	Drift  float64
	Broken int // how many tasks never pass in the job, of those whose probability is at least the mean
	Parts  int // rewards are multiples of 1/Parts; 0 and 1: passed or not
	Agents int // 0 is one: "a0", "a1", …
	// Crashed is the share of failed attempts that end with an error of the agent instead of a
	// reward of 0.
	Crashed float64
	Runs    int // of the baseline: with more than one, the earlier ones are its Pool
}

// String returns a short description, for test names.
func (s Suite) String() string {
	name := fmt.Sprintf("%d tasks, %d attempts, %.1f of 1 pass", s.Tasks, s.Attempts, s.A/(s.A+s.B))
	if s.HeadAttempts > 0 {
		name += fmt.Sprintf(", %d in the job", s.HeadAttempts)
	}
	name += fmt.Sprintf(", copied %v", s.Copied)
	if s.Drop > 0 {
		name += fmt.Sprintf(", drop %v", s.Drop)
	}
	if s.Drift > 0 {
		name += fmt.Sprintf(", drift %v", s.Drift)
	}
	if s.Parts > 1 {
		name += fmt.Sprintf(", rewards of %d parts", s.Parts)
	}
	if s.Runs > 1 {
		name += fmt.Sprintf(", %d runs", s.Runs)
	}
	if s.Broken > 0 {
		name += fmt.Sprintf(", %d broken", s.Broken)
	}
	return name
}

// Equal returns a suite in which every task passes with the same probability.
func Equal(tasks, attempts int, chance, drop float64) Suite {
	return Suite{Tasks: tasks, Attempts: attempts, A: chance * 1e9, B: (1 - chance) * 1e9, Drop: drop}
}

// Pair is a baseline and a job that were drawn from a suite.
type Pair struct {
	Base, Head result.Job
	suite      Suite
	chances    map[result.Key]float64 // passing probabilities of the tasks in the job
	unchanged  map[result.Key]float64 // those of the baseline, if it ran at the same time as the job
	firsts     map[result.Key]float64 // the job's first rewards
	bases      map[result.Key]float64 // the baseline's
}

// Draw simulates a run before the change and one after it.
func (s Suite) Draw(rng *rand.Rand) *Pair {
	w := &Pair{suite: s, chances: map[result.Key]float64{}, unchanged: map[result.Key]float64{}, firsts: map[result.Key]float64{}, bases: map[result.Key]float64{}}
	broken := 0
	w.Base.Pool = make([]result.Job, max(1, s.Runs)-1)
	for i := range s.Tasks {
		before := Beta(rng, s.A, s.B)
		after := max(0, drifted(before, s.Drift)-s.Drop)
		if broken < s.Broken && before >= s.A/(s.A+s.B)-1e-4 {
			after = 0
			broken++
		}
		for agent := range max(1, s.Agents) {
			key := result.Key{Agent: fmt.Sprintf("a%d", agent), Dataset: "d", Task: fmt.Sprintf("t%04d", i)}
			was := s.rewards(rng, before, s.Attempts, nil)
			s.add(rng, &w.Base, key, was)
			for earlier := range w.Base.Pool {
				s.add(rng, &w.Base.Pool[earlier], key, s.rewards(rng, before, s.Attempts, nil))
			}
			n := s.Attempts
			if s.HeadAttempts > 0 {
				n = s.HeadAttempts
			}
			rewards := s.rewards(rng, after, n, nil)
			s.add(rng, &w.Head, key, rewards)
			w.chances[key], w.unchanged[key], w.firsts[key] = after, drifted(before, s.Drift), rewards[0]
			w.bases[key] = was[0]
		}
	}
	return w
}

// drifted returns a probability after its odds were multiplied by exp(-drift).
func drifted(chance, drift float64) float64 {
	worse := chance * math.Exp(-drift)
	return worse / (1 - chance + worse)
}

// Confirm adds confirmation attempts of tasks of the job, until one passes.
func (w *Pair) Confirm(rng *rand.Rand, planned result.PlannedConfirmation) {
	for _, key := range planned.Tasks {
		first := w.firsts[key]
		for n, r := range w.suite.rewards(rng, w.chances[key], planned.Attempts, &first) {
			o := result.Outcome{Key: key, Reward: &r, TaskDigest: "sha256:1"}
			o.Attempt = 1000 + n
			w.Head.Confirmations.Append(o)
			if r == 1 {
				break
			}
		}
	}
}

// Ties determines which attempt the further attempts of a baseline copy, among those that copy
// another one (Suite.Copied). Those of the job always copy its first attempt.
type Ties int

// Ties of a baseline. With TiedToBaseline job and baseline are alike.
const (
	TiedToBaseline Ties = iota // the baseline's first attempt: what a run does depends on its agents, or both run now (--against)
	TiedToDay                  // the job's first attempt: what a run does depends on the day (--confirm-against)
	Untied                     // nothing: each job draws anew how its agent does at a task. --confirm-against breaks its promise then
)

// ConfirmBeside adds confirmation attempts of the job and of the baseline, which runs again at the
// same time, until it is decided whether a task is broken or fixed, as result.NextBeside does.
func (w *Pair) ConfirmBeside(rng *rand.Rand, planned result.PlannedConfirmation, ties Ties) {
	w.Base.Beside = &result.Beside{Baseline: true, JobName: w.Head.JobName}
	w.Head.Beside = &result.Beside{JobName: w.Base.JobName}
	w.Head.ConfirmsBoth = planned.Both
	for _, key := range planned.Tasks {
		first := w.firsts[key]
		var copied *float64
		switch ties {
		case TiedToBaseline:
			copied = new(w.bases[key])
		case TiedToDay:
			if w.chances[key] == w.unchanged[key] {
				copied = &first
			}
		}
		head := w.suite.rewards(rng, w.chances[key], planned.Attempts, &first)
		base := w.suite.rewards(rng, w.unchanged[key], planned.Attempts, copied)
		fails, passes := head, base // of the side that must fail, and of the one that must pass
		if slices.Contains(planned.Fixed, key) {
			fails, passes = base, head
		}
		failed := 0
		for n := range planned.Attempts {
			for _, side := range []struct {
				job    *result.Job
				reward float64
			}{{&w.Head, head[n]}, {&w.Base, base[n]}} {
				o := result.Outcome{Key: key, Reward: &side.reward, TaskDigest: "sha256:1"}
				o.Attempt = 1000 + n
				side.job.Confirmations.Append(o)
			}
			if passes[n] < 1 {
				failed++
			}
			if fails[n] == 1 || 2*failed >= planned.Attempts {
				break
			}
		}
	}
}

func (s Suite) add(rng *rand.Rand, job *result.Job, key result.Key, rewards []float64) {
	for n, r := range rewards {
		key.Attempt = n + 1
		o := result.Outcome{Key: key, Reward: &r, Cost: result.Dollars(0.5), DurationSec: 2, TaskDigest: "sha256:1"}
		if r < 1 && s.Crashed > 0 && rng.Float64() < s.Crashed {
			o.Reward, o.Error = nil, result.AgentExecutionTimeout
		}
		job.Results.Append(o)
	}
	job.TotalTrials += len(rewards)
}

// rewards returns the rewards of n attempts, some of which copy the first one of their run.
func (s Suite) rewards(rng *rand.Rand, chance float64, n int, first *float64) []float64 {
	var out []float64
	for range n {
		sum := 0.0
		for range max(1, s.Parts) {
			if rng.Float64() < chance {
				sum++
			}
		}
		r := sum / float64(max(1, s.Parts))
		if first != nil && rng.Float64() < s.Copied {
			r = *first
		}
		if first == nil {
			first = &r
		}
		out = append(out, r)
	}
	return out
}

// Beta draws from a beta distribution. Source: two gamma variates, Marsaglia and Tsang, ACM TOMS 26
// (2000) 363.
func Beta(rng *rand.Rand, a, b float64) float64 {
	x, y := gamma(rng, a), gamma(rng, b)
	return x / (x + y)
}

func gamma(rng *rand.Rand, a float64) float64 {
	if a < 1 {
		return gamma(rng, a+1) * math.Pow(rng.Float64(), 1/a)
	}
	d := a - 1.0/3
	for c := 1 / math.Sqrt(9*d); ; {
		x := rng.NormFloat64()
		v := (1 + c*x) * (1 + c*x) * (1 + c*x)
		if v > 0 && math.Log(rng.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}
