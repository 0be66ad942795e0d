package gate

import (
	"math/rand/v2"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

// BenchmarkCheck measures a verdict on 100,000 trials.
func BenchmarkCheck(b *testing.B) {
	w := suite{Tasks: 50_000, Attempts: 2, A: 1, B: 1}.Draw(rand.New(rand.NewPCG(1, 1)))
	diff := result.Compare(w.Base, w.Head)
	p := Policy{Thresholds: Thresholds{MaxPassRateDrop: new(0.0), MaxMeanRewardDrop: new(0.0), MinPassRate: new(0.5), MaxBrokenTasks: new(0)}}
	for b.Loop() {
		p.Check(w.Head, &diff, today)
	}
}
