package ui

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

func TestSanitize(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain text is left alone", "agent/dataset/task__1", "agent/dataset/task__1"},
		{"letters of all scripts stay", "naïve 日本語 עברית", "naïve 日本語 עברית"},
		{"colours go", "\x1b[31mred\x1b[0m", "red"},
		{"titles and links go", "\x1b]0;owned\x07a\x1b]8;;http://x\x1b\\b", "ab"},
		{"one-byte control sequences go", "a\x9b31mb", "ab"},
		{"control sequences in UTF-8 lose their introducer", "a\u009b31mb", "a31mb"},
		{"a lone escape goes", "a\x1b", "a"},
		{"line breaks are marked", "a\nb\r\nc\u2028d\u0085e", "a⏎b⏎c⏎d⏎e"},
		{"outer white space goes", "\n  a \t\n", "a"},
		{"a carriage return cannot overwrite", "good\rbad", "good bad"},
		{"tabs and odd spaces become spaces", "a\tb\u00a0c\u3000d", "a b c d"},
		{"backspace and bell go", "a\b\ab", "ab"},
		{"bidirectional controls go", "a\u202eb\u2066c\u200fd", "abcd"},
		{"zero-width characters and tags go", "a\u200bb\ufeffc\u00add\U000e0041e\ufe0ff", "abcdef"},
		{"Hangul fillers go", "a\u3164b", "ab"},
		{"invalid UTF-8 is shown as such", "a\xc3(", "a�("},
		{"bytes that are never UTF-8 go", "a\xffb", "ab"},
		{"the old form of a workflow command is broken up", "x ##[error]y", "x ## [error]y"},
		{"also when something invisible is inside", "#\u200b#[error]y", "## [error]y"},
		{"also in the middle of many", "###[debug]", "### [debug]"},
		{"empty stays empty", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Sanitize(c.in); got != c.want {
				t.Errorf("Sanitize(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func FuzzSanitize(f *testing.F) {
	for _, seed := range []string{hostile, "plain", "\x1b]unfinished", "é\xc3\x1b[31m", "\x90dcs", strings.Repeat("日", 200)} {
		f.Add(seed, 20)
	}
	f.Fuzz(func(t *testing.T, s string, width int) {
		got := Sanitize(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, invisible) || strings.Contains(got, "##[") {
			t.Errorf("Sanitize(%q) = %q", s, got)
		}
		if again := Sanitize(got); again != got {
			t.Errorf("Sanitize(%q) = %q, but again %q", s, got, again)
		}
		width %= 500
		if cut := cutMiddle(got, width); ansi.StringWidth(cut) > max(width, 0) {
			t.Errorf("cutMiddle(%q, %d) = %q is %d wide", got, width, cut, ansi.StringWidth(cut))
		}
		if line := firstLine(s); ansi.StringWidth(line) > maxMessageCells {
			t.Errorf("firstLine(%q) = %q", s, line)
		}
	})
}

func TestFirstLine(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"the first of several", "one\ntwo", "one"},
		{"empty lines are skipped", "\n \x1b[0m\n two\nthree", "two"},
		{"nothing is nothing", "\n\n", ""},
		{"a long line is cut", strings.Repeat("x", 1000), strings.Repeat("x", maxMessageCells-1) + "…"},
		{"a cut character is no harm", strings.Repeat("\n", maxMessageBytes-1) + "é", "�"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := firstLine(c.in); got != c.want {
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
		{"what fits is left alone", "abc", 3, "abc"},
		{"the end keeps more", "agent/dataset/task__1", 13, "agen…/task__1"},
		{"wide characters count twice", "日本語日本語日本語", 10, "日…日本語"},
		{"no room for both ends", "abcdef", 2, "ab"},
		{"no room at all", "abcdef", 0, ""},
		{"less than none", "abcdef", -5, ""},
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
		{"usual paths are left alone", "jobs/2026-11-21__10-00-00/cpe/bench/日本__1", "jobs/2026-11-21__10-00-00/cpe/bench/日本__1"},
		{"spaces are quoted", "my jobs/x", "'my jobs/x'"},
		{"substitutions are quoted", "jobs/$(reboot)`x`", "'jobs/$(reboot)`x`'"},
		{"quotes are quoted", "it's", `'it'\''s'`},
		{"a home that is not meant", "~/x", "'~/x'"},
		{"a workflow command", "::error::x", "'::error::x'"},
		{"nothing", "", "''"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := shellPath(c.in); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
