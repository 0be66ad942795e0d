package ui

import (
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/org/rollout-action/internal/lib/untrusted"
)

func FuzzCuts(f *testing.F) {
	for _, seed := range []string{hostile, "plain", "\x1b]unfinished", "é\xc3\x1b[31m", "\x90dcs", strings.Repeat("日", 200)} {
		f.Add(seed, 20)
	}
	f.Fuzz(func(t *testing.T, s string, width int) {
		got := untrusted.Line(s)
		width %= 500
		if cut := cutMiddle(got, width); ansi.StringWidth(cut) > max(width, 0) {
			t.Errorf("cutMiddle(%q, %d) = %q is %d wide", got, width, cut, ansi.StringWidth(cut))
		}
		if line := firstLine(s); len(line) > maxMessageShown {
			t.Errorf("firstLine(%q) = %q", s, line)
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
			if got := firstLine(c.in); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestCommandsInNotesAreNotBroken(t *testing.T) {
	const command = "rollout resume jobs/a-long-name --baseline jobs/base --junit report.xml"
	s := summary{width: 40}
	want := []string{"Note: 2 tasks look broken and had no", "further attempts. To make them now:", "  " + command}
	if got := s.noteLines("2 tasks look broken and had no further attempts. To make them now: " + command); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
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
			if got := cutMiddle(c.in, c.width); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestShellPath(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"usual paths are unchanged", "jobs/2026-11-21__10-00-00/cpe/bench/日本__1", "jobs/2026-11-21__10-00-00/cpe/bench/日本__1"},
		{"spaces are quoted", "my jobs/x", "'my jobs/x'"},
		{"substitutions are quoted", "jobs/$(reboot)`x`", "'jobs/$(reboot)`x`'"},
		{"quotes are quoted", "it's", `'it'\''s'`},
		{"a tilde", "~/x", "'~/x'"},
		{"a workflow command", "::error::x", "'::error::x'"},
		{"nothing", "", "''"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := untrusted.ShellPath(c.in); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
