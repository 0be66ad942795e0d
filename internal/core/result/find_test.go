package result

import (
	"slices"
	"testing"
)

func TestFindTakesTheFirstTrialOfEachKey(t *testing.T) {
	keys := []Key{key("a", "t", 1), key("a", "t", 2), key("b", "t", 1)}
	first, second, third := rewarded(keys[0], 0.1), rewarded(keys[1], 0.2), rewarded(keys[2], 0.3)
	again, stranger, confirming := rewarded(keys[0], 0.4), rewarded(key("c", "t", 1), 0.5), rewarded(keys[0], 0.6)
	confirming.Confirmation = true
	for _, c := range []struct {
		name   string
		trials []Trial
		want   []float64 // rewards; -1: none
	}{
		{"in the plan's order", []Trial{first, second, third}, []float64{0.1, 0.2, 0.3}},
		{"in another order", []Trial{third, first, second}, []float64{0.1, 0.2, 0.3}},
		{"with a gap", []Trial{first, third}, []float64{0.1, -1, 0.3}},
		{"with a second result at the end", []Trial{first, second, third, again}, []float64{0.1, 0.2, 0.3}},
		{"with a second result in between", []Trial{first, again, second, third}, []float64{0.1, 0.2, 0.3}},
		{"with a result first that counts, and another", []Trial{again, first, second, third}, []float64{0.4, 0.2, 0.3}},
		{"with a trial that is not planned", []Trial{first, stranger, second, third}, []float64{0.1, 0.2, 0.3}},
		{"with confirmation attempts", []Trial{confirming, first, second, third}, []float64{0.1, 0.2, 0.3}},
		{"with confirmation attempts at the end", []Trial{first, second, third, confirming}, []float64{0.1, 0.2, 0.3}},
		{"without any", nil, []float64{-1, -1, -1}},
	} {
		var got []float64
		for _, found := range KeysOf(keys...).Find(PackAll(c.trials)) {
			if !found.There() {
				got = append(got, -1)
			} else {
				got = append(got, *found.Unpack().Reward)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
