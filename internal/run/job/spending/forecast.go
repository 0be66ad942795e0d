package spending

import (
	"container/heap"
	"time"

	"github.com/org/rollout-action/internal/core/result"
)

// Expected is the expected duration and cost of a trial.
type Expected struct {
	Duration time.Duration
	CostUSD  float64
}

// Forecast predicts when and how a budget stops a job.
type Forecast struct {
	Stops     result.StopReason // result.StopBudgetCost or result.StopBudgetDuration; "": all trials run
	Run       int               // trials that run to their end
	Cancelled int               // trials that run when the time is up
	Left      int               // trials that do not start
	After     time.Duration     // from the beginning to the stop
	SpentUSD  float64           // at the end, including earlier costs
}

// Forecast predicts the effect of the budget on trials that start in this order, concurrent at a
// time. The job has already run for used. It follows Run: no trial starts once those that ended
// have cost CostUSD, and when the time is up, running trials are cancelled, which counts as if they
// had cost nothing.
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

// ending is the end of a running trial: its time, and the trial's cost.
type ending struct {
	at  time.Duration
	usd float64
}

// endings is a heap of endings, the earliest first.
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
