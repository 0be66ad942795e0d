package result

import (
	"encoding/json"
	"fmt"
	"testing"
)

// Scores are summed up with those that are missing; criteria are scores of their own, and
// confirmation attempts count nowhere.
func TestScoresOfAJob(t *testing.T) {
	judged := func(score *float64, criteria map[string]float64) Trial {
		return Trial{
			Reward: new(1.0), Scores: map[string]*float64{"style": score},
			Agents: []AgentRun{{Name: "a", Role: RolePolicy, Criteria: map[string]float64{"no": 1}}, {Name: "style", Role: RoleJudge, Criteria: criteria}},
		}
	}
	var tally Tally
	tally.Add(judged(new(1.0), map[string]float64{"clear": 1}))
	tally.Add(judged(new(0.5), map[string]float64{"clear": 0}))
	tally.Add(judged(nil, nil))
	tally.Add(Trial{Reward: new(1.0)})
	again := judged(new(0.0), nil)
	again.Confirmation = true
	tally.Add(again)
	got, err := json.Marshal(tally.Summary(nil).Scores)
	want := `[{"name":"style","mean":0.75,"trials":2,"missing":1},{"name":"style.clear","mean":0.5,"trials":2,"missing":0}]`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	if none := new(Tally).Summary(nil).Scores; none != nil {
		t.Errorf("a job without judges has scores: %v", none)
	}
}

// Names of scores may be anything, and any number.
func TestScoresAreBounded(t *testing.T) {
	var tally Tally
	scores := map[string]*float64{}
	for n := range 2 * maxScores {
		scores[fmt.Sprint(n)] = new(1.0)
	}
	tally.Add(Trial{Scores: scores})
	if n := len(tally.Summary(nil).Scores); n != maxScores {
		t.Errorf("%d scores", n)
	}
}
