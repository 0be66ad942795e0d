package trial

import (
	"fmt"
	"strings"
	"sync"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/event"
	"github.com/org/rollout-action/internal/result"
)

// bases are the stand-ins for images that a job has been told of: once each, however many trials use
// them.
type bases struct {
	mu        sync.Mutex
	announced map[[2]string]bool // by what was requested and what is used
}

// first reports whether this stand-in has not been told of before.
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

// recordBase keeps what the environment stands on if that is not its image, and tells the job's watchers of
// it: a reward from another base must never be taken for one from the image.
func (x *execution) recordBase(env *environment.Base) {
	if env == nil {
		return
	}
	line := func(text string) string { return strings.Join(strings.Fields(hide(x.opts.Redactor, text)), " ") }
	base := result.Base{Requested: line(env.Requested), Actual: line(env.Actual), Reason: line(env.Reason), Asked: env.Asked}
	x.trial.Environment.Base = &base
	if x.bases.first(base) {
		format := "%s is NOT used: its trials run on %s instead (%s)"
		if env.Asked { // who asked for it need not be warned
			format = "trials of %s run on %s (%s)"
		}
		// Without a key: it is about the job, not about the trial that happens to come first.
		x.opts.Emit(event.Event{Time: x.opts.Now().UTC(), Kind: event.Notice, Message: fmt.Sprintf(format, base.Requested, base.Actual, base.Reason)})
	}
}
