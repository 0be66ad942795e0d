package termtext

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/test/untrustedtest"
)

func FuzzCuts(f *testing.F) {
	for _, attack := range untrustedtest.Corpus {
		f.Add(attack.Text, 20)
	}
	for _, seed := range []string{"plain", "\x1b]unfinished", "é\xc3\x1b[31m", "\x90dcs", strings.Repeat("日", 200)} {
		f.Add(seed, 20)
	}
	f.Fuzz(func(t *testing.T, s string, width int) {
		got := untrusted.Line(s)
		width %= 500
		if cut := CutMiddle(got, width); ansi.StringWidth(cut) > max(width, 0) {
			t.Errorf("CutMiddle(%q, %d) = %q is %d wide", got, width, cut, ansi.StringWidth(cut))
		}
		if line := FirstLine(s); len(line) > maxMessageShown {
			t.Errorf("FirstLine(%q) = %q", s, line)
		}
	})
}

func TestFirstLine(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"the first of several", "one\ntwo", "one"},
		{"empty lines are skipped", "\n \x1b[0m\n two\nthree", "two"},
		{"no text", "\n\n", ""},
		{"a long line is cut", "cause " + strings.Repeat("x", 988) + " effect", "cause " + strings.Repeat("x", 184) + " […621 bytes…] " + strings.Repeat("x", 183) + " effect"},
		{"empty lines before it are not read", strings.Repeat("\n", maxMessageRead) + "é", "é"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := FirstLine(c.in); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestCutMiddle(t *testing.T) {
	for _, c := range []struct {
		name, in string
		width    int
		want     string
	}{
		{"text that fits", "abc", 3, "abc"},
		{"the end keeps more", "agent/dataset/task__1", 13, "agen…/task__1"},
		{"wide characters count twice", "日本語日本語日本語", 10, "日…日本語"},
		{"too narrow for both ends", "abcdef", 2, "ab"},
		{"a width of 0", "abcdef", 0, ""},
		{"a negative width", "abcdef", -5, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := CutMiddle(c.in, c.width); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
