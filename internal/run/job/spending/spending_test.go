package spending

import (
	"math"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/model/meter"
)

func TestTurnsReserveWhatTheyCanCost(t *testing.T) {
	b := Budget{CostUSD: 10, Spent: &Spending{}, Running: &RunningCost{}}
	key := result.Key{Agent: "a"}
	reserve := func(usd float64) (used bool, wait <-chan struct{}) {
		at := b.Join()
		defer at.Leave()
		return b.Reserve(at, usd)
	}
	if used, wait := reserve(math.Inf(1)); used || wait != nil {
		t.Fatal("the first turn is not admitted")
	}
	_, wait := reserve(1)
	if wait == nil {
		t.Fatal("a turn is admitted beside one that may cost anything")
	}
	b.Spend(key, 1)
	b.Release(math.Inf(1))
	<-wait
	admitted := 0
	for range 20 {
		if used, wait := reserve(3); !used && wait == nil {
			admitted++
		}
	}
	if admitted != 3 {
		t.Errorf("%d turns of 3 dollars run beside each other after 1 of 10 dollars", admitted)
	}
	for range admitted {
		b.Spend(key, 3)
		b.Release(3)
	}
	if used, _ := reserve(3); !used {
		t.Error("10 of 10 dollars are spent, and a turn is admitted")
	}
}

// Turns of all trials are admitted in the order in which they joined, independent of the order of
// requests after a turn has ended, and of their costs.
func TestTurnsOfAllTrialsWaitInOneLine(t *testing.T) {
	b := Budget{CostUSD: 10, Spent: &Spending{}}
	running, large, small := b.Join(), b.Join(), b.Join()
	if used, wait := b.Reserve(running, 10); used || wait != nil {
		t.Fatal("the first turn is not admitted")
	}
	running.Leave()
	admitted := func(at *meter.Place, usd float64) bool {
		used, wait := b.Reserve(at, usd)
		return !used && wait == nil
	}
	if admitted(large, 10) || admitted(small, 1) {
		t.Error("a turn is admitted beside one that may cost everything")
	}
	b.Release(10)
	if admitted(small, 1) {
		t.Error("a small turn overtakes a large one that waits longer")
	}
	if !admitted(large, 9) {
		t.Error("the turn that has waited longest is not admitted")
	}
	large.Leave()
	<-small.First()
	if !admitted(small, 1) {
		t.Error("the next turn waits although there is money for both")
	}
}
