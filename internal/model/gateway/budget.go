package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/model/meter"
)

// Purse is the money of a job, which its trials share. A turn is admitted only if the money spent,
// plus the maximum cost of all other running turns, is below the budget. Turns of all trials are
// admitted in the order in which they joined. Its methods are safe for concurrent use.
type Purse interface {
	// Join returns a place for a turn, which leaves it when it is admitted or gives up.
	Join() *meter.Place
	// Reserve reserves the maximum cost of a turn, in US dollars; +Inf if it is not known. used
	// reports whether the budget is used up. wait is not nil if other turns have joined before, or
	// if running turns may spend the rest: call Reserve again when it is closed.
	Reserve(at *meter.Place, usd float64) (used bool, wait <-chan struct{})
	// Release ends a reservation, after the turn's cost was counted.
	Release(usd float64)
}

// candidate is a turn that waits for admission.
type candidate struct {
	size *meter.Size
	own  *meter.Place // among the turns of the trial
	job  *meter.Place // among those of all trials; nil: it does not wait for the job's budget
}

// leave gives up the turn's places.
func (c *candidate) leave() {
	c.own.Leave()
	c.leaveJob()
}

func (c *candidate) leaveJob() {
	if c.job != nil {
		c.job.Leave()
		c.job = nil
	}
}

// begin admits a turn, or returns the reason for refusing it: a Stop, errSealed, errBudgetWait, or
// ctx's cause. It waits while running turns may use up a budget. The turns of a trial are admitted
// in the order in which they came.
func (s *Session) begin(ctx context.Context, size *meter.Size) (n int, waited time.Duration, stop model.Stop, err error) {
	timer := time.NewTimer(s.opts.MaxWait)
	defer timer.Stop()
	turn := &candidate{size: size, own: s.line.Join()}
	defer turn.leave()
	for {
		n, stop, wait, err := s.admit(turn)
		if wait == nil {
			return n, waited, stop, err
		}
		from := time.Now()
		select {
		case <-wait:
			waited += time.Since(from)
			s.unqueue()
		case <-ctx.Done():
			s.waitedInVain(waited+time.Since(from), false)
			return 0, 0, "", context.Cause(ctx)
		case <-timer.C:
			s.waitedInVain(waited+time.Since(from), true)
			return 0, 0, "", errBudgetWait
		}
	}
}

var errBudgetWait = errors.New("the turns that run may use up the budget")

// unqueue ends the wait of a turn.
func (s *Session) unqueue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queued--
}

// waitedInVain ends the wait of a turn that is not sent: it has waited for a budget until it gave
// up (tired), or its client did. If it waited only for turns of other trials, a client that has run
// out of time meanwhile has not failed.
func (s *Session) waitedInVain(waited time.Duration, tired bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queued--
	s.report.Waiting += waited
	if s.running > 0 && !tired {
		return
	}
	s.report.Failure = &model.Failure{Kind: model.FailedLimit, Message: fmt.Sprintf("%v (the request has waited for %s)", errBudgetWait, waited.Round(100*time.Millisecond))}
}

// admit makes one attempt for begin. If the turn has to wait, it returns a channel that is closed
// when the next attempt is due.
func (s *Session) admit(turn *candidate) (n int, stop model.Stop, wait <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		s.report.Late++
		return 0, "", nil, errSealed
	}
	if stop = s.report.Stop; stop == "" {
		if stop, wait = s.reserve(turn); wait != nil {
			s.queued++
			return 0, "", wait, nil
		}
	}
	if stop == "" && s.fruitless >= maxFruitless {
		s.unreserve(turn.size)
		stop = model.StopEmpty
		if s.report.Failure == nil {
			s.report.Failure = &model.Failure{Kind: model.FailedEmpty, Message: "ten answers in a row had no output"}
		}
	}
	if stop != "" {
		s.report.Stop = stop
		s.report.Refused++
		return 0, stop, nil, nil
	}
	s.n++
	s.running++
	return s.n, "", nil, nil
}

