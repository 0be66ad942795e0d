package gate

import (
	"math/rand/v2"
	"testing"

	"github.com/org/rollout-action/internal/test/testenv"
)

// TestTheDetectableIncreaseIsRedUnderALimit: an increase of the reported detectable size is red in
// about 80 % of runs.
func TestTheDetectableIncreaseIsRedUnderALimit(t *testing.T) {
	testenv.Long(t, "suites are simulated many times")
	t.Parallel()
	runs := simulations(400)
	for i, c := range []costs{{Tasks: 100, Attempts: 3, Spread: 0.3, Noise: 0.5}, {Tasks: 50, Attempts: 1, Spread: 0.3, Noise: 0.5}} {
		rng := rand.New(rand.NewPCG(uint64(i), 22))
		p, sum := costPolicy(0.2, 0.95), 0.0
		for range 25 {
			base, head := c.draw(rng)
			sum += *find(t, verdict(p, base, head), "max_cost_increase").Test.Detectable
		}
		c.Factor = 1 + sum/25
		red, _, _ := redCosts(c, p, runs, uint64(i))
		t.Logf("%s: red in %.0f %%", c, share100(red, runs))
		if share := share100(red, runs); share < 62 || share > 95 {
			t.Errorf("%s: red in %.0f %% of runs", c, share)
		}
	}
}
