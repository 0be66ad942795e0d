package podinit

import (
	"sync"
	"time"
)

const (
	// beatEvery is the time between two signs of life of a client that has nothing else to send.
	// After silentTime without one, the guest takes the connection for lost: not every network says
	// that it has lost one.
	beatEvery  = 5 * time.Second
	silentTime = 3 * beatEvery
	// flowTime is how long before the loss of the connection an answer must have arrived to count
	// as one whose rest is missing.
	flowTime = 10 * time.Second
	// clockStep is the longest time that a clock measures at once. A step that takes stoppedTime
	// longer means that the guest did not run.
	clockStep   = 250 * time.Millisecond
	stoppedTime = 5 * time.Second
)

// clock measures the time of a command for its limit. Time in which the command waits for a client
// that cannot be reached does not count, because only the network between the two can be blamed for
// it. All other time does.
type clock struct {
	used time.Duration
	// unsure is a part of used: the time in which the command has waited for a client from which
	// nothing was heard.
	unsure time.Duration
}

// moment describes the end of a step of a clock.
type moment struct {
	attached bool          // there is a connection to the client
	silent   time.Duration // since the client was last heard
	waits    bool          // the command waits for the client
}

// tick counts a step.
func (c *clock) tick(took time.Duration, m moment) {
	if took > clockStep+stoppedTime {
		took = clockStep
	}
	if m.silent <= took {
		c.unsure = 0
	}
	switch {
	case !m.waits:
		c.used += took
	case !m.attached:
	case m.silent < silentTime:
		c.used += took
		c.unsure += took
	default:
		c.used -= c.unsure
		c.unsure = 0
	}
}

// next returns how long the next step is to take, or 0 if the limit is reached.
func (c *clock) next(limit time.Duration) time.Duration {
	return min(clockStep, max(0, limit-c.used))
}

// exchange records when a process of the container and the client last sent bytes over a
// connection.
type exchange struct {
	mu          sync.Mutex
	asked, told time.Time // when bytes last came from the process, and from the client
}

func newExchange() *exchange { return &exchange{asked: time.Now()} }

func (x *exchange) ask() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.asked = time.Now()
}

func (x *exchange) tell() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.told = time.Now()
}

// waits reports whether the process waits for the client, of which nothing came after lost: it has
// sent something since the last answer, or that was arriving.
func (x *exchange) waits(lost time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.asked.After(x.told) || x.told.After(lost.Add(-flowTime))
}

// noted is a writer that calls note whenever bytes pass.
type noted struct {
	write func([]byte) (int, error)
	note  func()
}

// Write implements io.Writer.
func (n noted) Write(p []byte) (int, error) {
	n.note()
	return n.write(p)
}

// awaitAlone returns when a client was not heard for so many ticks. Time in which this process does
// not run has none.
func awaitAlone(ticks <-chan time.Time, most int, heard func() time.Time, stays func() bool) {
	last, alone := heard(), 0
	for range ticks {
		now := heard()
		if alone++; now != last || stays() {
			last, alone = now, 0
		}
		if alone == most {
			return
		}
	}
}
