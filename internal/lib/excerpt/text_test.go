package excerpt_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/lib/excerpt"
)

func TestFitKeepsTheBeginningAndTheEnd(t *testing.T) {
	var numbered []string
	for i := range 100 {
		numbered = append(numbered, fmt.Sprintf("line %02d", i)) // 8 bytes with its line break
	}
	for _, c := range []struct {
		name               string
		text               excerpt.Text
		count, size, width int
		want               []string
	}{
		{"few lines are all there", excerpt.Text{Tail: numbered[:3]}, 9, 99, 99, numbered[:3]},
		{"lines between are counted", excerpt.Text{Tail: numbered}, 9, 9999, 99, slices.Concat(numbered[:2], []string{"[736 bytes are left out here]"}, numbered[94:])},
		{"bytes are bounded, too", excerpt.Text{Tail: numbered}, 99, 46 + 64, 99, slices.Concat(numbered[:2], []string{"[736 bytes are left out here]"}, numbered[94:])},
		{"what was left out before counts", excerpt.Text{Head: numbered[:4], Tail: numbered[90:], Dropped: 1000}, 9, 9999, 99, slices.Concat(numbered[:2], []string{"[1048 bytes are left out here]"}, numbered[94:])},
		{"all lines, and bytes left out before", excerpt.Text{Head: numbered[:1], Tail: numbered[99:], Dropped: 7}, 9, 9999, 99, []string{"line 00", "[7 bytes are left out here]", "line 99"}},
		{"no room is no line", excerpt.Text{Tail: numbered}, 2, 0, 99, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.text.Fit(c.count, c.size, c.width).Lines()
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestALongLineKeepsBothEnds(t *testing.T) {
	line := "cause: " + strings.Repeat("日", 300) + " effect"
	got := excerpt.Line(line, 100)
	if len(got) > 100 || !strings.HasPrefix(got, "cause: ") || !strings.HasSuffix(got, " effect") || !strings.Contains(got, " bytes…] ") || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	if got := excerpt.Line(line, 10); len(got) > 10 || !utf8.ValidString(got) {
		t.Errorf("without room: %q", got)
	}
}
