package examples

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/yuin/goldmark/ast"

	"github.com/org/rollout-action/internal/test/untrustedtest"
)

// document holds the links of a Markdown file and the anchors that links may refer to.
type document struct {
	links   []string
	anchors []string
}

func readDocument(source []byte) document {
	var d document
	_ = ast.Walk(untrustedtest.ParseMarkdown(source), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			d.links = append(d.links, string(n.Destination))
		case *ast.Image:
			d.links = append(d.links, string(n.Destination))
		case *ast.Heading:
			d.anchors = append(d.anchors, anchor(plainText(n, source), d.anchors))
		}
		return ast.WalkContinue, nil
	})
	return d
}

func plainText(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if text, ok := n.(*ast.Text); ok && entering {
			b.Write(text.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// anchor returns GitHub's anchor for a heading: letters, digits, hyphens and underscores in lower
// case, with a number if the name is taken.
func anchor(heading string, taken []string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, heading)
	unique := name
	for i := 1; slices.Contains(taken, unique); i++ {
		unique = fmt.Sprintf("%s-%d", name, i)
	}
	return unique
}

func TestAnchor(t *testing.T) {
	d := readDocument([]byte("# Who's *first*?\n## pass@k\n## `a_b` / c\n## pass@k\n[x](y.md#z) ![p](q.png)\n"))
	if want := []string{"whos-first", "passk", "a_b--c", "passk-1"}; !slices.Equal(d.anchors, want) {
		t.Errorf("anchors %q, want %q", d.anchors, want)
	}
	if want := []string{"y.md#z", "q.png"}; !slices.Equal(d.links, want) {
		t.Errorf("links %q, want %q", d.links, want)
	}
}

// documents reads every Markdown file that is read on GitHub, by its path from the repository's
// top.
func documents(t *testing.T) map[string]document {
	t.Helper()
	found := map[string]document{}
	for _, root := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SCOPE.md", ".ci", "docs", "examples", ".github"} {
		err := filepath.WalkDir(filepath.Join("..", root), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(file) != ".md" || d.Name() == "instruction.md" {
				return err
			}
			source, err := os.ReadFile(file)
			found[filepath.ToSlash(strings.TrimPrefix(file, ".."+string(filepath.Separator)))] = readDocument(source)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// problem returns the problem of a link in a document, or "". Links to other hosts are not
// followed.
func problem(all map[string]document, from, link string) string {
	u, err := url.Parse(link)
	if err != nil {
		return err.Error()
	}
	if u.Scheme != "" || u.Host != "" {
		return ""
	}
	to := from
	if u.Path != "" {
		to = path.Join(path.Dir(from), u.Path)
	}
	if strings.HasPrefix(to, "../") || path.IsAbs(u.Path) {
		return "it leads out of the repository"
	}
	if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(to))); err != nil {
		return "there is no such file"
	}
	if u.Fragment == "" {
		return ""
	}
	target, ok := all[to]
	switch {
	case !ok:
		return "only headings of Markdown files have anchors"
	case !slices.Contains(target.anchors, u.Fragment):
		return fmt.Sprintf("%s has no such heading; it has %s", to, strings.Join(target.anchors, ", "))
	}
	return ""
}

func TestLinks(t *testing.T) {
	all := documents(t)
	links := 0
	for from, d := range all {
		for _, link := range d.links {
			links++
			if what := problem(all, from, link); what != "" {
				t.Errorf("%s links to %s: %s", from, link, what)
			}
		}
	}
	if links < 100 {
		t.Errorf("found only %d links in %d files: this test looks in the wrong place", links, len(all))
	}
	for _, broken := range []string{"docs/nowhere.md", "docs/ci.md#nowhere", "#nowhere", "../other.md", "/docs/ci.md", "LICENSE#nowhere"} {
		if problem(all, "README.md", broken) == "" {
			t.Errorf("the link %s is not reported", broken)
		}
	}
}

// TestIndex checks that docs/README.md links to every page below docs, directly or through the
// README.md of the page's directory.
func TestIndex(t *testing.T) {
	const index = "docs/README.md"
	all := documents(t)
	lists := func(from, to string) bool {
		return slices.ContainsFunc(all[from].links, func(link string) bool {
			file, _, _ := strings.Cut(link, "#")
			return path.Join(path.Dir(from), file) == to
		})
	}
	for file := range all {
		if !strings.HasPrefix(file, "docs/") || file == index || lists(index, file) {
			continue
		}
		if inner := path.Join(path.Dir(file), "README.md"); !lists(index, inner) || !lists(inner, file) {
			t.Errorf("%s does not link to %s, and neither does %s", index, file, inner)
		}
	}
}
