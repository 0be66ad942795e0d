package untrusted_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"

	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/test/untrustedtest"
)

func TestMarkdown(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain words are unchanged", "the agent ended, after 3 s", "the agent ended, after 3 s"},
		{"letters of all scripts stay", "naïve 日本語 עברית", "naïve 日本語 עברית"},
		{"syntax is escaped", "*a* _b_ `c` [d](e) ~f~ \\", "\\*a\\* \\_b\\_ \\`c\\` \\[d\\](e) \\~f\\~ \\\\"},
		{"HTML, cells and math are references", "<a> & b | $c$", "&lt;a&gt; &amp; b &#124; &#36;c&#36;"},
		{"nobody is mentioned", "@octocat @ octocat", "@&#8203;octocat @ octocat"},
		{"no issue is linked", "#1 org/repo#12 GH-3", `\#&#8203;1 org/repo\#&#8203;12 GH-&#8203;3`},
		{"no commit is linked", "deadbeef 123456 0123456789abc", "`deadbeef` 123456 `0123456789abc`"},
		{"no address is linked", "https://x www.x", "https:&#8203;//x www&#8203;.x"},
		{"no emoji is drawn", "a :tada: b: c", "a :&#8203;tada: b: c"},
		{"a list does not begin", "- a", `\- a`},
		{"a numbered list does not begin", "12) a.", `12\) a.`},
		{"a heading does not begin", "# a", `\# a`},
		{"line breaks are marked", "a\n# b", `a⏎\# b`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := untrusted.Markdown(c.in); got != c.want {
				t.Errorf("Markdown(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

// checkInline checks Markdown, Code and HTMLCode with a real parser in several contexts.
func checkInline(t *testing.T, s string) {
	t.Helper()
	md, code, want := untrusted.Markdown(s), untrusted.Code(s), untrusted.Line(s)
	if !utf8.ValidString(md) || strings.ContainsAny(md, "\r\n|<>") || strings.ContainsFunc(md, untrusted.Invisible) {
		t.Errorf("Markdown(%.200q) = %.200q", s, md)
	}
	for what, source := range map[string]string{
		"a paragraph":          md,
		"a paragraph's middle": "ours " + md + " ours",
		"a second line":        "ours\n" + md,
		"an item":              "- " + md,
		"code":                 "ours " + code + " ours",
		"a link's text":        untrusted.Link(md, "https://good.example/"),
		"a link's code":        untrusted.Link(code, "https://good.example/"),
		"a cell":               "| a | b |\n|---|---|\n| ours | " + md + " |",
		"a cell with code":     "| a | b |\n|---|---|\n| " + code + " | " + md + " |",
		"a summary":            "<details>\n<summary>" + untrusted.HTMLCode(s) + "</summary>\n\nours\n\n</details>",
	} {
		for _, problem := range untrustedtest.Markdown([]byte(source), "https://good.example/") {
			t.Errorf("%.200q as %s: %s", s, what, problem)
		}
	}
	if got := strings.ReplaceAll(text(t, "x "+md+" x", false), "\u200b", ""); got != "x "+want+" x" && want != "" {
		t.Errorf("Markdown(%.200q) renders as %.200q", s, got)
	}
	if got := text(t, "x "+code+" x", true); !strings.Contains(s, "|") && want != "" && got != "x "+want+" x" {
		t.Errorf("Code(%.200q) renders as %.200q", s, got)
	}
}

// text returns what a paragraph renders as. Anything in it other than text, and code if allowed, is
// an error.
func text(t *testing.T, source string, code bool) string {
	t.Helper()
	doc := untrustedtest.ParseMarkdown([]byte(source))
	if doc.ChildCount() != 1 || doc.FirstChild().Kind() != ast.KindParagraph {
		t.Errorf("%.200q is not one paragraph", source)
	}
	var b strings.Builder
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Document, *ast.Paragraph:
		case *ast.Text:
			if n.Parent().Kind() == ast.KindCodeSpan {
				b.Write(pick(entering, n.Value([]byte(source))))
			} else {
				b.WriteString(untrustedtest.Rendered(pick(entering, n.Value([]byte(source)))))
			}
		case *ast.CodeSpan:
			if digits := string(n.FirstChild().(*ast.Text).Value([]byte(source))); !code && (len(digits) < 7 || strings.Trim(digits, "0123456789abcdefABCDEF") != "") {
				t.Errorf("code in %.200q", source)
			}
		default:
			t.Errorf("%s in %.200q", n.Kind(), source)
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

func pick(yes bool, b []byte) []byte {
	if yes {
		return b
	}
	return nil
}

func TestInlineFormsOfTheCorpus(t *testing.T) {
	for _, a := range untrustedtest.Corpus {
		t.Run(a.Name, func(t *testing.T) { checkInline(t, a.Text) })
	}
}

func FuzzMarkdown(f *testing.F) {
	for _, a := range untrustedtest.Corpus {
		if len(a.Text) < 1000 {
			f.Add(a.Text)
		}
	}
	f.Fuzz(func(t *testing.T, s string) { checkInline(t, s) })
}

// checkFence checks with a real parser that Fence gives one block whose text is the lines.
func checkFence(t *testing.T, s string) {
	t.Helper()
	lines := untrusted.Lines(s)
	source := []byte("before\n\n" + untrusted.Fence(lines) + "\nafter\n")
	for _, problem := range untrustedtest.Markdown(source) {
		t.Errorf("%.200q: %s", s, problem)
	}
	doc := untrustedtest.ParseMarkdown(source)
	block, ok := doc.FirstChild().NextSibling().(*ast.FencedCodeBlock)
	if !ok || doc.ChildCount() != 3 {
		t.Fatalf("%.200q: the text breaks out of the fence", s)
	}
	var want strings.Builder
	for _, l := range lines {
		want.WriteString(l + "\n")
	}
	if got := string(block.Lines().Value(source)); got != want.String() {
		t.Errorf("%.200q: the block is %.200q", s, got)
	}
}

func TestFenceOfTheCorpus(t *testing.T) {
	for _, a := range untrustedtest.Corpus {
		t.Run(a.Name, func(t *testing.T) { checkFence(t, a.Text) })
	}
}

func FuzzFence(f *testing.F) {
	for _, a := range untrustedtest.Corpus {
		if len(a.Text) < 1000 {
			f.Add(a.Text)
		}
	}
	f.Fuzz(func(t *testing.T, s string) { checkFence(t, s) })
}

// The checker must be able to fail: it finds each attack that creates an element.
func TestCheckerFindsUnsafeMarkdown(t *testing.T) {
	for _, source := range []string{
		"<script>pwned</script>", "<img src=x>", "a <b onclick=x>c</b>", "# pwned", "[a](https://evil.example)", "https://evil.example",
		"![a](https://evil.example)", "@octocat", "see #1", "deadbeef", ":tada:", "| a | b |\n|---|---|\n| c | d | e |", "```\nx", "<details>\n",
		"</details>\n", "::error::x", "x ##[error]x", "a\u202eb", "**pwned**", "[^1]\n\n[^1]: x", "- [x] a", "\xff", "    indented",
	} {
		if len(untrustedtest.Markdown([]byte(source))) == 0 {
			t.Errorf("the checker accepts %q", source)
		}
	}
	if text := "| a | b |\n|---|:--|\n| `c` | [d](https://good.example/x) |\n\n<details>\n<summary>e</summary>\n\n```text\n# pwned\n```\n\n</details>\n"; len(untrustedtest.Markdown([]byte(text), "https://good.example/")) > 0 {
		t.Errorf("the checker rejects a good text: %q", untrustedtest.Markdown([]byte(text), "https://good.example/"))
	}
}
