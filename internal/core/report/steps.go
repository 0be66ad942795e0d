package report

import "github.com/org/rollout-action/internal/core/result"

// Step returns the outcome of a step of a trial: "0.5 in 12.0s: reward is 0.5, and must be at least
// 1". It may quote the tests, so it is hostile.
func Step(s result.StepRun) string {
	text := "no reward"
	if s.Reward != nil {
		text = Number(*s.Reward)
	}
	text += " in " + Duration(s.EndedAt.Sub(s.StartedAt).Seconds())
	switch {
	case s.Error != nil:
		text += ": " + string(s.Error.Type)
	case s.Unmet != "":
		text += ": " + s.Unmet
	}
	return text
}
