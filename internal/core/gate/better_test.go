package gate

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/paired"
	"github.com/org/rollout-action/internal/core/result"
)

// TestBetterIsADropWithTheSignTurned: a job is called better exactly if its baseline would be red
// for a drop against it.
func TestBetterIsADropWithTheSignTurned(t *testing.T) {
	zero := 0.0
	none := 0
	p := Policy{Thresholds: Thresholds{MaxPassRateDrop: &zero, MaxMeanRewardDrop: &zero, MaxBrokenTasks: &none}, Confidence: 0.8}
	rng := rand.New(rand.NewPCG(25, 3))
	said := 0
	for range simulations(200) {
		w := suite{Tasks: 30, Attempts: 2, A: 1, B: 1, Parts: 3, Drop: 0.1}.Draw(rng)
		better := verdict(Policy{Confidence: 0.8}, w.Head, w.Base) // the change goes the other way round
		red := verdict(p, w.Base, w.Head)
		if got, want := strings.Contains(better.Reason, "; better: "), red.Outcome == Fail; got != want {
			t.Errorf("better: %s\nas a drop: %s: %s", better.Reason, red.Outcome, red.Reason)
		} else if got {
			said++
		}
		if better.Outcome != Pass {
			t.Errorf("%s", better.Reason)
		}
	}
	if said == 0 {
		t.Error("no run was better")
	}
}

// TestUnchangedSuitesAreNotBetter: if nothing changed, at most a share 1 - confidence of runs is
// called better, and tasks that chance fixed have no tick.
func TestUnchangedSuitesAreNotBetter(t *testing.T) {
	runs := simulations(400)
	for i, s := range []suite{
		{Tasks: 20, Attempts: 1, A: 1, B: 1},
		{Tasks: 30, Attempts: 3, A: 0.5, B: 0.5, Copied: 0.7},
		{Tasks: 100, Attempts: 1, A: 8, B: 1},
		{Tasks: 60, Attempts: 3, A: 1, B: 1, Parts: 4},
		{Tasks: 40, Attempts: 1, HeadAttempts: 4, A: 1, B: 1},
		{Tasks: 40, Attempts: 4, HeadAttempts: 1, A: 1, B: 1},
	} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(i), 25))
			better, fixed, ticks := 0, 0, 0
			for range runs {
				w := s.Draw(rng)
				v := verdict(Policy{Confidence: 0.95}, w.Base, w.Head)
				said := strings.Contains(v.Reason, "; better: ")
				if said {
					better++
				}
				if said && v.FixedByChance {
					t.Errorf("better, and by chance: %s", v.Reason)
				}
				if v.FixedByChance {
					fixed++
				} else if said {
					ticks++
				}
			}
			t.Logf("better in %d of %d, fixed by chance in %d, ticks in %d", better, runs, fixed, ticks)
			if paired.AtLeast(runs, better, 0.05) < 0.001 {
				t.Errorf("%d of %d unchanged runs are called better", better, runs)
			}
		})
	}
}

// TestWordsOfBetter checks the sentence, and what never changes.
func TestWordsOfBetter(t *testing.T) {
	for _, tc := range []struct {
		tasks, rose, fell int
		noise             Noise
		says              string // "": nothing
		byChance          bool
	}{
		{20, 0, 0, NoiseTest, "", false},
		{20, 1, 0, NoiseTest, "", true},
		{30, 12, 8, NoiseTest, "", true},
		{20, 12, 0, NoiseTest, "; better: pass rate +60.0 points, more than chance explains", false},
		{20, 0, 12, NoiseTest, "", false},
		{20, 12, 0, NoiseIgnore, "", false},
	} {
		t.Run(fmt.Sprintf("%d of %d fixed, %d broken, %s", tc.rose, tc.tasks, tc.fell, tc.noise), func(t *testing.T) {
			var pairs [][2][]float64
			for i := range tc.tasks {
				before, after := 1.0, 1.0
				switch {
				case i < tc.rose:
					before = 0
				case i < tc.rose+tc.fell:
					after = 0
				}
				pairs = append(pairs, one(before, after))
			}
			base, head := jobs(pairs...)
			v := verdict(Policy{Noise: tc.noise}, base, head)
			_, said, _ := strings.Cut(v.Reason, "; better: ")
			if said != strings.TrimPrefix(tc.says, "; better: ") || v.FixedByChance != tc.byChance || v.Outcome != Pass {
				t.Errorf("%s: %s, by chance %t", v.Outcome, v.Reason, v.FixedByChance)
			}
		})
	}
	v := verdict(Policy{}, second(fall(20, 12)), first(fall(20, 12)))
	if v.WaysOut != nil || !v.Passed(Policy{OnInconclusive: Fail}) {
		t.Errorf("%+v", v)
	}
}

// TestRoundsAreNotTestedForBetter: in a job that ran in rounds, fixed tasks have no tick and
// nothing is called better, however many tasks were fixed: no test says that it is no chance.
func TestRoundsAreNotTestedForBetter(t *testing.T) {
	var pairs [][2][]float64
	for range 20 {
		pairs = append(pairs, [2][]float64{{0, 0, 0}, {1, 1, 1}})
	}
	base, head := jobs(pairs...)
	p := Policy{Thresholds: Thresholds{MaxPassRateDrop: new(0.0)}, Stop: StopEarly}
	if v := verdict(p, base, head); !strings.Contains(v.Reason, "; better: ") || v.FixedByChance {
		t.Errorf("without rounds: %s, by chance %t", v.Reason, v.FixedByChance)
	}
	head.Rounds = &result.Rounds{Attempts: 3, Made: 3}
	if v := verdict(p, base, head); strings.Contains(v.Reason, "better") || !v.FixedByChance || v.Outcome != Pass {
		t.Errorf("in rounds: %s: %s, by chance %t", v.Outcome, v.Reason, v.FixedByChance)
	}
	same, again := jobs(pairs[:0]...)
	for i := range 20 {
		addTask(&same, "a", "d", fmt.Sprintf("t%04d", i), 1, 1, 1)
		addTask(&again, "a", "d", fmt.Sprintf("t%04d", i), 1, 1, 1)
	}
	again.Rounds = head.Rounds
	if v := verdict(p, same, again); v.FixedByChance {
		t.Errorf("nothing was fixed, and it is called chance: %s", v.Reason)
	}
}
