package result

import (
	"cmp"
	"maps"
	"slices"
)

// ScoreSum sums up the score of a judge, or of one of its criteria, over trials. Confirmation attempts are not among them.
type ScoreSum struct {
	Name   string   `json:"name"`   // of the judge, or judge.criterion
	Mean   *float64 `json:"mean"`   // from 0 to 1; null if no trial has the score
	Trials int      `json:"trials"` // that have the score
	// Missing counts the trials without it: the judge did not run, or gave no verdict. Of trials that no judge judged, it counts none.
	Missing int `json:"missing"`
}

// scoreTally adds up scores. The zero scoreTally is ready to use.
type scoreTally struct{ byName map[string]*ScoreSum }

// maxScores bounds the names of scores: result files may be anybody's.
const maxScores = 1000

func (t *scoreTally) add(trial Trial) {
	for name, score := range trial.Scores {
		t.count(name, score)
	}
	for _, run := range trial.Agents {
		for criterion, value := range run.Criteria {
			if run.Role == RoleJudge {
				t.count(run.Name+"."+criterion, &value)
			}
		}
	}
}

func (t *scoreTally) count(name string, score *float64) {
	s := t.byName[name]
	if s == nil {
		if len(t.byName) >= maxScores {
			return
		}
		if t.byName == nil {
			t.byName = map[string]*ScoreSum{}
		}
		s = &ScoreSum{Name: name}
		t.byName[name] = s
	}
	if score == nil {
		s.Missing++
		return
	}
	if s.Mean == nil {
		s.Mean = new(float64)
	}
	s.Trials++
	*s.Mean = finite(*s.Mean + (*score-*s.Mean)/float64(s.Trials))
}

// sums returns what was added, sorted by name; nil if nothing was.
func (t *scoreTally) sums() []ScoreSum {
	var out []ScoreSum
	for _, s := range slices.SortedFunc(maps.Values(t.byName), func(a, b *ScoreSum) int { return cmp.Compare(a.Name, b.Name) }) {
		one := *s
		if s.Mean != nil {
			one.Mean = new(*s.Mean)
		}
		out = append(out, one)
	}
	return out
}
