package judge

import (
	"reflect"
	"testing"
)

func TestStability(t *testing.T) {
	one := func(trial string, scores ...float64) Series {
		s := Series{Trial: trial}
		for _, score := range scores {
			if score < 0 {
				s.Scores = append(s.Scores, nil)
				continue
			}
			s.Scores = append(s.Scores, &score)
		}
		return s
	}
	const none = -1
	for name, test := range map[string]struct {
		all      []Series
		want     Stability
		unstable []string
	}{
		"nothing": {nil, Stability{Means: []*float64{nil, nil, nil}, Null: []int{0, 0, 0}}, nil},
		"the same": {
			[]Series{one("a", 1, 1, 1), one("b", 0, 0, 0)},
			Stability{Trials: 2, Same: 2, Means: []*float64{new(0.5), new(0.5), new(0.5)}, Null: []int{0, 0, 0}}, nil,
		},
		"some differ": {
			[]Series{one("a", 0.5, 0.5, 0.75), one("b", 0, 0, 0), one("c", 1, 0.5, 0.25), one("d", 0.5, 1, 0.5)},
			Stability{Trials: 4, Same: 1, Spread: 0.5, Means: []*float64{new(0.5), new(0.5), new(0.375)}, Null: []int{0, 0, 0}, Higher: 1, Lower: 1},
			[]string{"c", "d", "a"},
		},
		"some have no score": {
			[]Series{one("a", 0.5, none, 0.75), one("b", none, none, 0), one("c", 0.5, 0.5, 0.5)},
			Stability{Trials: 2, Same: 1, Spread: 0.25, Means: []*float64{new(0.5), new(0.5), new(0.5)}, Null: []int{1, 2, 0}},
			[]string{"a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := StabilityOf(test.all, 3); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			var names []string
			for _, s := range Unstable(test.all) {
				names = append(names, s.Trial)
			}
			if !reflect.DeepEqual(names, test.unstable) {
				t.Errorf("the trials that differ are %q, want %q", names, test.unstable)
			}
		})
	}
}
