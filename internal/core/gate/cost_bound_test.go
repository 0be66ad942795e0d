package gate

import (
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
)

// The check of a limit on costs states that a cost is only a lower bound.
func TestMaxCostSaysThatTheCostIsALowerBound(t *testing.T) {
	limit := 2.0
	for name, one := range map[string]struct {
		cost    result.USD
		outcome Outcome
		says    string
	}{
		"exact":                   {result.Dollars(1), Pass, "the trials cost $1.00, at most $2.00"},
		"a bound":                 {result.Dollars(1).LowerBound(), Pass, "the trials cost ≥ $1.00, at most $2.00"},
		"a bound above the limit": {result.Dollars(3).LowerBound(), Fail, "the trials cost ≥ $3.00, at most $2.00"},
	} {
		reward := 1.0
		job := result.Job{JobName: "j", Agents: map[string]result.Summary{"a": {}}, Results: result.OutcomesOf([]result.Outcome{{Key: result.Key{Agent: "a", Dataset: "d", Task: "t", Attempt: 1}, Reward: &reward, Cost: one.cost}}...)}
		v := Policy{Thresholds: Thresholds{MaxCostUSD: &limit}}.Check(job, nil, time.Time{})
		if len(v.Checks) != 2 || v.Checks[1].Outcome != one.outcome || !strings.Contains(v.Checks[1].Message, one.says) {
			t.Errorf("%s: %+v", name, v.Checks)
		}
		if (v.Checks[1].Hint != "") != (one.outcome == Pass && one.cost.AtLeast()) {
			t.Errorf("%s: the hint is %q", name, v.Checks[1].Hint)
		}
	}
}
