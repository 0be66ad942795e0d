package podinit

import (
	"testing"
	"time"
)

func TestClockCountsAllTimeButThatOfWaitingForALostClient(t *testing.T) {
	type step struct {
		times int
		moment
	}
	const quarter = clockStep
	for name, c := range map[string]struct {
		steps []step
		want  time.Duration
	}{
		"a command with a connection":                   {[]step{{40, moment{attached: true, waits: true}}}, 10 * time.Second},
		"a command that works without a connection":     {[]step{{40, moment{}}}, 10 * time.Second},
		"a command that waits without a connection":     {[]step{{4, moment{attached: true}}, {400, moment{waits: true}}, {4, moment{attached: true}}}, 2 * time.Second},
		"a command that waits for a while, then works":  {[]step{{40, moment{waits: true}}, {40, moment{}}}, 10 * time.Second},
		"a client that is silent and then comes back":   {[]step{{40, moment{attached: true, waits: true, silent: time.Second}}, {4, moment{attached: true}}}, 11 * time.Second},
		"a client whose silence turns out to be a loss": {[]step{{60, moment{attached: true, waits: true, silent: time.Second}}, {40, moment{attached: true, waits: true, silent: silentTime}}}, 0},
		"a silence in which the command works":          {[]step{{100, moment{attached: true, silent: silentTime}}}, 25 * time.Second},
	} {
		var k clock
		for _, s := range c.steps {
			for range s.times {
				k.tick(quarter, s.moment)
			}
		}
		if k.used != c.want {
			t.Errorf("%s: %v, want %v", name, k.used, c.want)
		}
	}
	var k clock
	if k.tick(time.Hour, moment{attached: true}); k.used != clockStep {
		t.Errorf("a guest that was stopped for an hour counts %v", k.used)
	}
	if k.next(time.Second) != clockStep || k.next(clockStep+time.Millisecond) != time.Millisecond || k.next(time.Millisecond) != 0 {
		t.Error("the next step does not end with the limit")
	}
}

func TestProcessWaitsForWhatItAskedForOrWhatWasArriving(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		asked, told time.Duration // before now, which is when the connection was lost
		want        bool
	}{
		"a request without an answer":        {time.Hour, 2 * time.Hour, true},
		"an answer that was arriving":        {time.Minute, time.Second, true},
		"an answer that is whole since long": {time.Hour, time.Minute, false},
	} {
		x := &exchange{asked: now.Add(-c.asked), told: now.Add(-c.told)}
		if got := x.waits(now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	x := newExchange()
	if !x.waits(now) {
		t.Error("a new connection does not wait")
	}
	if x.tell(); x.waits(now.Add(time.Hour)) {
		t.Error("it waits after an answer")
	}
	if x.ask(); !x.waits(now.Add(time.Hour)) {
		t.Error("it does not wait after a question")
	}
}

func TestGuestEndsWhenItsClientHasNotComeForLong(t *testing.T) {
	began := time.Now()
	for name, c := range map[string]struct {
		heard string // the state at each tick: n(othing), h(eard), s(tays)
		want  int    // ticks until the end
	}{
		"nobody has ever come":      {"nnnnn", 3},
		"a client that lives":       {"hhhhhhhh", 8},
		"a client that is gone":     {"hhnnnnn", 5},
		"a client that comes again": {"hnnhnnhnnn", 10},
		"a container that was kept": {"hnssssnnn", 9},
	} {
		ticks, at := make(chan time.Time, len(c.heard)), -2 // the first question is before the first tick
		for range c.heard {
			ticks <- began
		}
		close(ticks)
		last := began
		awaitAlone(ticks, 3, func() time.Time {
			if at++; at >= 0 && c.heard[at] == 'h' {
				last = last.Add(time.Second)
			}
			return last
		}, func() bool { return c.heard[at] == 's' })
		if got := len(c.heard) - len(ticks); got != c.want {
			t.Errorf("%s: it ended after %d ticks, want %d", name, got, c.want)
		}
	}
}
