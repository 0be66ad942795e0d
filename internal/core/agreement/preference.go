package agreement

import (
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
)

// Ranking is a judge's ranking of texts about one task, shown in one order.
type Ranking struct {
	Task   string
	Judged []Ranked // in the order in which they were shown
}

// Ranked is a text in a ranking.
type Ranked struct {
	ID     string // of the text, the same in all rankings
	Rank   int    // 1 is the best; texts that are equally good have the same
	Length float64
	Label  *float64 // of people, the higher the better; nil: there is none
}

// Preference measures a judge's biases when it compares texts in pairs. A pair that it finds
// equally good counts half in First and Longer. Each pair counts once for each order in which it
// was shown.
type Preference struct {
	Groups   int `json:"tasks"`
	Rankings int `json:"rankings"`
	Pairs    int `json:"pairs"`
	// First is the share of pairs in which the text won that was shown first. 0.5 is no preference,
	// if each pair was shown in both orders or the orders are random.
	First *Estimate `json:"first"`
	// Same is the share of pairs that the judge decides alike in two orders; null with one order.
	Same *Estimate `json:"same"`
	// Longer is the share of pairs in which the longer text won; null if all are as long.
	Longer *Estimate `json:"longer"`
	// Labels is the share of pairs with different labels in which the judge prefers the text with
	// the higher label; null without such pairs.
	Labels        *Estimate `json:"labels"`
	LabelledPairs int       `json:"labelled_pairs"`
}

// comparison is the result of a ranking for two of its texts.
type comparison struct {
	task          string
	first, second string
	// won is 1 if the one that was shown first won, 0 if the other one did, and 0.5 if they are
	// equally good.
	won           float64
	longer, label float64 // 1: the text that was shown first is longer, or has the higher label; -1: the other one; 0: neither is
}

// PreferenceOf computes the preferences of a judge from its rankings.
func PreferenceOf(rankings []Ranking) Preference {
	groups := map[string][]comparison{}
	p := Preference{Rankings: len(rankings)}
	for _, r := range rankings {
		for i, a := range r.Judged {
			for _, b := range r.Judged[i+1:] {
				c := comparison{task: r.Task, first: a.ID, second: b.ID, won: 0.5, longer: sign(a.Length - b.Length)}
				switch {
				case a.Rank < b.Rank:
					c.won = 1
				case a.Rank > b.Rank:
					c.won = 0
				}
				if a.Label != nil && b.Label != nil {
					c.label = sign(*a.Label - *b.Label)
				}
				groups[r.Task] = append(groups[r.Task], c)
				p.Pairs++
				if c.label != 0 {
					p.LabelledPairs++
				}
			}
		}
	}
	p.Groups = len(groups)
	all := sortedGroups(groups)
	p.First = estimateShare(all, func(comparison) float64 { return 1 })
	p.Longer = estimateShare(all, func(c comparison) float64 { return c.longer })
	p.Labels = estimateShare(all, func(c comparison) float64 { return c.label })
	var twice [][]float64
	for _, group := range all {
		if s := sameness(group); len(s) > 0 {
			twice = append(twice, s)
		}
	}
	p.Same = estimate(twice, func(all []float64) (float64, bool) {
		sum := 0.0
		for _, v := range all {
			sum += v
		}
		return sum / float64(len(all)), len(all) > 0
	})
	return p
}

// estimateShare returns a share with its interval. If the outcome is the same in all tasks, all
// bootstrap samples are equal; the interval is then that of as many tasks with one outcome each.
func estimateShare(groups [][]comparison, side func(comparison) float64) *Estimate {
	e := estimate(groups, func(all []comparison) (float64, bool) { return share(all, side) })
	if e == nil || e.Low != nil || e.Value != 0 && e.Value != 1 {
		return e
	}
	var outcomes []*result.Attempts
	for _, group := range groups {
		if _, counts := share(group, side); counts {
			outcomes = append(outcomes, &result.Attempts{Rewards: []float64{e.Value}, Passed: int(e.Value)})
		}
	}
	if len(outcomes) >= fewTasks {
		_, interval, _ := gate.ScoreRate(outcomes, Confidence)
		e.Low, e.High = &interval.Low, &interval.High
	}
	return e
}

// share returns how often the text selected by side won: 1 selects the text shown first, -1 the
// other one. Pairs with 0 do not count.
func share(all []comparison, side func(comparison) float64) (float64, bool) {
	won, n := 0.0, 0
	for _, c := range all {
		switch side(c) {
		case 1:
			won += c.won
			n++
		case -1:
			won += 1 - c.won
			n++
		}
	}
	return won / float64(max(n, 1)), n > 0
}

// sameness returns, for each two comparisons of the same texts, 1 if they agree and 0 if not.
func sameness(group []comparison) (out []float64) {
	type pair struct{ a, b string }
	seen := map[pair][]float64{}
	for _, c := range group {
		key, won := pair{c.first, c.second}, c.won
		if key.b < key.a {
			key, won = pair{key.b, key.a}, 1-won
		}
		for _, before := range seen[key] {
			same := 0.0
			if before == won {
				same = 1
			}
			out = append(out, same)
		}
		seen[key] = append(seen[key], won)
	}
	return out
}

func sign(v float64) float64 {
	switch {
	case v > 0:
		return 1
	case v < 0:
		return -1
	}
	return 0
}
