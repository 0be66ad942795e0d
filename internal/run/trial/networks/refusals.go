package networks

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/org/rollout-action/internal/core/environment"
)

// maxRefused limits the refused hosts that are counted, and maxNamed those that a trial's warnings
// name.
const (
	maxRefused = 1000
	maxNamed   = 10
)

// Refusals counts the requests that the filtering proxy refused. Its methods may be called by many
// goroutines.
type Refusals struct {
	mu    sync.Mutex
	actor string
	count map[refusal]int
	more  int
}

type refusal struct{ actor, where, reason string }

// SetActor sets the name of the process that makes the following requests.
func (r *Refusals) SetActor(who string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.actor = who
}

// Counted returns n as a network that reports refused requests to r.
func (r *Refusals) Counted(n environment.Network) environment.Network {
	n.Refused = func(no environment.Refusal) {
		where := no.Host
		if no.Port != 80 && no.Port != 443 {
			where = net.JoinHostPort(no.Host, strconv.Itoa(int(no.Port)))
		}
		reason := "which allowed_hosts does not list"
		if no.Listed {
			reason = "which was refused, because " + no.Reason
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		one := refusal{cmp.Or(r.actor, "something in the environment"), where, reason}
		if _, known := r.count[one]; !known && len(r.count) == maxRefused {
			r.more++
			return
		}
		if r.count == nil {
			r.count = map[refusal]int{}
		}
		r.count[one]++
	}
	return n
}

// Warn warns of the refused requests, the most frequent first.
func (r *Refusals) Warn(warn func(format string, args ...any)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.SortedFunc(maps.Keys(r.count), func(x, y refusal) int {
		return cmp.Or(cmp.Compare(r.count[y], r.count[x]), cmp.Compare(x.actor, y.actor), cmp.Compare(x.where, y.where), cmp.Compare(x.reason, y.reason))
	})
	for i, one := range all {
		if i == maxNamed {
			warn("%d more hosts were refused", len(all)-i+r.more)
			break
		}
		times := ""
		if n := r.count[one]; n > 1 {
			times = fmt.Sprintf(" (%d times)", n)
		}
		warn("%s tried to reach %s%s, %s", one.actor, one.where, times, one.reason)
	}
}
