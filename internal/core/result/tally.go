package result

import "fmt"

// Tally computes a Summary one trial at a time, for the view of a running job. The zero Tally is
// ready to use.
type Tally struct {
	total, completed, failed, skipped, passed, reused, confirmations int
	sum, low, high                                                   float64
	cost, confirmationCost                                           USD
	usage                                                            usageTally
	scores                                                           scoreTally
}

// Skip counts a planned trial without a result.
func (t *Tally) Skip() {
	t.total++
	t.skipped++
}

// Add counts the outcome of a trial. Of a confirmation attempt it counts only the cost and the
// usage.
func (t *Tally) Add(trial Trial) {
	t.usage.add(trial)
	if trial.Confirmation {
		t.confirmations++
		if trial.Reused == nil {
			t.cost, t.confirmationCost = t.cost.Plus(trial.spent()), t.confirmationCost.Plus(trial.spent())
		}
		return
	}
	t.total++
	t.scores.add(trial)
	if trial.Reused != nil {
		t.reused++
	} else {
		t.cost = t.cost.Plus(trial.spent())
	}
	if trial.Failed() {
		t.failed++
	}
	if !trial.Completed() {
		return
	}
	reward := *trial.Reward
	if t.completed == 0 {
		t.low, t.high = reward, reward
	}
	t.completed++
	t.sum = finite(t.sum + reward) // two huge rewards could have a sum that JSON cannot represent
	t.low, t.high = min(t.low, reward), max(t.high, reward)
	if trial.Passed() {
		t.passed++
	}
}

// Summary returns the summary of the trials counted so far, with the named metrics (see
// MetricTypes) in that order.
func (t *Tally) Summary(metrics []string) Summary {
	s := Summary{
		TotalTrials:     t.total,
		CompletedTrials: t.completed,
		FailedTrials:    t.failed,
		SkippedTrials:   t.skipped,
		ReusedTrials:    t.reused,
		TotalCost:       t.cost,

		ConfirmationTrials: t.confirmations,
		ConfirmationCost:   t.confirmationCost,

		TotalCostAtLeast: t.cost.AtLeast(), ConfirmationCostAtLeast: t.confirmationCost.AtLeast(),

		PassRate:      ratio(float64(t.passed), t.completed),
		MeanReward:    ratio(t.sum, t.completed),
		PassRateAll:   ratio(float64(t.passed), t.total),
		MeanRewardAll: ratio(t.sum, t.total),
		Usage:         t.usage.sum(),
		Scores:        t.scores.sums(),
	}
	for _, m := range metrics {
		s.Metrics = append(s.Metrics, Metric{Type: m, Value: t.metric(m)})
	}
	return s
}

func (t *Tally) metric(name string) *float64 {
	if t.completed == 0 {
		return nil
	}
	switch name {
	case "sum":
		return new(t.sum)
	case "min":
		return new(t.low)
	case "max":
		return new(t.high)
	case "mean":
		return new(t.sum / float64(t.completed))
	}
	panic(fmt.Sprintf("unknown metric %q: config checks them", name))
}

func ratio(part float64, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return part / float64(whole)
}
