package reporting_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job/merge"
)

// TestLookAtShards: looks at shards that make one round after the other end with the rounds that
// one process makes of the same results, and a round that lacks any result decides nothing.
func TestLookAtShards(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 25))
	now := time.Now()
	policy := gate.Policy{Thresholds: gate.Thresholds{MaxPassRateDrop: new(0.0), MinPassRate: new(0.3), MaxBrokenTasks: new(1)}}
	early := 0
	for range 60 {
		attempts, worse := 2+random.IntN(3), random.Float64()
		base, all := scripted(random, attempts, worse)
		var plan result.Plan
		for _, trial := range all {
			plan.Trials.Append(trial.Key)
		}
		found := &reporting.FoundBaseline{Job: new(result.Summarize(result.Plan{Trials: plan.Trials}, base))}
		until := func(round int) []result.Trial {
			return slices.DeleteFunc(slices.Clone(all), func(trial result.Trial) bool { return trial.Attempt > round })
		}

		// one process
		alone := plan
		alone.Rounds = &result.Rounds{Attempts: attempts}
		var want *result.Rounds
		for round := 1; want == nil; round++ {
			made := until(round)
			left := func(wanted func(result.Key) bool) bool {
				return slices.ContainsFunc(plan.Trials.Slice(), func(k result.Key) bool { return k.Attempt > round && wanted(k) })
			}
			_, want, _ = reporting.Decide(policy, now, *found.Job, alone, made, left)
		}
		if len(want.NotNeeded) > 0 {
			early++
		}

		for round := 1; ; {
			of := plan
			of.Rounds = &result.Rounds{Attempts: attempts, Upto: round}
			made := merge.Made{Plan: of, Trials: until(round)}
			lost := random.IntN(len(made.Trials))
			without := made
			if without.Trials = slices.Clone(made.Trials); random.IntN(2) == 0 {
				without.Trials = slices.Delete(without.Trials, lost, lost+1)
			} else {
				without.Trials[lost] = result.Trial{Key: made.Trials[lost].Key, Error: &result.Error{Type: result.Cancelled}}
			}
			got := reporting.LookAt(policy, now, found, without)
			before := made.Trials[lost].Attempt <= want.Made // else an earlier look has decided
			if before && (got.Next != 0 || got.Rounds.Ended() || !slices.Equal(got.Missing, []result.Key{made.Trials[lost].Key})) {
				t.Fatalf("round %d of %d without %v: %+v", round, attempts, made.Trials[lost].Key, got)
			}
			got = reporting.LookAt(policy, now, found, made)
			if got.Rounds.Ended() {
				if !reflect.DeepEqual(got.Rounds, want) || round != want.Made {
					t.Fatalf("shards end after round %d with %+v, one process with %+v", round, got.Rounds, want)
				}
				break
			}
			if got.Next != round+1 || len(got.Missing) > 0 {
				t.Fatalf("after round %d of %d: %+v", round, attempts, got)
			}
			round = got.Next
		}
	}
	if early == 0 || early == 60 {
		t.Errorf("%d of 60 jobs ended early", early)
	}
}

// TestLookAtShardsWithoutBaseline: if no look is possible, the next round is the last one.
func TestLookAtShardsWithoutBaseline(t *testing.T) {
	_, all := scripted(rand.New(rand.NewPCG(1, 2)), 3, 0)
	var plan result.Plan
	for _, trial := range all {
		plan.Trials.Append(trial.Key)
	}
	for _, upto := range []int{1, 3} {
		plan.Rounds = &result.Rounds{Attempts: 3, Upto: upto}
		made := merge.Made{Plan: plan, Trials: slices.DeleteFunc(slices.Clone(all), func(trial result.Trial) bool { return trial.Attempt > upto })}
		got := reporting.LookAt(gate.Policy{}, time.Now(), &reporting.FoundBaseline{Sentence: "there is none"}, made)
		if want := map[int]int{1: 3, 3: 0}[upto]; got.Next != want || got.Rounds != nil || got.Note == "" || len(got.Missing) > 0 {
			t.Errorf("after %d rounds: %+v", upto, got)
		}
	}
}

// scripted returns the trials of a baseline and of a job at 12 tasks, of which a share got worse.
func scripted(random *rand.Rand, attempts int, worse float64) (base, head []result.Trial) {
	for task := range 12 {
		chance, fell := random.Float64(), random.Float64() < worse
		for n := range attempts {
			key := result.Key{Agent: "a", Dataset: "d", Task: string(rune('a' + task)), Attempt: n + 1}
			of := func(chance float64) result.Trial {
				reward := 0.0
				if random.Float64() < chance {
					reward = 1
				}
				return result.Trial{Key: key, Reward: &reward}
			}
			base = append(base, of(chance))
			if fell {
				head = append(head, of(0))
			} else {
				head = append(head, of(chance))
			}
		}
	}
	return base, head
}

// TestNotLookable: the note says whether the baseline ended early or has too few attempts.
func TestNotLookable(t *testing.T) {
	made := []result.Outcome{{Key: result.Key{Task: "a", Attempt: 1}}, {Key: result.Key{Task: "a", Attempt: 2}}}
	left := &result.Rounds{Attempts: 3, Made: 2, Reason: result.EndFutile, NotNeeded: []result.Key{{Task: "a", Attempt: 3}, {Task: "b", Attempt: 3}}}
	for want, base := range map[string]result.Job{
		"the baseline has at most 2 attempts at each task, and the job makes 3":        {Results: result.OutcomesOf(made...)},
		"the baseline ended early itself, and left out 2 trials, first attempt 3 at a": {Results: result.OutcomesOf(made...), Rounds: left},
		"": {Results: result.OutcomesOf(append(made, result.Outcome{Key: result.Key{Task: "a", Attempt: 3}})...)},
	} {
		if got := (&reporting.FoundBaseline{Job: &base}).NotLookable(3); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
