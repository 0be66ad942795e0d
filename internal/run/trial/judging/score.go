package judging

import (
	"maps"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// Warn adds a warning to a trial.
type Warn func(format string, args ...any)

// Note adds the records, costs and warnings of the judges to the result.
func Note(t *result.Trial, all []Outcome, warn Warn) {
	for _, j := range all {
		if j.Run.Name == "" {
			continue
		}
		t.Agents = append(t.Agents, j.Run)
		t.Costs.Judges = t.Costs.Judges.Plus(j.Run.Cost)
		t.Costs.Environment = t.Costs.Environment.Plus(j.env)
		t.Retries = append(t.Retries, j.retries...)
		t.Omitted = append(t.Omitted, j.omitted...)
		for _, w := range j.Run.Warnings {
			warn("the judge %s: %s", j.Run.Name, w)
		}
	}
}

// Score adds the records and the scores of the judges to the result, and computes its reward. It
// returns the error of the first judge that failed and may not.
func (s Subject) Score(t *result.Trial, all []Outcome, tests *float64, rewards map[string]float64, warn Warn) error {
	Note(t, all, warn)
	scores := map[string]*float64{}
	named := map[string]float64{}
	var first *failure.Error
	for i, j := range all {
		name := s.Judges[i].Name
		scores[name] = j.Run.Score
		if j.Run.Score != nil {
			named[name] = *j.Run.Score
			for criterion, value := range j.Run.Criteria {
				named[name+"."+criterion] = value
			}
		}
		switch {
		case j.failed == nil:
		case s.Judges[i].OnError == judge.Ignore && j.failed.Type.Fault() == result.FaultJudge:
			warn("%s: %s; its score is null (on_error: ignore)", j.failed.Type, j.failed.Message)
		case first == nil:
			first = j.failed
		default:
			warn("%s: %s", j.failed.Type, j.failed.Message)
		}
	}
	for _, j := range s.Groups {
		scores[j.Name] = nil // until the group is ranked
	}
	t.Scores = scores
	s.nameRewards(t, rewards, named, warn)
	if first != nil {
		return first
	}
	if s.Reward == nil {
		t.Reward = tests
		return nil
	}
	reward, err := s.Reward.Value(tests, rewards, scores)
	if err != nil {
		return failure.Newf(result.JudgeVerdictInvalid, "the reward %v", err)
	}
	t.Reward = &reward
	return nil
}

// nameRewards adds the scores to the named rewards. A reward of the tests with the name of a judge
// or of one of its criteria is left out, so that tests cannot pose as judges.
func (s Subject) nameRewards(t *result.Trial, rewards, scores map[string]float64, warn Warn) {
	if len(rewards) == 0 && len(scores) == 0 {
		return
	}
	all := map[string]float64{}
	for _, name := range slices.Sorted(maps.Keys(rewards)) {
		owner, _, _ := strings.Cut(name, ".")
		if s.hasJudge(owner) {
			warn("the tests' reward %q is left out: a judge has this name", name)
			continue
		}
		all[name] = rewards[name]
	}
	maps.Copy(all, scores)
	t.Rewards = all
}
