package untrusted_test

import (
	"encoding/xml"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/test/untrustedtest"
)

func TestLines(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"indentation stays", "a:\n  b\n\tc", []string{"a:", "  b", "    c"}},
		{"only outer empty lines are removed", "\n\na\n\nb\n\n", []string{"a", "", "b"}},
		{"a progress bar becomes lines", "10%\r50%\r100%\r\ndone", []string{"10%", "50%", "100%", "done"}},
		{"colours are removed", "\x1b[31mred\x1b[0m  ", []string{"red"}},
		{"bidirectional controls are removed", "a\u202eb", []string{"ab"}},
		{"workflow commands are split", " ::error::x\n##[error]y", []string{" : :error::x", "## [error]y"}},
		{"white space gives no lines", " \n \n", []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := untrusted.Lines(c.in); !slices.Equal(got, c.want) {
				t.Errorf("Lines(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func FuzzLines(f *testing.F) {
	for _, a := range untrustedtest.Corpus {
		f.Add(a.Text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, l := range untrusted.Lines(s) {
			if !utf8.ValidString(l) || strings.ContainsFunc(l, untrusted.Invisible) || strings.ContainsAny(l, "\r\n\u2028") ||
				strings.HasPrefix(strings.TrimSpace(l), "::") || strings.Contains(l, "##[") {
				t.Errorf("Lines(%q) has %q", s, l)
			}
		}
	})
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in   string
		size int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "…"}, {"abcdef", 5, "ab…"}, {"日本語", 8, "日…"}, {"abc", 2, "ab"}, {"日本語", 2, ""}, {"abc", 0, ""}, {"abc", -1, ""}} {
		if got := untrusted.Cut(c.in, c.size); got != c.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.in, c.size, got, c.want)
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add("日本語", 4)
	f.Fuzz(func(t *testing.T, s string, size int) {
		got := untrusted.Cut(s, size)
		if len(got) > max(size, 0) && got != s || utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Errorf("Cut(%q, %d) = %q", s, size, got)
		}
	})
}

// checkXML checks with a strict parser that text and attributes are unchanged.
func checkXML(t *testing.T, s string) {
	t.Helper()
	type element struct {
		XMLName xml.Name `xml:"e"`
		Attr    string   `xml:"a,attr"`
		Text    string   `xml:",cdata"`
	}
	in := element{Attr: untrusted.XMLLine(s), Text: untrusted.XML(s)}
	data, err := xml.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out element
	if err := xml.Unmarshal(data, &out); err != nil {
		t.Fatalf("%.200q: %v", s, err)
	}
	if out.Attr != in.Attr || out.Text != in.Text {
		t.Errorf("%.200q: got %.200q and %.200q", s, out.Attr, out.Text)
	}
}

func TestXMLOfTheCorpus(t *testing.T) {
	for _, a := range untrustedtest.Corpus {
		t.Run(a.Name, func(t *testing.T) { checkXML(t, a.Text) })
	}
}

func FuzzXML(f *testing.F) {
	for _, a := range untrustedtest.Corpus {
		f.Add(a.Text)
	}
	f.Fuzz(checkXML)
}

func TestCommands(t *testing.T) {
	if got, want := untrusted.CommandData("100%\r\nsecond: a,b\n::error::x"), "100%25%0Asecond: a,b%0A: :error::x"; got != want {
		t.Errorf("data %q, want %q", got, want)
	}
	if got, want := untrusted.CommandProperty("a,b:c%\nd"), "a%2Cb%3Ac%25⏎d"; got != want {
		t.Errorf("property %q, want %q", got, want)
	}
	for _, a := range untrustedtest.Corpus {
		command := "::error title=" + untrusted.CommandProperty(a.Text) + "::" + untrusted.CommandData(a.Text)
		if strings.ContainsAny(command, "\r\n\u2028") {
			t.Errorf("%s: more than one line: %.200q", a.Name, command)
		}
		head, _, _ := strings.Cut(command[2:], "::")
		if strings.Count(head, ",") > 0 || strings.Count(head, "=") < 1 {
			t.Errorf("%s: the properties are %.200q", a.Name, head)
		}
	}
}

func TestURL(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"https://github.com/a/b/tree/0123/x y", "https://github.com/a/b/tree/0123/x%20y"},
		{"https://x/(a)<b>\"|", "https://x/%28a%29%3Cb%3E%22%7C"},
		{"https://x/?a=1&copy=2", "https://x/?a=1&amp;copy=2"},
		{"javascript:alert(1)", ""}, {"//x/y", ""}, {"x/y", ""}, {"", ""}, {"https://", ""}, {"https://good.example@evil.example/", ""},
		{"https://x/\n", ""}, {"https://x/" + strings.Repeat("a", 3000), ""},
	} {
		if got := untrusted.URL(c.in); got != c.want {
			t.Errorf("URL(%.100q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestBelow(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"tasks/a b", "https://x/tree/tasks/a%20b"}, {"a#b?c/(d)", "https://x/tree/a%23b%3Fc/%28d%29"},
		{"../a", ""}, {"a/../../b", ""}, {"/a", ""}, {"", ""}, {"a//b", ""}, {"./a", ""}, {"..", ""},
	} {
		if got := untrusted.Below("https://x/tree/", c.name); got != c.want {
			t.Errorf("Below(%q) = %q, want %q", c.name, got, c.want)
		}
	}
	if got := untrusted.Below("", "a"); got != "" {
		t.Errorf("Below of no base = %q", got)
	}
}
