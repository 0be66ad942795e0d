package trial

import (
	"fmt"
	"strings"
	"sync"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// bases holds the substitutes for images that were announced to the job's watchers: each is
// announced once, however many trials use it.
type bases struct {
	mu        sync.Mutex
	announced map[[2]string]bool // by the requested and the used image
}

// first reports whether a substitute was not announced before, and remembers it.
func (b *bases) first(base result.Base) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	pair := [2]string{base.Requested, base.Actual}
	if b.announced[pair] {
		return false
	}
	if b.announced == nil {
		b.announced = map[[2]string]bool{}
	}
	b.announced[pair] = true
	return true
}

// recordBase records the base of the environment if that is not its image, and announces it to the
// job's watchers: a reward from another base must not be taken for one from the image.
func (x *agentRun) recordBase(env *environment.Base) {
	if env == nil {
		return
	}
	line := func(text string) string { return strings.Join(strings.Fields(failure.Hide(x.Secrets, text)), " ") }
	base := result.Base{Requested: line(env.Requested), Actual: line(env.Actual), Reason: line(env.Reason), Asked: env.Asked}
	x.Trial.Environment.Base = &base
	if !env.Asked && x.bases.first(base) { // a base that the job asks for needs no warning; the summary has a note
		// Without a key: it concerns the job, not the trial that happens to come first.
		x.Sink(event.Event{Time: x.Now().UTC(), Kind: event.Notice, Message: fmt.Sprintf("%s is NOT used: its trials run on %s instead (%s)", base.Requested, base.Actual, base.Reason)})
	}
}
