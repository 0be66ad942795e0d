package untrustedtest

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Tags are the HTML tags that a report may use.
var Tags = []string{"<details>", "</details>", "<summary>", "</summary>", "<code>", "</code>"}

// ParseMarkdown parses a document as GitHub does: CommonMark with the GFM extensions and footnotes.
func ParseMarkdown(source []byte) ast.Node {
	return goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote)).Parser().Parse(text.NewReader(source))
}

// Markdown returns the problems with a report's Markdown, one sentence each: elements that cannot
// be the report's own, and malformed ones. links are the prefixes of the report's own links.
func Markdown(source []byte, links ...string) []string {
	c := checker{source: source, links: links}
	c.characters()
	c.tables()
	_ = ast.Walk(ParseMarkdown(source), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			c.node(n)
		}
		return ast.WalkContinue, nil
	})
	if c.open != 0 {
		c.add("%d details elements are not closed", c.open)
	}
	return c.problems
}

type checker struct {
	source   []byte
	links    []string
	open     int // details elements
	problems []string
}

func (c *checker) add(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// characters checks the characters of the source, as a log would show them.
func (c *checker) characters() {
	if !utf8.Valid(c.source) {
		c.add("not valid UTF-8")
	}
	for i, line := range strings.Split(string(c.source), "\n") {
		if strings.ContainsFunc(line, untrusted.Invisible) {
			c.add("line %d has an invisible character: %.200q", i+1, line)
		}
		if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[") {
			c.add("line %d is a workflow command: %.200q", i+1, line)
		}
	}
}

// tables reports rows with more or fewer cells than the row before. The tree does not show them,
// because a parser drops extra cells.
func (c *checker) tables() {
	cells, fence := 0, ""
	for i, line := range strings.Split(string(c.source), "\n") {
		if ticks := line[:len(line)-len(strings.TrimLeft(line, "`"))]; len(ticks) >= 3 {
			switch {
			case fence == "":
				fence = ticks
			case line == fence:
				fence = ""
			}
			continue
		}
		if fence != "" || !strings.HasPrefix(line, "|") {
			cells = 0
			continue
		}
		n := len(pipe.FindAllString(line, -1))
		if cells != 0 && n != cells {
			c.add("line %d: a row of %d cells in a table of %d: %.200q", i+1, n-1, cells-1, line)
		}
		if !strings.HasSuffix(line, " |") && !strings.HasSuffix(line, "-|") && !strings.HasSuffix(line, ":|") {
			c.add("line %d: the row does not end: %.200q", i+1, line)
		}
		cells = n
	}
	if fence != "" {
		c.add("a fence is not closed")
	}
}

// pipe matches a pipe that separates cells in the most lenient renderer, even after a backslash.
var pipe = regexp.MustCompile(`\|`)

// node checks one element.
func (c *checker) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.RawHTML:
		c.html(segments(n.Segments, c.source))
	case *ast.HTMLBlock:
		html := segments(n.Lines(), c.source)
		if n.HasClosure() {
			html += string(n.ClosureLine.Value(c.source))
		}
		c.html(html)
	case *ast.Link:
		if !slices.ContainsFunc(c.links, func(p string) bool { return bytes.HasPrefix(n.Destination, []byte(p)) }) {
			c.add("a link to %.200q", n.Destination)
		}
	case *ast.AutoLink:
		c.add("an address that became a link: %.200q", n.URL(c.source))
	case *ast.Image:
		c.add("an image from %.200q", n.Destination)
	case *ast.Heading:
		if t := plain(n, c.source); strings.Contains(strings.ToLower(t), "pwned") {
			c.add("a heading %.200q", t)
		}
	case *ast.Emphasis, *east.Strikethrough:
		if t := plain(n, c.source); strings.Contains(strings.ToLower(t), "pwned") {
			c.add("emphasis on %.200q", t)
		}
	case *east.Footnote, *east.FootnoteLink, *east.TaskCheckBox, *ast.CodeBlock:
		c.add("an element of kind %s: %.200q", n.Kind(), plain(n, c.source))
	case *ast.Paragraph, *east.TableCell, *ast.TextBlock:
		c.words(plain(n, c.source))
	}
}

func segments(s *text.Segments, source []byte) string { return string(s.Value(source)) }

// html checks that only the report's own tags occur, and counts details elements.
func (c *checker) html(s string) {
	for _, tag := range tagPattern.FindAllString(s, -1) {
		if !slices.Contains(Tags, tag) {
			c.add("HTML %.200q", s)
			return
		}
		switch tag {
		case "<details>":
			c.open++
		case "</details>":
			if c.open--; c.open < 0 {
				c.add("a details element is closed that was not open")
				c.open = 0
			}
		}
	}
	if strings.ContainsAny(tagPattern.ReplaceAllString(s, ""), "<>") {
		c.add("HTML %.200q", s)
	}
}

var tagPattern = regexp.MustCompile(`<[^<>]*>`)

// references match texts that GitHub turns into links and pictures.
var references = map[string]*regexp.Regexp{
	"a mention":    regexp.MustCompile(`@[A-Za-z0-9]`),
	"an issue":     regexp.MustCompile(`#[0-9]|(?i:\bgh-[0-9])`),
	"a commit":     regexp.MustCompile(`\b[0-9a-fA-F]{7,40}\b`),
	"an emoji":     regexp.MustCompile(`:[a-z0-9_+-]+:`),
	"an address":   regexp.MustCompile(`(?i)[a-z]+://|\bwww\.`),
	"math":         regexp.MustCompile("\\$`"),
	"a blind text": regexp.MustCompile(`\x{200B}\x{200B}`),
}

func (c *checker) words(s string) {
	for what, pattern := range references {
		if found := pattern.FindString(s); found != "" {
			c.add("%s: %q in %.200q", what, found, s)
		}
	}
}

// plain returns an element's rendered text, without code and links.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	var walk func(ast.Node)
	walk = func(n ast.Node) {
		for child := n.FirstChild(); child != nil; child = child.NextSibling() {
			switch child := child.(type) {
			case *ast.CodeSpan, *ast.Link, *ast.RawHTML:
				b.WriteByte(' ')
			case *ast.Text:
				b.WriteString(Rendered(child.Value(source)))
				if child.SoftLineBreak() || child.HardLineBreak() {
					b.WriteByte('\n')
				}
			case *ast.String:
				b.Write(child.Value)
			default:
				walk(child)
			}
		}
	}
	walk(n)
	return b.String()
}
