package gate

import (
	"math/rand/v2"
	"testing"

	"github.com/org/rollout-action/internal/result"
)

// BenchmarkCheck is the cost of a verdict on 100,000 trials.
func BenchmarkCheck(b *testing.B) {
	base, head := suite{tasks: 50_000, attempts: 2, a: 1, b: 1}.jobs(rand.New(rand.NewPCG(1, 1)))
	diff := result.Compare(base, head)
	p := Policy{Thresholds: Thresholds{MaxPassRateDrop: new(0.0), MaxMeanRewardDrop: new(0.0), MinPassRate: new(0.5), MaxBrokenTasks: new(0)}}
	for b.Loop() {
		p.Check(head, &diff, today)
	}
}
