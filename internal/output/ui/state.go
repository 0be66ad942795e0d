package ui

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/output/termtext"
)

// state accumulates the events of a job.
type state struct {
	total, ended int // of the whole job, including earlier runs
	kept         int // ended before this run
	started      time.Time
	passed       int
	tally        result.Tally
	byAgent      map[string]*result.Tally // of oracle, of nop, and below "" of all other agents
	timed        int                      // ended trials of this run that the estimate goes by
	busy         time.Duration            // their total duration
	running      []*running               // in the order in which they started
	cancelling   bool
	images       map[string]string // errors of images, with the first trial that had each
}

// firstWith returns the trial that had the same failure of the image before, or "" if this is the
// first: all trials of a task share its image.
func (s *state) firstWith(e event.Event) string {
	switch e.Trial.Error.Type {
	case result.EnvironmentBuildFailed, result.EnvironmentBuildTimeout, result.EnvironmentImagePullFailed:
	default:
		return ""
	}
	if first := s.images[e.Trial.Error.Message]; first != "" {
		return first
	}
	if s.images == nil {
		s.images = map[string]string{}
	}
	s.images[e.Trial.Error.Message] = termtext.TrialName(e.Key)
	return ""
}

// running is a trial that has started and not ended.
type running struct {
	key      result.Key
	name     string
	phase    event.Phase
	step     *event.Step // nil: none
	since    time.Time
	progress string // of the current wait, such as for its image
}

// apply applies an event. It ignores events about trials that have ended.
func (s *state) apply(e event.Event) {
	switch e.Kind {
	case event.JobStarted:
		s.total, s.started = e.Total, e.Time
		s.keep(e.Kept)
	case event.Cancelling:
		s.cancelling = true
	}
	if e.Key == nil {
		return
	}
	at := slices.IndexFunc(s.running, func(r *running) bool { return r.key == *e.Key })
	switch e.Kind {
	case event.TrialStarted:
		if at < 0 {
			s.running = append(s.running, &running{key: *e.Key, name: termtext.TrialName(e.Key), since: e.Time})
		}
	case event.PhaseStarted:
		if at >= 0 {
			s.running[at].phase, s.running[at].step, s.running[at].progress = e.Phase, e.Step, ""
		}
	case event.Progress:
		if at >= 0 {
			s.running[at].progress = termtext.FirstLine(e.Message)
		}
	case event.TrialEnded:
		if at >= 0 {
			s.running = slices.Delete(s.running, at, at+1)
		}
		s.end(e.Trial)
	}
}

// keep counts the trials of an earlier run. Their durations do not enter the estimate.
func (s *state) keep(trials []result.Trial) {
	for i := range trials {
		s.end(&trials[i])
	}
	s.kept, s.timed, s.busy = len(trials), 0, 0
}

func (s *state) end(t *result.Trial) {
	if t != nil && t.Confirmation { // is none of the total
		s.tally.Add(*t)
		return
	}
	s.ended++
	if t == nil {
		return
	}
	s.tally.Add(*t)
	s.ofAgent(t.Agent).Add(*t)
	if t.Passed() {
		s.passed++
	}
	if !t.Failed() { // many failures take no time, and say nothing about the trials that work
		s.timed++
		s.busy += time.Duration(t.Durations.TotalSec * float64(time.Second))
	}
}

// builtin returns the name of a built-in agent, and "" of others.
func builtin(name string) string {
	if name != agent.Oracle && name != agent.Nop {
		return ""
	}
	return name
}

// ofAgent returns the tally of an agent: others than oracle and nop share one.
func (s *state) ofAgent(name string) *result.Tally {
	name = builtin(name)
	if s.byAgent == nil {
		s.byAgent = map[string]*result.Tally{}
	}
	if s.byAgent[name] == nil {
		s.byAgent[name] = &result.Tally{}
	}
	return s.byAgent[name]
}

// evaluated returns the tally of the agents that rates are about (agent.Evaluated), of those that
// have begun.
func (s *state) evaluated() *result.Tally {
	names := slices.Collect(maps.Keys(s.byAgent))
	for _, r := range s.running {
		names = append(names, builtin(r.key.Agent))
	}
	for _, name := range agent.Evaluated(names) {
		if t := s.byAgent[name]; t != nil {
			return t
		}
	}
	return &result.Tally{}
}

// making returns the index of the first trial that waits for something, such as its image, or -1.
// It stays the same, so that its line can be read.
func (s *state) making() int {
	return slices.IndexFunc(s.running, func(r *running) bool { return r.progress != "" })
}

// left estimates how long the job still takes at this concurrency: the average duration of ended
// trials that did not fail, for those that have not started and for the rest of those that run. ok
// is false until enough of them have ended, and if none is left or the job is being cancelled.
func (s *state) left(concurrency int, now time.Time) (left time.Duration, ok bool) {
	remaining := s.total - s.ended
	if s.cancelling || remaining <= 0 || s.busy <= 0 || s.timed < max(2, min(concurrency, (s.total-s.kept)/4)) {
		return 0, false
	}
	mean := s.busy / time.Duration(s.timed)
	work := mean * time.Duration(remaining)
	longest := time.Duration(0)
	for _, r := range s.running {
		spent := min(max(now.Sub(r.since), 0), mean)
		work -= spent
		longest = max(longest, mean-spent)
	}
	lanes := cmp.Or(max(concurrency, len(s.running)), 1)
	return max(work/time.Duration(min(lanes, remaining)), longest), true
}
