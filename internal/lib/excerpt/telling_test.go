package excerpt_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/lib/excerpt"
)

func numberedLines(format string, n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf(format, i))
	}
	return lines
}

func TestTellingKeepsLinesThatTellOfAFailure(t *testing.T) {
	oks := numberedLines("ok   check %02d", 40) // 14 bytes with its line break
	inside := slices.Concat(oks[:20], []string{"FAIL never more than 10.00", "     wanted 10.00", "     got    12.00"}, oks[20:], []string{"40 of 41 checks passed"})
	for _, c := range []struct {
		name  string
		text  excerpt.Text
		count int
		want  []string
	}{
		{"a small text is whole", excerpt.Text{Tail: inside[8:37]}, 8, inside[8:37]},
		{"no lines are none", excerpt.Text{Tail: inside[8:37]}, 0, nil},
		{"a failure between successes", excerpt.Text{Tail: inside}, 8, slices.Concat(
			[]string{"ok   check 00", "[266 bytes are left out here]"}, inside[20:23],
			[]string{"[266 bytes are left out here]", "ok   check 39", "40 of 41 checks passed"})},
		{"no failure: the beginning and the end", excerpt.Text{Tail: oks}, 8, slices.Concat(oks[:1], []string{"[462 bytes are left out here]"}, oks[34:])},
		{"successes and counts of no failures do not tell of one", excerpt.Text{Tail: slices.Concat(oks[:10], []string{"ok   error", "4 run, 0 failed"}, oks[10:])}, 8,
			slices.Concat(oks[:1], []string{"[489 bytes are left out here]"}, oks[34:])},
		{"the first of many failures with what follows, and the last", excerpt.Text{Tail: slices.Concat(oks[:10], []string{"E   assert 1 == 2", "a.py:3"}, oks[10:20], numberedLines("FAILED test_%02d", 20), []string{"20 failed"})}, 10, []string{
			"ok   check 00", "[126 bytes are left out here]", "E   assert 1 == 2", "a.py:3", "[380 bytes are left out here]",
			"FAILED test_16", "FAILED test_17", "FAILED test_18", "FAILED test_19", "20 failed"}},
		{"what was left out before counts", excerpt.Text{Head: slices.Concat(oks[:20], []string{"error: disk full"}), Tail: oks[20:], Dropped: 1000}, 6, []string{
			"[280 bytes are left out here]", "error: disk full", "[1238 bytes are left out here]", "ok   check 37", "ok   check 38", "ok   check 39"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.text.Telling(c.count, 9999, 99)
			if lines := got.Lines(); !slices.Equal(lines, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// Kept and left-out bytes add up to the text after any number of cuts, and the limits hold.
func TestTellingCountsOmittedLines(t *testing.T) {
	var lines []string
	for i := range 200 {
		lines = append(lines, fmt.Sprintf([]string{"ok %03d", "FAIL %03d", "     %03d", "step %03d"}[i*i%7%4], i))
	}
	all := len(strings.Join(lines, "\n")) + 1
	for count := range 60 {
		for _, size := range []int{150, 400, 5000} {
			text := excerpt.Text{Tail: lines}.Telling(50, 3000, 99)
			for range 2 {
				text = text.Telling(count, size, 99)
				shown := text.Lines()
				sum := int(text.LeftOut())
				for _, line := range shown {
					if !strings.HasPrefix(line, "[") {
						sum += len(line) + 1
					}
				}
				if !text.Empty() && sum != all || len(shown) > max(count, 1) || len(strings.Join(shown, "\n")) > size {
					t.Fatalf("%d lines of %d bytes: %d of %d bytes are told of\n%s", count, size, sum, all, strings.Join(shown, "\n"))
				}
			}
		}
	}
}
