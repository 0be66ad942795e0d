package spending

import (
	"math"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/model/meter"
)

// Budget limits the cost and the duration of a job. Once the trials have cost CostUSD, no more
// start, and running ones get no more answers of the job's models (trial.Options.Budget). When the
// job has run for Duration, running trials are cancelled, too.
type Budget struct {
	CostUSD float64 // in US dollars; 0: no limit
	// Spent is the cost of all trials, including earlier runs of the job and trials that were run
	// again. Jobs that run at the same time may share it. nil: nothing was spent.
	Spent *Spending
	// Running holds the part of Spent that this job's running trials have cost. nil: no trial adds
	// to it.
	Running *RunningCost
	// Carried holds the part of Spent that the results of trials will contain again, because only
	// their judges run.
	Carried map[result.Key]result.USD
	// Unranked holds the part of Spent that interrupted rankings have cost, by the trial whose
	// directory has their files. The judges rank again, so the new results of this trial, and of
	// those ranked with it, will contain the cost, too.
	Unranked map[result.Key]result.USD
	Duration time.Duration // without the time in which the job was stopped (result.Plan.Idle); 0: no limit
}

// Spending is a sum of US dollars that several jobs may add to. The zero Spending is ready to use.
type Spending struct {
	mu    sync.Mutex
	usd   float64
	bound bool // usd is a lower bound
	// turns counts the running turns of models, unknown those without a known maximum cost.
	// reserved is the sum of the maximum costs of the others.
	turns, unknown int
	reserved       float64
	changed        chan struct{} // closed when a turn ends; nil: no turn waits for that
	line           meter.Line    // of turns that wait to be admitted
}

// Add adds an amount.
func (s *Spending) Add(usd float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usd += usd
}

// reserve implements gateway.Purse.
func (s *Spending) reserve(at *meter.Place, limit, usd float64) (used bool, wait <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.usd >= limit:
		return true, nil
	case !at.IsFirst():
		return false, at.First()
	case s.unknown > 0, s.turns > 0 && s.usd+s.reserved >= limit:
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		return false, s.changed
	}
	s.turns++
	if math.IsInf(usd, 1) {
		s.unknown++
	} else {
		s.reserved += usd
	}
	return false, nil
}

// release implements gateway.Purse.
func (s *Spending) release(usd float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turns--; math.IsInf(usd, 1) {
		s.unknown--
	} else if s.reserved -= usd; s.turns == s.unknown {
		s.reserved = 0 // removes rounding errors
	}
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// AddCost adds a cost, which may be a lower bound.
func (s *Spending) AddCost(cost result.USD) {
	s.Add(cost.Amount())
	if cost.AtLeast() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.bound = true
	}
}

// Cost returns the sum, marked if it is a lower bound.
func (s *Spending) Cost() result.USD {
	s.mu.Lock()
	defer s.mu.Unlock()
	cost := result.Dollars(s.usd)
	if s.bound {
		cost = cost.LowerBound()
	}
	return cost
}

// Sum returns the sum in US dollars.
func (s *Spending) Sum() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usd
}

// RunningCost holds the model costs of a job's running trials. The zero RunningCost is ready to
// use.
type RunningCost struct {
	mu  sync.Mutex
	usd map[result.Key]float64
}

// Spend adds the cost of a running trial since the last call.
func (b Budget) Spend(key result.Key, usd float64) {
	b.Running.mu.Lock()
	defer b.Running.mu.Unlock()
	if b.Running.usd == nil {
		b.Running.usd = map[result.Key]float64{}
	}
	b.Running.usd[key] += usd
	b.Spent.Add(usd)
}

// Join implements gateway.Purse.
func (b Budget) Join() *meter.Place { return b.Spent.line.Join() }

// Reserve implements gateway.Purse.
func (b Budget) Reserve(at *meter.Place, usd float64) (used bool, wait <-chan struct{}) {
	if b.CostUSD <= 0 {
		return false, nil
	}
	return b.Spent.reserve(at, b.CostUSD, usd)
}

// Release implements gateway.Purse.
func (b Budget) Release(usd float64) {
	if b.CostUSD > 0 {
		b.Spent.release(usd)
	}
}

// Used reports whether the trials have cost CostUSD or more.
func (b Budget) Used() bool { return b.CostUSD > 0 && b.Spent.Sum() >= b.CostUSD }

// Settle adds the cost of a trial that has ended, less the cost of before and the amounts that
// Spend has added. before is empty if the trial has just ended.
func (b Budget) Settle(before, now result.Trial) {
	usd := now.Spent().Total().Amount() - before.Spent().Total().Amount()
	if b.Running != nil {
		b.Running.mu.Lock()
		defer b.Running.mu.Unlock()
		usd -= b.Running.usd[now.Key]
		delete(b.Running.usd, now.Key)
	}
	b.Spent.Add(usd)
	if now.Spent().Total().AtLeast() {
		b.Spent.AddCost(result.Dollars(0).LowerBound())
	}
}
