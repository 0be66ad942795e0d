package ui

import (
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
)

func TestEstimate(t *testing.T) {
	for _, c := range []struct {
		name         string
		total, ended int   // each of the ended trials took a minute
		running      []int // seconds since they started
		concurrency  int
		cancelling   bool
		want         time.Duration // 0: none
	}{
		{name: "no trial has ended", total: 20, ended: 0, running: []int{30}, concurrency: 1},
		{name: "one ended trial is not enough", total: 20, ended: 1, running: []int{30}, concurrency: 1},
		{name: "one at a time", total: 12, ended: 10, running: []int{30}, concurrency: 1, want: 90 * time.Second},
		{name: "four at a time", total: 20, ended: 8, running: []int{0, 0, 0, 0}, concurrency: 4, want: 3 * time.Minute},
		{name: "the last ones run side by side", total: 10, ended: 8, running: []int{20, 0}, concurrency: 4, want: time.Minute},
		{name: "those that take too long count as nearly done", total: 10, ended: 9, running: []int{600}, concurrency: 1, want: time.Nanosecond},
		{name: "too few of a large job", total: 400, ended: 5, running: []int{1}, concurrency: 100},
		{name: "nothing is left", total: 10, ended: 10, concurrency: 1},
		{name: "a cancelled job ends when it ends", total: 12, ended: 10, running: []int{30}, concurrency: 1, cancelling: true},
		{name: "an unknown concurrency", total: 12, ended: 10, running: []int{0, 0}, want: time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &state{total: c.total, ended: c.ended, timed: c.ended, busy: time.Duration(c.ended) * time.Minute, cancelling: c.cancelling}
			for _, sec := range c.running {
				s.running = append(s.running, &running{since: start.Add(-time.Duration(sec) * time.Second)})
			}
			left, ok := s.left(c.concurrency, start)
			if c.want == time.Nanosecond {
				if !ok || left != 0 {
					t.Errorf("got %v, %v, want 0, true", left, ok)
				}
			} else if ok != (c.want > 0) || left != c.want {
				t.Errorf("got %v, %v, want %v", left, ok, c.want)
			}
		})
	}
}

// Trials that fail because there is no image end at once.
func TestEstimateLeavesOutFailedTrials(t *testing.T) {
	var s state
	s.apply(event.Event{Kind: event.JobStarted, Total: 10, Time: start})
	for i := range 4 {
		s.apply(ended(failure(key("broken", i), result.EnvironmentBuildFailed, "no registry", 0.1)))
	}
	if left, ok := s.left(1, start); ok {
		t.Errorf("%v left, of trials that all failed", left)
	}
	for i := range 2 {
		timedOut := reward(key("works", i), 0, 60)
		timedOut.Error = &result.Error{Type: result.AgentExecutionTimeout}
		s.apply(ended(timedOut))
	}
	if left, ok := s.left(1, start); !ok || left != 4*time.Minute {
		t.Errorf("%v, %v left, want 4m: four trials of a minute", left, ok)
	}
}

func TestApplyRemovesEndedTrials(t *testing.T) {
	var s state
	one := key("one", 1)
	s.apply(event.Event{Kind: event.JobStarted, Total: 1, Time: start})
	s.apply(event.Event{Kind: event.TrialStarted, Key: one, Time: start})
	s.apply(event.Event{Kind: event.TrialStarted, Key: one, Time: start})
	s.apply(ended(reward(one, 1, 60)))
	// A trial that was given up may still send events.
	s.apply(event.Event{Kind: event.PhaseStarted, Key: one, Phase: event.Teardown})
	s.apply(event.Event{Kind: event.Progress, Key: one, Message: "late"})
	if s.ended != 1 || s.passed != 1 || len(s.running) != 0 {
		t.Errorf("got %+v", s)
	}
}

func TestApplyAcceptsIncompleteEvents(t *testing.T) {
	var s state
	for _, kind := range []event.Kind{event.JobStarted, event.TrialStarted, event.PhaseStarted, event.Progress, event.TrialEnded, event.JobEnded, "unknown"} {
		s.apply(event.Event{Kind: kind})
	}
	s.apply(event.Event{Kind: event.TrialEnded, Key: key("one", 1)})
	if s.ended != 1 {
		t.Errorf("ended = %d, want 1", s.ended)
	}
}

// Rates are those of the agents that are evaluated, as in the summary.
func TestRatesAreWithoutOracleAndNop(t *testing.T) {
	add := func(s *state, agent string, value float64) {
		k := *key("t", 1)
		k.Agent = agent
		s.apply(ended(reward(&k, value, 1)))
	}
	rate := func(s *state) float64 { return s.evaluated().Summary(nil).PassRate }
	var s state
	add(&s, "nop", 0)
	add(&s, "oracle", 1)
	if got := rate(&s); got != 1 {
		t.Errorf("oracle and nop: %v", got)
	}
	add(&s, "cpe", 0)
	add(&s, "other", 0)
	if got := rate(&s); got != 0 {
		t.Errorf("two agents, oracle and nop: %v", got)
	}
}
