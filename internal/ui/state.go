package ui

import (
	"cmp"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/event"
	"github.com/org/rollout-action/internal/result"
)

// state is what events have said so far about a job.
type state struct {
	total, ended int // of the whole job, also of what an earlier run of it did
	kept         int // of those that have ended, how many did before this run
	started      time.Time
	passed       int
	tally        result.Tally
	busy         time.Duration // how long the ended trials took, together
	running      []*running    // in the order in which they started
	cancelling   bool
	images       map[string]string // why images could not be had, and the first trial that was told
}

// told returns the trial of which the same failure of their image was told before, "" if this is the first one: all trials of
// a task share its image.
func (s *state) told(e event.Event) string {
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
	s.images[e.Trial.Error.Message] = name(e.Key)
	return ""
}

// running is a trial that has begun and not ended.
type running struct {
	key      result.Key
	name     string
	phase    event.Phase
	since    time.Time
	progress string // the last line about its image
}

// apply takes in an event. Events about trials that have ended already change nothing.
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
			s.running = append(s.running, &running{key: *e.Key, name: name(e.Key), since: e.Time})
		}
	case event.PhaseStarted:
		if at >= 0 {
			s.running[at].phase, s.running[at].progress = e.Phase, ""
		}
	case event.Progress:
		if at >= 0 {
			s.running[at].progress = firstLine(e.Message)
		}
	case event.TrialEnded:
		if at >= 0 {
			s.running = slices.Delete(s.running, at, at+1)
		}
		s.end(e.Trial)
	}
}

// keep counts what an earlier run of the job did. How long that took says nothing about how long the rest will.
func (s *state) keep(trials []result.Trial) {
	for i := range trials {
		s.end(&trials[i])
	}
	s.kept, s.busy = len(trials), 0
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
	if t.Passed() {
		s.passed++
	}
	s.busy += time.Duration(t.Durations.TotalSec * float64(time.Second))
}

// making is the index of the trial whose image has been in the making for longest, or -1: one that
// stays, so that the line about it can be read.
func (s *state) making() int {
	return slices.IndexFunc(s.running, func(r *running) bool { return r.progress != "" })
}

// left estimates how long the job still takes with so many trials at a time: what the ended trials
// took on average, for those not yet started and for the rest of those that run. It is not ok before
// enough trials have ended to say anything, nor when nothing is left or the job is being cancelled.
func (s *state) left(concurrency int, now time.Time) (left time.Duration, ok bool) {
	remaining, ended := s.total-s.ended, s.ended-s.kept
	if s.cancelling || remaining <= 0 || s.busy <= 0 || ended < max(2, min(concurrency, (s.total-s.kept)/4)) {
		return 0, false
	}
	mean := s.busy / time.Duration(ended)
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
