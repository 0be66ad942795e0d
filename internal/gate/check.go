package gate

import (
	"fmt"
	"time"

	"github.com/org/rollout-action/internal/result"
)

func check(p Policy, head result.Job, _ *result.Diff, _ time.Time) Verdict {
	allowed := 0
	if p.MaxFailedTrials != nil {
		allowed = *p.MaxFailedTrials
	}
	c := Check{Name: "max_failed_trials", Outcome: Pass, Value: float64(head.FailedTrials), Limit: float64(allowed)}
	c.Message = fmt.Sprintf("%d of %d trials failed", head.FailedTrials, head.TotalTrials)
	if allowed >= 0 && head.FailedTrials > allowed {
		c.Outcome = Fail
	}
	return Verdict{Outcome: c.Outcome, Reason: c.Message, Checks: []Check{c}}
}
