package job

import (
	"container/heap"
	"time"

	"github.com/org/rollout-action/internal/core/result"
)

// Expected is what a trial is expected to take and to cost.
type Expected struct {
	Duration time.Duration
	CostUSD  float64
}

// Forecast is what a budget would do to trials that take and cost what is expected.
type Forecast struct {
	Stops     result.StopReason // result.StopBudgetCost or result.StopBudgetDuration; "": all trials run
	Run       int               // trials that run to their end
	Cancelled int               // trials that run when the time is up
	Left      int               // trials that do not start
	After     time.Duration     // from the beginning to the stop
	SpentUSD  float64           // in the end, with what was spent before
}

// Forecast returns what the budget would do to trials, which start in this order, concurrent at a time. The job has run for used
// before. It follows Run: no trial starts once those that ended have cost CostUSD, and when the time is up, those that run are
// cancelled, which counts as if they had cost nothing.
func (b Budget) Forecast(trials []Expected, concurrent int, used time.Duration) Forecast {
	f := Forecast{}
	if b.Spent != nil {
		f.SpentUSD = b.Spent.Sum()
	}
	left := b.Duration - used
	running := &endings{}
	now := time.Duration(0)
	started := 0
	stop := func(reason result.StopReason, at time.Duration) {
		if f.Stops == "" {
			f.Stops, f.After = reason, at
		}
	}
	for f.Stops == "" && started < len(trials) || running.Len() > 0 {
		up := b.Duration > 0 && now >= left
		if up && (running.Len() == 0 || (*running)[0].at > left) {
			stop(result.StopBudgetDuration, now)
			f.Cancelled = running.Len()
			break
		}
		if b.CostUSD > 0 && f.SpentUSD >= b.CostUSD && started < len(trials) {
			stop(result.StopBudgetCost, now)
		}
		for !up && f.Stops == "" && started < len(trials) && running.Len() < max(1, concurrent) {
			heap.Push(running, ending{now + max(0, trials[started].Duration), trials[started].CostUSD})
			started++
		}
		if running.Len() == 0 {
			break
		}
		if b.Duration > 0 && (*running)[0].at > left {
			now = left
			continue
		}
		end := heap.Pop(running).(ending)
		now = end.at
		f.SpentUSD += end.usd
		f.Run++
	}
	f.Left = len(trials) - started
	return f
}

// ending is when a trial that runs ends, and what it has cost then.
type ending struct {
	at  time.Duration
	usd float64
}

// endings is a heap of them.
type endings []ending

func (e *endings) Len() int           { return len(*e) }
func (e *endings) Less(i, j int) bool { return (*e)[i].at < (*e)[j].at }
func (e *endings) Swap(i, j int)      { (*e)[i], (*e)[j] = (*e)[j], (*e)[i] }
func (e *endings) Push(x any)         { *e = append(*e, x.(ending)) }
func (e *endings) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
