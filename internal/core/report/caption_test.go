package report

import (
	"testing"

	"github.com/org/rollout-action/internal/lib/excerpt"
)

func TestTheCaptionSaysHowMuchOfALogIsShown(t *testing.T) {
	for want, log := range map[string]excerpt.Text{
		"From a.txt:":                         {Tail: []string{"1"}},
		"The beginning and the end of a.txt:": {Head: []string{"1"}, Tail: []string{"9"}, Dropped: 7},
		"Parts of a.txt:":                     {Head: []string{"1"}, Middle: []excerpt.Part{{Dropped: 3, Lines: []string{"5"}}}, Tail: []string{"9"}, Dropped: 4},
	} {
		if got := Caption(log, "a.txt"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
