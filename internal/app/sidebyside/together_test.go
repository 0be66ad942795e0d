package sidebyside

import (
	"fmt"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
)

// One view shows both jobs: it starts when both have, with the trials of both, and ends with the
// job that is judged.
func TestTwoJobsAreOneView(t *testing.T) {
	var shown []string
	both := &together{left: 2, show: func(e event.Event) {
		text := string(e.Kind)
		if e.Key != nil {
			text += " " + e.Key.Agent
		}
		if e.Kind == event.JobStarted {
			text += fmt.Sprintf(" %s %d of at most: %t, %d kept", e.Message, e.Total, e.AtMost, len(e.Kept))
		}
		shown = append(shown, text)
	}}
	head, base := both.sink(""), both.sink("@5d6e7f8")
	key := result.Key{Agent: "mine", Task: "one", Attempt: 1}
	started := event.Event{Kind: event.TrialStarted, Key: &key}
	base(event.Event{Kind: event.JobStarted, Message: "the baseline", Total: 3, AtMost: true, Kept: []result.Trial{{Key: key}}})
	base(started)
	if len(shown) > 0 {
		t.Fatalf("shown before both jobs have started: %q", shown)
	}
	head(event.Event{Kind: event.JobStarted, Message: "the job", Total: 2, Kept: []result.Trial{{Key: key}}})
	head(started)
	base(event.Event{Kind: event.JobEnded})
	head(event.Event{Kind: event.JobEnded})
	want := strings.Join([]string{
		fmt.Sprint(event.JobStarted) + " the job 5 of at most: true, 2 kept",
		fmt.Sprint(event.TrialStarted) + " mine@5d6e7f8", fmt.Sprint(event.TrialStarted) + " mine", fmt.Sprint(event.JobEnded),
	}, "\n")
	if got := strings.Join(shown, "\n"); got != want {
		t.Errorf("shown:\n%s\nwant:\n%s", got, want)
	}
	if key.Agent != "mine" {
		t.Errorf("the trial of the job was renamed: %v", key)
	}
}
