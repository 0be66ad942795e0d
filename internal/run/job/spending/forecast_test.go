package spending_test

import (
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job/spending"
)

func TestBudgetForecast(t *testing.T) {
	trials := func(n int, each time.Duration, usd float64) []spending.Expected {
		var out []spending.Expected
		for range n {
			out = append(out, spending.Expected{Duration: each, CostUSD: usd})
		}
		return out
	}
	spent := func(usd float64) *spending.Spending {
		s := &spending.Spending{}
		s.Add(usd)
		return s
	}
	for name, c := range map[string]struct {
		budget     spending.Budget
		trials     []spending.Expected
		concurrent int
		used       time.Duration
		want       spending.Forecast
	}{
		"without a limit all run":                 {spending.Budget{}, trials(3, time.Minute, 1), 2, 0, spending.Forecast{Run: 3, SpentUSD: 3}},
		"a budget that is enough":                 {spending.Budget{CostUSD: 3, Duration: 2 * time.Minute}, trials(3, time.Minute, 1), 2, 0, spending.Forecast{Run: 3, SpentUSD: 3}},
		"money ends, and what runs goes on":       {spending.Budget{CostUSD: 2}, trials(6, time.Minute, 1), 2, 0, spending.Forecast{Stops: result.StopBudgetCost, Run: 3, Left: 3, After: time.Minute, SpentUSD: 3}},
		"one at a time":                           {spending.Budget{CostUSD: 2}, trials(6, time.Minute, 1), 1, 0, spending.Forecast{Stops: result.StopBudgetCost, Run: 2, Left: 4, After: 2 * time.Minute, SpentUSD: 2}},
		"what was spent before counts":            {spending.Budget{CostUSD: 5, Spent: spent(4)}, trials(3, time.Minute, 1), 1, 0, spending.Forecast{Stops: result.StopBudgetCost, Run: 1, Left: 2, After: time.Minute, SpentUSD: 5}},
		"money that is spent already":             {spending.Budget{CostUSD: 2, Spent: spent(2)}, trials(3, time.Minute, 1), 1, 0, spending.Forecast{Stops: result.StopBudgetCost, Left: 3, SpentUSD: 2}},
		"time ends, and what runs is cancelled":   {spending.Budget{Duration: 90 * time.Second}, trials(6, time.Minute, 1), 2, 0, spending.Forecast{Stops: result.StopBudgetDuration, Run: 2, Cancelled: 2, Left: 2, After: 90 * time.Second, SpentUSD: 2}},
		"time ends just when trials end":          {spending.Budget{Duration: time.Minute}, trials(3, time.Minute, 1), 2, 0, spending.Forecast{Stops: result.StopBudgetDuration, Run: 2, Left: 1, After: time.Minute, SpentUSD: 2}},
		"time ends just when the last trial ends": {spending.Budget{Duration: 2 * time.Minute}, trials(3, time.Minute, 1), 2, 0, spending.Forecast{Run: 3, SpentUSD: 3}},
		"time that was used before counts":        {spending.Budget{Duration: 2 * time.Minute}, trials(3, time.Minute, 1), 1, time.Minute, spending.Forecast{Stops: result.StopBudgetDuration, Run: 1, Left: 2, After: time.Minute, SpentUSD: 1}},
		"time that is used up already":            {spending.Budget{Duration: time.Minute}, trials(3, time.Minute, 1), 1, 2 * time.Minute, spending.Forecast{Stops: result.StopBudgetDuration, Left: 3}},
		"money ends first, and then the time":     {spending.Budget{CostUSD: 1, Duration: 90 * time.Second}, []spending.Expected{{time.Minute, 1}, {time.Hour, 1}, {time.Hour, 1}}, 2, 0, spending.Forecast{Stops: result.StopBudgetCost, Run: 1, Cancelled: 1, Left: 1, After: time.Minute, SpentUSD: 1}},
		"nothing to run":                          {spending.Budget{CostUSD: 1, Spent: spent(2)}, nil, 2, 0, spending.Forecast{SpentUSD: 2}},
		"trials that take no time":                {spending.Budget{CostUSD: 2}, trials(5, 0, 1), 2, 0, spending.Forecast{Stops: result.StopBudgetCost, Run: 3, Left: 2, SpentUSD: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.budget.Forecast(c.trials, c.concurrent, c.used); got != c.want {
				t.Errorf("%+v\nwant %+v", got, c.want)
			}
		})
	}
}
