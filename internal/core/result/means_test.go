package result

import "testing"

// Jobs with different numbers of attempts are compared by means per trial.
func TestUnequalAttemptsCompareByMeans(t *testing.T) {
	var base, head Job
	key := func(task string, n int) Key { return Key{Agent: "a", Dataset: "d", Task: task, Attempt: n} }
	for n := range 4 {
		try(&base, key("one", n+1), 1)
		try(&base, key("two", n+1), 1)
	}
	try(&head, key("one", 1), 1)
	try(&head, key("two", 1), 1)
	d := Compare(base, head)
	for _, g := range []GroupDiff{d.Overall, d.Agents[0], d.Groups[0]} {
		delta := g.Delta()
		if delta.Cost != Dollars(0) || delta.DurationSec == nil || *delta.DurationSec != 0 || g.Base.Cost != Dollars(0.5) {
			t.Errorf("an unchanged agent: %+v, from %+v to %+v", delta, g.Base, g.Head)
		}
	}
	if b, h := d.Tasks[0].Base.MeanCost(), d.Tasks[0].Head.MeanCost(); b != h {
		t.Errorf("a task: %v, %v", b, h)
	}
}

// Costs are compared on the tasks that have one on both sides.
func TestMeanCosts(t *testing.T) {
	job := func(costs ...USD) Job {
		var j Job
		for i, c := range costs {
			try(&j, Key{Agent: "a", Dataset: "d", Task: string(rune('a' + i)), Attempt: 1}, 1)
			j.Results.Change(i, func(o *Outcome) { o.Cost = c })
		}
		return j
	}
	unknown := USD{}
	for _, c := range []struct {
		name       string
		base, head Job
		b, h       USD
	}{
		{"on the tasks that both know", job(Dollars(1), Dollars(9), unknown), job(Dollars(2), unknown, Dollars(9)), Dollars(1), Dollars(2)},
		{"no task has both", job(Dollars(1), unknown), job(unknown, Dollars(2)), unknown, unknown},
		{"one side has none", job(Dollars(1), Dollars(3)), job(unknown, unknown), Dollars(2), unknown},
		{"a lower bound stays one", job(Dollars(1), Dollars(1)), job(Dollars(2).LowerBound(), Dollars(4)), Dollars(1), Dollars(3).LowerBound()},
	} {
		if g := Compare(c.base, c.head).Overall; g.Base.Cost != c.b || g.Head.Cost != c.h || g.Head.CostAtLeast != c.h.AtLeast() {
			t.Errorf("%s: %v and %v, want %v and %v", c.name, g.Base.Cost, g.Head.Cost, c.b, c.h)
		}
	}
}

// The duration of tests that ran again is no measure of the earlier trials' duration.
func TestDurationsOfVerifyDoNotCompare(t *testing.T) {
	var base Job
	try(&base, Key{Agent: "a", Dataset: "d", Task: "t", Attempt: 1}, 1)
	trial := Trial{Key: base.Results.At(0).Key, Reward: new(1.0), Reverified: &Reverified{}, Durations: Durations{TotalSec: 0.1}}
	if g := Compare(base, Job{Results: OutcomesOf(OutcomeOf(trial))}).Overall; g.Base.DurationSec != nil || g.Head.DurationSec != nil || g.Delta().DurationSec != nil {
		t.Errorf("%+v", g)
	}
	trial.Reverified.OnlyJudges = true // the duration is that of the earlier trial, and of the judges
	if g := Compare(base, Job{Results: OutcomesOf(OutcomeOf(trial))}).Overall; g.Delta().DurationSec == nil {
		t.Errorf("rejudged: %+v", g)
	}
}
