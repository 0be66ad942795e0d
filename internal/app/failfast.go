package app

import (
	"fmt"
	"strings"

	"github.com/org/rollout-action/internal/agent"
	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/result"
)

// failFast decides when a job with --fail-fast stops, and remembers why.
type failFast struct {
	p     *planned
	first *result.Trial // the one that failed
	left  []result.Key  // trials that were not started
}

// stops reports whether no trial may start after this one. It is the job.Options.FailFast of the job.
func (f *failFast) stops(t result.Trial) bool {
	if !failsFast(t) || !f.p.Job.Gate.Gates(t.Dataset, t.Task, f.p.host.Now()) {
		return false
	}
	f.first = &t
	return true
}

// failsFast reports whether a trial did not pass, although it should have: it has an error and no reward, or a reward below 1. The
// agent nop is not meant to pass.
func failsFast(t result.Trial) bool {
	switch {
	case t.Error != nil && t.Error.Type == result.Cancelled, t.Agent == agent.Nop && t.Completed():
		return false
	case t.Completed():
		return !t.Passed()
	}
	return t.Failed()
}

// maxNamed is how many trials that were not started are named. result.json lists all.
const maxNamed = 20

// sentence says why trials were not started, and which; "" if all were.
func (f *failFast) sentence() string {
	if f == nil || f.first == nil || len(f.left) == 0 {
		return ""
	}
	var names []string
	for _, k := range f.left[:min(len(f.left), maxNamed)] {
		names = append(names, k.String())
	}
	why := "it has no reward"
	if f.first.Reward != nil {
		why = fmt.Sprintf("its reward is %g", *f.first.Reward)
	} else if f.first.Error != nil {
		why = string(f.first.Error.Type)
	}
	list := strings.Join(names, ", ")
	if n := len(f.left) - len(names); n > 0 {
		list += fmt.Sprintf(" and %d more", n)
	}
	return clean(fmt.Sprintf("%s failed (%s), so %s not started (--fail-fast): %s", f.first.Key, why, plural.Count(len(f.left), "trial")+" "+was(len(f.left)), list))
}

func was(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}
