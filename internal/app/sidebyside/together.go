package sidebyside

import (
	"slices"
	"sync"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
)

// together merges the events of two jobs into one view.
type together struct {
	show event.Sink
	mu   sync.Mutex
	left int // jobs that have not started
	held []event.Event
	at   event.Event // JobStarted of both
}

// sink returns the sink of one job. label is appended to the names of its agents; "" marks the job
// whose end is shown.
func (t *together) sink(label string) event.Sink {
	return func(e event.Event) {
		t.mu.Lock()
		defer t.mu.Unlock()
		e = labelled(e, label)
		switch {
		case e.Kind == event.JobStarted:
			t.at.Total += e.Total
			t.at.Kind, t.at.Time = e.Kind, e.Time
			t.at.AtMost = t.at.AtMost || e.AtMost
			if e.Kept != nil {
				t.at.Kept = slices.Concat(t.at.Kept, e.Kept)
				if t.at.Kept == nil {
					t.at.Kept = []result.Trial{}
				}
			}
			if label == "" || t.at.Message == "" {
				t.at.Message = e.Message
			}
			if t.left--; t.left > 0 {
				return
			}
			t.show(t.at)
			for _, held := range t.held {
				t.show(held)
			}
			t.held = nil
		case e.Kind == event.JobEnded && label != "":
		case t.left > 0:
			t.held = append(t.held, e)
		default:
			t.show(e)
		}
	}
}

// labelled returns an event with the label appended to the agent's name.
func labelled(e event.Event, label string) event.Event {
	if label == "" {
		return e
	}
	if e.Key != nil {
		key := *e.Key
		key.Agent += label
		e.Key = &key
	}
	if e.Trial != nil {
		t := *e.Trial
		t.Agent += label
		e.Trial = &t
	}
	if e.Kept != nil {
		kept := slices.Clone(e.Kept)
		for i := range kept {
			kept[i].Agent += label
		}
		e.Kept = kept
	}
	return e
}
