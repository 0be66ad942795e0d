package agreement

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// rankedBy returns two rankings of each of many tasks, in opposite orders, by a judge that scores
// the text at a place.
func rankedBy(score func(random *rand.Rand, place int, text Ranked) float64) (out []Ranking) {
	random := rand.New(rand.NewPCG(3, 4))
	for task := range 60 {
		var texts []Ranked
		for i := range 4 {
			texts = append(texts, Ranked{ID: fmt.Sprint(task, i), Length: float64(100 + random.IntN(900)), Label: new(random.Float64())})
		}
		for order := range 2 {
			r := Ranking{Task: fmt.Sprint(task)}
			scores := make([]float64, len(texts))
			for place := range texts {
				i := place
				if order == 1 {
					i = len(texts) - 1 - place
				}
				scores[place] = score(random, place, texts[i])
				r.Judged = append(r.Judged, texts[i])
			}
			for place := range r.Judged {
				r.Judged[place].Rank = 1
				for _, other := range scores {
					if other > scores[place] {
						r.Judged[place].Rank++
					}
				}
			}
			out = append(out, r)
		}
	}
	return out
}

func TestPreferences(t *testing.T) {
	near := func(e *Estimate, want float64) bool {
		return e != nil && e.Low != nil && math.Abs(e.Value-want) < 0.08
	}
	for name, test := range map[string]struct {
		score                       func(*rand.Rand, int, Ranked) float64
		first, same, longer, labels float64
	}{
		"a judge that sees what is good": {func(_ *rand.Rand, _ int, r Ranked) float64 { return *r.Label }, 0.5, 1, 0.5, 1},
		"one that guesses":               {func(r *rand.Rand, _ int, _ Ranked) float64 { return r.Float64() }, 0.5, 0.5, 0.5, 0.5},
		"one that likes the first":       {func(_ *rand.Rand, place int, _ Ranked) float64 { return -float64(place) }, 1, 0, 0.5, 0.5},
		"one that likes long texts":      {func(_ *rand.Rand, _ int, r Ranked) float64 { return r.Length }, 0.5, 1, 1, 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			p := PreferenceOf(rankedBy(test.score))
			if p.Groups != 60 || p.Rankings != 120 || p.Pairs != 720 || p.LabelledPairs != 720 {
				t.Errorf("counts: %+v", p)
			}
			for what, got := range map[string]struct {
				e    *Estimate
				want float64
			}{"first": {p.First, test.first}, "same": {p.Same, test.same}, "longer": {p.Longer, test.longer}, "labels": {p.Labels, test.labels}} {
				exact := got.e != nil && got.e.Value == got.want
				if got.want == 1 { // the same in all tasks, so draws of them tell nothing
					exact = exact && (what == "same" || got.e.Low != nil && *got.e.Low > 0.9 && *got.e.High <= 1)
				}
				if !exact && !near(got.e, got.want) {
					t.Errorf("%s: %+v, want %g", what, got.e, got.want)
				}
			}
		})
	}
}

// Five tasks are enough to see that a judge always takes the first; four are not.
func TestAPreferenceInAllOfAFewTasks(t *testing.T) {
	all := rankedBy(func(_ *rand.Rand, place int, _ Ranked) float64 { return -float64(place) })
	if p := PreferenceOf(all[:10]); p.Groups != 5 || p.First == nil || p.First.Value != 1 || p.First.Low == nil || *p.First.Low <= 0.5 {
		t.Errorf("%d tasks: %+v", p.Groups, p.First)
	}
	if p := PreferenceOf(all[:8]); p.Groups != 4 || p.First == nil || p.First.Value != 1 || p.First.Low != nil {
		t.Errorf("%d tasks: %+v", p.Groups, p.First)
	}
}

func TestPreferenceWithoutPairs(t *testing.T) {
	p := PreferenceOf([]Ranking{{Task: "one", Judged: []Ranked{{ID: "a", Rank: 1}}}})
	if p.First != nil || p.Same != nil || p.Longer != nil || p.Labels != nil || p.Pairs != 0 {
		t.Errorf("%+v", p)
	}
	tied := PreferenceOf([]Ranking{{Task: "one", Judged: []Ranked{{ID: "a", Rank: 1, Length: 5}, {ID: "b", Rank: 1, Length: 7}}}})
	if tied.First == nil || tied.First.Value != 0.5 || tied.Longer == nil || tied.Longer.Value != 0.5 || tied.Same != nil || tied.Labels != nil {
		t.Errorf("a tie: %+v", tied)
	}
}
