package job

import (
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/environment"
)

func TestWhatASweepTouches(t *testing.T) {
	self := environment.Self()
	dead := self
	dead.PID = 1 << 30 // beyond every kernel's largest process id
	elsewhere := self
	elsewhere.Host = "elsewhere"
	listed := []environment.Listed{
		{ID: "own", Labels: environment.Labels{Job: "j", Owner: self}},
		{ID: "own, kept", Labels: environment.Labels{Job: "j", Owner: self}, Kept: true},
		{ID: "own, of another job", Labels: environment.Labels{Job: "k", Owner: self}},
		{ID: "of a dead run", Labels: environment.Labels{Job: "j", Owner: dead}},
		{ID: "of a dead run, kept", Labels: environment.Labels{Job: "j", Owner: dead}, Kept: true},
		{ID: "of another host", Labels: environment.Labels{Job: "j", Owner: elsewhere}},
		{ID: "of nobody known", Labels: environment.Labels{Job: "j"}},
	}
	ids := func(list []environment.Listed) (out []string) {
		for _, l := range list {
			out = append(out, l.ID)
		}
		return out
	}
	if got, want := ids(Leftovers(listed)), []string{"of a dead run"}; !slices.Equal(got, want) {
		t.Errorf("leftovers are %q, want %q", got, want)
	}
	if got, want := ids(Own(listed, "j")), []string{"own"}; !slices.Equal(got, want) {
		t.Errorf("own are %q, want %q", got, want)
	}
}
