package result

import "iter"

// Means collects the numbers of trials, for their means per trial. Jobs are compared by means,
// because they may have different numbers of attempts. The zero value has no trials.
type Means struct {
	Rewards []float64
	Costs   []float64 // of the trials that have reported one
	Turns   []float64 // of the trials with a usage
	Seconds []float64 // Outcome.TrialSec of the trials that ran as a whole; see Outcome.Again
	// InputTokens and OutputTokens are of the trials whose usage has them.
	InputTokens, OutputTokens []float64

	atLeast bool
}

// MeansOf returns the numbers of outcomes.
func MeansOf(outcomes iter.Seq[Outcome]) *Means {
	m := &Means{}
	for o := range outcomes {
		m.Add(o)
	}
	return m
}

// Add adds a trial.
func (m *Means) Add(o Outcome) {
	if o.Reward != nil {
		m.Rewards = append(m.Rewards, *o.Reward)
	}
	m.addCost(o.Cost)
	if o.Usage != nil {
		m.Turns = append(m.Turns, float64(o.Usage.Turns))
		if n := o.Usage.InputTokens; n != nil {
			m.InputTokens = append(m.InputTokens, float64(*n))
		}
		if n := o.Usage.OutputTokens; n != nil {
			m.OutputTokens = append(m.OutputTokens, float64(*n))
		}
	}
	if !o.Again {
		m.Seconds = append(m.Seconds, o.TrialSec())
	}
}

func (m *Means) addCost(cost USD) {
	if usd, ok := cost.Reported(); ok {
		m.Costs = append(m.Costs, usd)
		m.atLeast = m.atLeast || cost.AtLeast()
	}
}

// Cost returns the mean cost, a lower bound if one of the costs is; null if no trial has reported
// one.
func (m *Means) Cost() USD {
	if len(m.Costs) == 0 {
		return USD{}
	}
	return Dollars(Mean(m.Costs)).boundIf(m.atLeast)
}

// Duration returns the mean of Seconds; nil if there is none.
func (m *Means) Duration() *float64 { return meanIfAny(m.Seconds) }

// meanIfAny returns the mean of values; nil if there are none.
func meanIfAny(values []float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	return new(Mean(values))
}

// meanCosts returns the means over tasks of their mean costs, over the tasks that have one on both
// sides. If no task has, a side that has no cost at all leaves the other as it is, and otherwise
// both are null: they would be of different tasks.
func meanCosts(base, head []*Attempts) (b, h USD) {
	var before, after, bothBefore, bothAfter Means
	for i := range base {
		x, y := base[i].MeanCost(), head[i].MeanCost()
		before.addCost(x)
		after.addCost(y)
		if _, ok := x.Minus(y).Reported(); ok {
			bothBefore.addCost(x)
			bothAfter.addCost(y)
		}
	}
	switch {
	case len(bothBefore.Costs) > 0:
		return bothBefore.Cost(), bothAfter.Cost()
	case len(before.Costs) > 0 && len(after.Costs) > 0:
		return USD{}, USD{}
	}
	return before.Cost(), after.Cost()
}

// meanDurations returns the means over tasks of their mean durations in seconds, over the tasks
// that have one on both sides; nil if no task has.
func meanDurations(base, head []*Attempts) (b, h *float64) {
	var before, after []float64
	for i := range base {
		if x, y := base[i].MeanDuration(), head[i].MeanDuration(); x != nil && y != nil {
			before, after = append(before, *x), append(after, *y)
		}
	}
	return meanIfAny(before), meanIfAny(after)
}