// reserve reserves a turn's size in the budgets of the trial and of the job. A turn that waits for
// its own trial holds no place in the line for the job's budget, where it would block turns of
// other trials.
func (s *Session) reserve(turn *candidate) (model.Stop, <-chan struct{}) {
	if !turn.own.IsFirst() {
		return "", turn.own.First()
	}
	size := turn.size
	s.opts.Model.scale.Adjust(size) // others have ended meanwhile
	stop, wait := s.ledger.Admit(size)
	if stop != "" || wait != nil || s.opts.Purse == nil {
		turn.leaveJob()
		return stop, wait
	}
	if turn.job == nil {
		turn.job = s.opts.Purse.Join()
	}
	used, wait := s.opts.Purse.Reserve(turn.job, atMost(size))
	switch {
	case used:
		stop = model.StopJobCost
	case wait == nil:
		return "", nil
	}
	s.ledger.Cancel(size)
	return stop, wait
}

// unreserve ends the reservations of a turn that did not begin.
func (s *Session) unreserve(size *meter.Size) {
	s.ledger.Cancel(size)
	if s.opts.Purse != nil {
		s.opts.Purse.Release(atMost(size))
	}
}

// settle replaces the reservations of a turn with its usage and cost.
func (s *Session) settle(size *meter.Size, t model.Turn, reached bool) {
	s.opts.Model.scale.Learn(size, t.Answer.Usage, t.Cost)
	s.ledger.Settle(size, t.Answer.Usage, t.Cost, reached)
	if s.opts.Purse != nil {
		s.opts.Purse.Release(atMost(size))
	}
}

// atMost returns the maximum cost of a turn in US dollars.
func atMost(size *meter.Size) float64 {
	if size.Unknown {
		return math.Inf(1)
	}
	return size.USD
}

// size returns the maximum usage of a turn.
func (m *Model) size(request []byte) *meter.Size {
	limit, choices := int64(0), int64(1)
	for _, path := range api.Limits() {
		limit = max(limit, gjson.GetBytes(request, path).Int())
	}
	for _, path := range api.Choices() {
		choices = max(choices, min(gjson.GetBytes(request, path).Int(), 1000))
	}
	switch imposed := m.Sampling["max_tokens"].(type) {
	case int:
		limit = int64(imposed)
	case int64:
		limit = imposed
	case float64:
		limit = int64(imposed)
	}
	if limit <= 0 || limit > math.MaxInt32 {
		limit = meter.DefaultOutput
	}
	return m.scale.Size(request, limit*choices, m.most)
}

// most returns the maximum cost of tokens: none of them from a cache, and all written to one if
// that costs more.
func (m *Model) most(input, output int64) *float64 {
	if m.Cost == nil {
		return nil
	}
	var most *float64
	for _, u := range []model.Usage{
		{Input: &input, Output: &output},
		{Input: &input, Output: &output, CacheWrite: &input},
		{Input: &input, Output: &output, CacheWrite: &input, CacheWriteHour: &input},
		{Input: &input, Output: &output, Reasoning: &output},
	} {
		if usd := m.Cost(m.Upstream, time.Now(), u); usd != nil && (most == nil || *usd > *most) {
			most = usd
		}
	}
	return most
}

// cost returns the cost of a turn in US dollars, by the job's prices or as the provider reported
// it; nil if it is unknown. atLeast: it is a lower bound.
func (s *Session) cost(t model.Turn) (usd *float64, atLeast bool) {
	m, u := s.opts.Model, t.Answer.Usage
	if m.Cost == nil {
		return u.CostUSD, false
	}
	at := t.Began
	if !t.Recorded.IsZero() {
		at = t.Recorded
	}
	name := cmp.Or(t.Answer.Model, m.Upstream)
	usd = m.Cost(name, at, u)
	switch {
	case usd == nil || u.CostUSD != nil: // the provider's own figure is exact
	case m.Unpriced != nil:
		atLeast = m.Unpriced(name, at, u)
	default:
		atLeast = meter.Value(u.Searches) > 0
	}
	return usd, usd != nil && u.CostUSD == nil && (atLeast || u.Estimated || u.Apart)
}

// estimated returns the usage of a turn. Counts that the provider did not state, or not to the end,
// are estimated from the bytes of the request and of the answer; not for requests that the provider
// refused or did not get, which cost nothing.
func (x *exchange) estimated(request []byte) model.Usage {
	u := x.turn.Answer.Usage
	final := u.Input != nil && u.Output != nil && (x.turn.Whole || x.turn.Answer.Finish != "")
	if final || !x.reached || x.refused {
		return u
	}
	if u.Input == nil {
		u.Input = new(meter.InputTokens(request))
	}
	u.Output = new(max(meter.Value(u.Output), meter.OutputTokens(x.turn.Answer.Size())))
	u.Estimated = true
	return u
}
