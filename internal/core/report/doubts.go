package report

import (
	"github.com/org/rollout-action/internal/core/result"
)

// Doubts returns the judges that explain why a trial did not pass: those that gave it less than 1
// and a reason. There are none if the reward is that of the tests, which judges do not change.
// Names and reasons may be hostile.
func Doubts(t result.Trial) []result.AgentRun {
	if t.Reward == nil || t.Passed() || t.TestsReward != nil && *t.TestsReward == *t.Reward {
		return nil
	}
	var doubts []result.AgentRun
	for _, run := range t.Agents {
		if run.Role == result.RoleJudge && run.Group == nil && run.Score != nil && *run.Score < 1 && run.Reason != "" {
			doubts = append(doubts, run)
		}
	}
	return doubts
}
