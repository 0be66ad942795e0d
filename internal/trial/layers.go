package trial

import (
	"context"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/result"
)

// layers makes each agent layer once for all trials of a job that can use it: an image that an agent's install script has
// left (agents[].cache_install). Whose trial comes first makes it; the others wait.
//
// A failure counts for the trials that waited for it: the next one that comes tries again, for it may have been the network's.
// Only what timed out often is not tried any more, since that costs the most and mends itself the least.
type layers struct {
	provider environment.Provider

	mu       sync.Mutex
	made     map[string]*layer
	timeouts map[string]int // how often making the layer of a key timed out
}

// maxTimeouts is how often a layer may time out in one job.
const maxTimeouts = 3

// layer is one being made. Its fields below done may be read after that is closed.
type layer struct {
	key    string
	maker  result.Key
	unlock func() // nil until other processes are kept out
	done   chan struct{}

	ref            string        // "": there is none
	from           string        // who ran the script, for people
	failed         *failure      // what became of the script
	installTimeout time.Duration // of the script
	reason         string        // why there is no layer, so that each trial installs the agent
	// abandoned: its maker was cancelled or lost its environment, which says nothing about the script.
	abandoned bool
}

// settled reports whether nobody makes it any more.
func (l *layer) settled() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// claim returns the layer of a key: settled, or to be made by the caller, who must settle it whatever happens. limit is how long
// the caller's script may take; waiting hears whom the caller waits for.
func (ls *layers) claim(ctx context.Context, key string, caller result.Key, limit time.Duration, waiting func(maker result.Key)) (l *layer, mine bool, err error) {
	for {
		l, mine := ls.entry(key, caller)
		if mine {
			return ls.begin(ctx, l)
		}
		if !l.settled() {
			waiting(l.maker)
		}
		select {
		case <-l.done:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
		tooShort := l.failed != nil && l.failed.Type == result.AgentInstallTimeout && limit > l.installTimeout
		if !l.abandoned && !tooShort {
			return l, false, nil
		}
		ls.drop(l)
	}
}

// entry is the key's layer; mine means that the caller has to make it.
func (ls *layers) entry(key string, caller result.Key) (l *layer, mine bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.made == nil {
		ls.made, ls.timeouts = map[string]*layer{}, map[string]int{}
	}
	if l, ok := ls.made[key]; ok {
		return l, false
	}
	l = &layer{key: key, maker: caller, done: make(chan struct{})}
	ls.made[key] = l
	return l, true
}

// begin keeps other processes out, and looks whether one of them, or an earlier job, has made the layer.
func (ls *layers) begin(ctx context.Context, l *layer) (_ *layer, mine bool, err error) {
	defer func() {
		if err != nil {
			ls.settle(l, func() { l.abandoned = true })
		}
	}()
	if l.unlock, err = environment.LockSnapshot(ctx, ls.provider, l.key); err != nil {
		return nil, false, err
	}
	ref, from, err := environment.FindSnapshot(ctx, ls.provider, l.key)
	if err != nil {
		return nil, false, err
	}
	if ref == "" {
		return l, true, nil
	}
	ls.settle(l, func() { l.ref, l.from = ref, from })
	return l, false, nil
}

// settle says what became of a layer. The second time it does nothing.
func (ls *layers) settle(l *layer, outcome func()) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.settled() {
		return
	}
	outcome()
	again := l.abandoned || l.failed != nil
	if l.failed != nil && l.failed.Type == result.AgentInstallTimeout {
		ls.timeouts[l.key]++
		again = ls.timeouts[l.key] < maxTimeouts
	}
	if again && ls.made[l.key] == l {
		delete(ls.made, l.key)
	}
	if l.unlock != nil {
		l.unlock()
	}
	close(l.done)
}

// drop makes the next trial that needs this layer make it anew, unless somebody does so already.
func (ls *layers) drop(l *layer) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.made[l.key] == l {
		delete(ls.made, l.key)
	}
}
