package layer

import (
	"context"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
)

// maxTimeouts limits the timeouts of a layer's install script in one job.
const maxTimeouts = 3

// Store holds the layers of a job. The first trial that needs a layer makes it, and the others
// wait. Its methods may be called by many goroutines.
//
// A failure counts for the trials that waited for it. The next trial that comes runs the script
// again, because the cause may have been the network. Only a script that timed out often is not run
// again: that costs the most and helps the least.
type Store struct {
	provider environment.Provider

	mu       sync.Mutex
	layers   map[string]*Layer // by key
	timeouts map[string]int    // by key: number of timeouts of the script
}

// NewStore returns the store of one job.
func NewStore(p environment.Provider) *Store {
	return &Store{provider: p, layers: map[string]*Layer{}, timeouts: map[string]int{}}
}

// Layer is an agent layer, or the reason why there is none. Other trials may read the fields that
// are set when it is settled: by Keep, Fail, GiveUp or Abandon, of which the first call counts.
type Layer struct {
	// Maker is the trial that makes the layer.
	Maker result.Key

	Ref     string   // of the image; "" if there is none
	From    string   // describes who installed the agent, for messages
	Failure *Failure // of the install script; nil if it did not fail
	// Unavailable is the reason why there is no layer, so that each trial installs the agent;
	// otherwise "".
	Unavailable string

	store     *Store
	key       string
	unlock    func() // nil until other processes are locked out
	done      chan struct{}
	timeout   time.Duration // of the script that failed
	abandoned bool          // the result of the script is unknown
}

// Failure is the error of an install script. Its message is redacted.
type Failure struct {
	Type    result.ErrorType
	Message string
}

// Claim is a trial's request for a layer.
type Claim struct {
	Key     string // see Inputs.Key
	Trial   result.Key
	Timeout time.Duration // of the trial's install script
	// Waiting is called before the trial waits for another one, which may happen several times.
	Waiting func(maker result.Key)
}

// Claim returns the layer of a key. If mine is true, the caller has to make it, and to settle it in
// any case; else it is settled. A failure that is the script's own is in the layer. The error is
// that of ctx or of the provider: errors.ErrUnsupported is in its chain if the provider keeps no
// images.
func (s *Store) Claim(ctx context.Context, c Claim) (l *Layer, mine bool, err error) {
	for {
		l, mine := s.entry(c)
		if mine {
			return l.begin(ctx)
		}
		if !l.settled() {
			c.Waiting(l.Maker)
		}
		select {
		case <-l.done:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
		tooShort := l.Failure != nil && l.Failure.Type == result.AgentInstallTimeout && c.Timeout > l.timeout
		if !l.abandoned && !tooShort {
			return l, false, nil
		}
		l.Drop()
	}
}

// entry returns the layer of a claim. If mine is true, the caller has to make it.
func (s *Store) entry(c Claim) (l *Layer, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.layers[c.Key]; ok {
		return l, false
	}
	l = &Layer{store: s, key: c.Key, Maker: c.Trial, done: make(chan struct{})}
	s.layers[c.Key] = l
	return l, true
}

// begin locks other processes out, and finds the layer if another process or an earlier job has
// made it.
func (l *Layer) begin(ctx context.Context) (_ *Layer, mine bool, err error) {
	defer func() {
		if err != nil {
			l.Abandon()
		}
	}()
	if l.unlock, err = environment.LockSnapshot(ctx, l.store.provider, l.key); err != nil {
		return nil, false, err
	}
	ref, from, err := environment.FindSnapshot(ctx, l.store.provider, l.key)
	if err != nil {
		return nil, false, err
	}
	if ref == "" {
		return l, true, nil
	}
	l.Keep(ref, from)
	return l, false, nil
}

// Keep settles the layer: it is the image ref, and from describes who installed the agent.
func (l *Layer) Keep(ref, from string) { l.settle(func() { l.Ref, l.From = ref, from }) }

// Fail settles the layer: its install script, with this timeout, failed.
func (l *Layer) Fail(f Failure, timeout time.Duration) {
	l.settle(func() { l.Failure, l.timeout = &f, timeout })
}

// GiveUp settles the layer: there is none, because of why, and each trial installs the agent.
func (l *Layer) GiveUp(why string) { l.settle(func() { l.Unavailable = why }) }

// Abandon settles the layer: its maker was cancelled or lost its environment, and another trial may
// make it.
func (l *Layer) Abandon() { l.settle(func() { l.abandoned = true }) }

// settle applies an outcome, unless there is one, and wakes the waiting trials.
func (l *Layer) settle(outcome func()) {
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.settled() {
		return
	}
	outcome()
	retry := l.abandoned || l.Failure != nil
	if l.Failure != nil && l.Failure.Type == result.AgentInstallTimeout {
		s.timeouts[l.key]++
		retry = s.timeouts[l.key] < maxTimeouts
	}
	if retry && s.layers[l.key] == l {
		delete(s.layers, l.key)
	}
	if l.unlock != nil {
		l.unlock()
	}
	close(l.done)
}

// settled reports whether the layer has an outcome, so that no trial is making it.
func (l *Layer) settled() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// Key returns the key that the layer was claimed by.
func (l *Layer) Key() string { return l.key }

// Drop forgets the layer, so that the next trial that needs it makes a new one.
func (l *Layer) Drop() {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	if l.store.layers[l.key] == l {
		delete(l.store.layers, l.key)
	}
}
