package untrusted

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain text is unchanged", "agent/dataset/task__1", "agent/dataset/task__1"},
		{"letters of all scripts stay", "naïve 日本語 עברית", "naïve 日本語 עברית"},
		{"colours are removed", "\x1b[31mred\x1b[0m", "red"},
		{"titles and links are removed", "\x1b]0;owned\x07a\x1b]8;;http://x\x1b\\b", "ab"},
		{"one-byte control sequences are removed", "a\x9b31mb", "ab"},
		{"control sequences in UTF-8 lose their introducer", "a\u009b31mb", "a31mb"},
		{"a lone escape is removed", "a\x1b", "a"},
		{"line breaks are marked", "a\nb\r\nc\u2028d\u0085e", "a⏎b⏎c⏎d⏎e"},
		{"outer white space is removed", "\n  a \t\n", "a"},
		{"a carriage return cannot overwrite", "good\rbad", "good bad"},
		{"tabs and odd spaces become spaces", "a\tb\u00a0c\u3000d", "a b c d"},
		{"backspace and bell are removed", "a\b\ab", "ab"},
		{"bidirectional controls are removed", "a\u202eb\u2066c\u200fd", "abcd"},
		{"zero-width characters and tags are removed", "a\u200bb\ufeffc\u00add\U000e0041e\ufe0ff", "abcdef"},
		{"Hangul fillers are removed", "a\u3164b", "ab"},
		{"invalid UTF-8 is marked", "a\xc3(", "a�("},
		{"bytes that are never UTF-8 are removed", "a\xffb", "ab"},
		{"the old form of a workflow command is split", "x ##[error]y", "x ## [error]y"},
		{"a command with an invisible character inside", "#\u200b#[error]y", "## [error]y"},
		{"a command after more of its characters", "###[debug]", "### [debug]"},
		{"empty stays empty", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Line(c.in); got != c.want {
				t.Errorf("Line(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func FuzzLine(f *testing.F) {
	for _, seed := range []string{"plain", "\x1b]unfinished", "é\xc3\x1b[31m", "\x90dcs", "\u202e##[x]\r\n::error::", strings.Repeat("日", 200)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Line(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, Invisible) || strings.Contains(got, "##[") {
			t.Errorf("Line(%q) = %q", s, got)
		}
		if again := Line(got); again != got {
			t.Errorf("Line(%q) = %q, but again %q", s, got, again)
		}
	})
}
