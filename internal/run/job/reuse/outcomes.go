package reuse

import (
	"math"
	"time"

	"github.com/org/rollout-action/internal/core/result"
)

// FromJob returns the source of the results of a job of which only the result.json is there. Trials
// that are taken over from it have no files. A trial that the job has taken over itself is not
// taken again: a result is at most one job old. known is the number of trials that say what they
// ran; files of earlier versions have none. The file is untrusted: names in it select nothing but
// trials of the new job, and numbers that no trial can have make a result unreadable.
func FromJob(label string, job result.Job) (s Source, known int) {
	s = Source{Label: label, Job: job.JobName, outcomes: make(map[result.Key]*result.Trial, job.Results.Len())}
	for _, o := range job.Results.All() {
		if _, there := s.outcomes[o.Key]; there {
			continue // the first of each key counts
		}
		if !plausible(o) {
			s.outcomes[o.Key] = nil
			continue
		}
		t := &result.Trial{Key: o.Key, Reward: o.Reward, Cost: o.Cost, CostAtLeast: o.CostAtLeast, TaskDigest: o.TaskDigest}
		s.outcomes[o.Key] = t
		t.Costs.Model = o.Cost // which part is not known
		t.Durations.TotalSec = o.DurationSec
		if o.ImageSec > 0 {
			t.Durations.ImageSec = new(min(o.ImageSec, o.DurationSec))
		}
		t.Timestamps.StartedAt = o.StartedAt
		t.Timestamps.EndedAt = o.StartedAt.Add(time.Duration(o.DurationSec * float64(time.Second)))
		if o.Error != "" {
			t.Error = &result.Error{Type: o.Error, Message: "as in the job that ran it"}
		}
		if o.Reused {
			t.Reused = &result.Reused{}
		}
		if e, ok := job.Ran(o); ok {
			known++
			t.AgentDigest, t.ConfigDigest, t.TaskFormat = e.AgentDigest, e.ConfigDigest, e.TaskFormat
			t.Environment = &result.Environment{Provider: e.Provider, Image: e.Image, ImageID: e.ImageID}
		}
	}
	return s, known
}

// longest is more than any trial takes, in seconds: ten years.
const longest = 10 * 365 * 24 * 3600

// plausible reports whether a trial can have the numbers of an outcome.
func plausible(o result.Outcome) bool {
	within := func(sec float64) bool { return sec >= 0 && sec <= longest }
	finite := o.Reward == nil || !math.IsNaN(*o.Reward) && !math.IsInf(*o.Reward, 0)
	year := o.StartedAt.Year()
	return finite && within(o.DurationSec) && within(o.ImageSec) && o.Cost.Amount() >= 0 && year >= 1 && year < 9000
}
