package meter

import (
	"math"
	"sync"
)

// Budget limits an agent's use of its model in a trial. 0 and nil mean no limit. Tokens and costs
// are known when a turn has ended, so the last turn may exceed them.
type Budget struct {
	MaxTurns                                        int64
	MaxInputTokens, MaxOutputTokens, MaxTotalTokens int64
	MaxCostUSD                                      *float64
}

// Stop is the reason why a session refuses further turns: the key of the budget that is used up.
type Stop string

// The stops of a Budget.
const (
	StopTurns  Stop = "max_turns"
	StopInput  Stop = "max_input_tokens"
	StopOutput Stop = "max_output_tokens"
	StopTokens Stop = "max_total_tokens"
	StopCost   Stop = "max_cost_usd"
)

// amount is the actual or possible usage of turns.
type amount struct {
	turns, input, output int64
	usd                  float64
}

func (a amount) plus(b amount) amount {
	return amount{add(a.turns, b.turns), add(a.input, b.input), add(a.output, b.output), a.usd + b.usd}
}

// add returns the sum of two non-negative counts, capped at the largest int64.
func add(a, b int64) int64 {
	if b = max(b, 0); a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// reached returns the first limit that is reached, or "".
func (b Budget) reached(a amount) Stop {
	over := func(limit, n int64) bool { return limit > 0 && n >= limit }
	switch {
	case over(b.MaxTurns, a.turns):
		return StopTurns
	case over(b.MaxInputTokens, a.input):
		return StopInput
	case over(b.MaxOutputTokens, a.output):
		return StopOutput
	case over(b.MaxTotalTokens, add(a.input, a.output)):
		return StopTokens
	case b.MaxCostUSD != nil && a.usd >= *b.MaxCostUSD:
		return StopCost
	}
	return ""
}

// sized reports whether a limit of the budget depends on the size of turns.
func (b Budget) sized() bool {
	return b.MaxInputTokens > 0 || b.MaxOutputTokens > 0 || b.MaxTotalTokens > 0 || b.MaxCostUSD != nil
}

// Ledger enforces a budget. A turn is admitted only if the usage so far, plus the maximum usage of
// the other running turns, is below the budget: so only the last turn can exceed it, however many
// run at the same time. Its methods are safe for concurrent use.
type Ledger struct {
	budget Budget

	mu       sync.Mutex
	used     amount
	reserved map[*Size]bool // of the turns that run
	changed  chan struct{}  // is closed when a turn has ended
}

// NewLedger returns a ledger without usage.
func NewLedger(b Budget) *Ledger {
	return &Ledger{budget: b, reserved: map[*Size]bool{}, changed: make(chan struct{})}
}

// Admit reserves the maximum usage of a turn, until Settle or Cancel. If the budget is used up, it
// returns the Stop. If the running turns may use it up, it returns a channel that is closed when
// one of them has ended: call Admit again then.
func (l *Ledger) Admit(s *Size) (Stop, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if stop := l.budget.reached(l.used); stop != "" {
		return stop, nil
	}
	most := l.used
	for other := range l.reserved {
		if other.Unknown && l.budget.sized() {
			return "", l.changed
		}
		most = most.plus(amount{1, other.Input, other.Output, other.USD})
	}
	if l.budget.reached(most) != "" {
		return "", l.changed
	}
	l.reserved[s] = true
	return "", nil
}

// Settle replaces the reservation of a turn with its usage. reached reports whether the provider
// got its request, so that it counts as a turn.
func (l *Ledger) Settle(s *Size, u Usage, usd *float64, reached bool) {
	turns := int64(0)
	if reached {
		turns = 1
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = l.used.plus(amount{turns, Value(u.Input), Value(u.Output), Value(usd)})
	l.end(s)
}

// Cancel ends the reservation of a turn that did not begin.
func (l *Ledger) Cancel(s *Size) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(s)
}

func (l *Ledger) end(s *Size) {
	delete(l.reserved, s)
	close(l.changed)
	l.changed = make(chan struct{})
}
