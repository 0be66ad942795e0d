package arch

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const architecturePage = "docs/internals/architecture.md"

// pages returns the pages for developers.
func pages(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob("../../../docs/internals/*.md")
	if err != nil || len(list) < 5 {
		t.Fatalf("found the pages %q (%v)", list, err)
	}
	return append(list, "../../../ARCHITECTURE.md", "../../../CONTRIBUTING.md")
}

var (
	codeSpan = regexp.MustCompile("`([^`\n]+)`")
	fenced   = regexp.MustCompile("(?ms)^```.*?^```$")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// prose returns a page without its code blocks.
func prose(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return fenced.ReplaceAllString(string(text), "")
}

// TestMap checks that the map's table matches the layers: their directories, highest first, and the
// imports that each may have.
func TestMap(t *testing.T) {
	text := prose(t, "../../../"+architecturePage)
	_, text, found := strings.Cut(text, "\n## The map\n")
	text, _, _ = strings.Cut(text, "\n## ")
	if !found {
		t.Fatalf("%s has no section %q", architecturePage, "The map")
	}
	spans := func(cell string) (names []string) {
		for _, span := range codeSpan.FindAllStringSubmatch(cell, -1) {
			names = append(names, span[1])
		}
		return names
	}
	var listed []layer
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "| `") {
			cells := strings.Split(line, "|")
			for _, dir := range spans(cells[1]) {
				listed = append(listed, layer{dir: dir, only: spans(cells[3])})
			}
		}
	}
	slices.Reverse(listed)
	if !slices.EqualFunc(listed, layers, func(a, b layer) bool { return a.dir == b.dir && slices.Equal(a.only, b.only) }) {
		t.Errorf("the map of %s has\n%v, and internal/test/arch/rules_test.go\n%v", architecturePage, listed, layers)
	}
}

// TestRooms checks that the page's table of use cases lists the rooms of internal/app, highest
// first.
func TestRooms(t *testing.T) {
	var listed []string
	for line := range strings.Lines(prose(t, "../../../"+architecturePage)) {
		if room, found := strings.CutPrefix(line, "| `app"); found {
			room, _, _ = strings.Cut(room, "`")
			listed = append(listed, strings.TrimPrefix(room, "/"))
		}
	}
	slices.Reverse(listed)
	if rooms := layers[find("internal/app")].rooms; !slices.Equal(listed, rooms) {
		t.Errorf("%s lists the rooms %q, and internal/test/arch/rules_test.go %q", architecturePage, listed, rooms)
	}
}

// declared are the names that Go files declare: "result.Trial", "task.Task.Digest", "TestMap".
type declared map[string]bool

func declarations(t *testing.T) (names declared, packages map[string]bool) {
	t.Helper()
	names, packages = declared{}, map[string]bool{}
	err := filepath.WalkDir("../../..", func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() && (e.Name() == "testdata" || e.Name() == ".git") {
			if err == nil {
				err = fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		packages[parsed.Name.Name] = true
		for _, d := range parsed.Decls {
			names.add(parsed.Name.Name, d)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names, packages
}

func (d declared) add(pkg string, decl ast.Decl) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		name := decl.Name.Name
		if decl.Recv != nil {
			recv := decl.Recv.List[0].Type
			if star, ok := recv.(*ast.StarExpr); ok {
				recv = star.X
			}
			if id, ok := recv.(*ast.Ident); ok {
				name = id.Name + "." + name
			}
		}
		d[pkg+"."+name] = true
		d[name] = true
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, id := range spec.Names {
					d[pkg+"."+id.Name] = true
				}
			case *ast.TypeSpec:
				d[pkg+"."+spec.Name.Name] = true
				for _, field := range fields(spec.Type) {
					d[pkg+"."+spec.Name.Name+"."+field] = true
				}
			}
		}
	}
}

// fields returns the names of a struct's fields or of an interface's methods.
func fields(t ast.Expr) []string {
	var list *ast.FieldList
	switch t := t.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		return nil
	}
	var out []string
	for _, f := range list.List {
		for _, id := range f.Names {
			out = append(out, id.Name)
		}
	}
	return out
}

var (
	repoPath   = regexp.MustCompile(`^(?:internal|providers|reporters|cmd|examples|docs|\.github|\.ci)/[\w./*<>-]*$`)
	goName     = regexp.MustCompile(`^([a-z]+)\.[A-Z]\w*(?:\.\w+)?$`)
	testName   = regexp.MustCompile(`^Test[A-Z]\w*$`)
	schemePart = regexp.MustCompile(`^[a-z]+:`)
)

// TestPathsAndNamesInPagesExist checks that files, Go names, tests and links in the pages for
// developers exist.
func TestPathsAndNamesInPagesExist(t *testing.T) {
	names, packages := declarations(t)
	for _, page := range pages(t) {
		text := prose(t, page)
		for _, span := range codeSpan.FindAllStringSubmatch(text, -1) {
			name := span[1]
			parts := goName.FindStringSubmatch(name)
			switch {
			case strings.Contains(name, "<"): // a placeholder
			case repoPath.MatchString(name):
				if found, err := filepath.Glob(filepath.Join("../../..", name)); err != nil || len(found) == 0 {
					t.Errorf("%s names the file %s, which is not there", page, name)
				}
			case testName.MatchString(name) && !names[name], parts != nil && packages[parts[1]] && !names[name]:
				t.Errorf("%s names %s, which no Go file declares", page, name)
			}
		}
		for _, target := range link.FindAllStringSubmatch(text, -1) {
			if problem := checkLink(t, page, target[1]); problem != "" {
				t.Errorf("%s: the link to %s: %s", page, target[1], problem)
			}
		}
	}
}

// checkLink returns the problem of a link to a file of this repository, or "".
func checkLink(t *testing.T, page, target string) string {
	t.Helper()
	if schemePart.MatchString(target) {
		return ""
	}
	file, anchor, hasAnchor := strings.Cut(target, "#")
	at := page
	if file != "" {
		at = filepath.Join(filepath.Dir(page), filepath.FromSlash(file))
	}
	if _, err := os.Stat(at); err != nil {
		return "there is no such file"
	}
	if !hasAnchor {
		return ""
	}
	for _, h := range heading.FindAllStringSubmatch(prose(t, at), -1) {
		if slug(h[1]) == anchor {
			return ""
		}
	}
	return "there is no such heading"
}

// maxWords is how long a page may be, without code blocks and generated tables: a quarter of an
// hour of reading.
const maxWords = 2500

var (
	shorter   = map[string]int{"CONTRIBUTING.md": 800}
	generated = regexp.MustCompile(`(?s)<!-- begin generated: .*?<!-- end generated: [^>]*-->|<!-- The table is generated.*?<!-- end of the table -->`)
)

// TestPagesAreShort checks that no page that is written by hand is longer than somebody reads.
func TestPagesAreShort(t *testing.T) {
	pages := []string{"README.md", "CONTRIBUTING.md", "SCOPE.md", "CHANGELOG.md", ".ci/README.md"}
	err := filepath.WalkDir("../../../docs", func(file string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(file) == ".md" {
			pages = append(pages, strings.TrimPrefix(filepath.ToSlash(file), "../../../"))
		}
		return err
	})
	if err != nil || len(pages) < 40 {
		t.Fatalf("found the pages %q (%v)", pages, err)
	}
	for _, page := range pages {
		words := len(strings.Fields(generated.ReplaceAllString(prose(t, "../../../"+page), "")))
		if limit := cmp.Or(shorter[page], maxWords); words > limit {
			t.Errorf("%s has %d words, want at most %d: divide it", page, words, limit)
		}
	}
}

// slug returns GitHub's anchor for a heading.
func slug(text string) string {
	text = strings.ToLower(strings.ReplaceAll(text, "`", ""))
	text = regexp.MustCompile(`[^\p{L}\p{N}\s_-]`).ReplaceAllString(text, "")
	return strings.ReplaceAll(strings.TrimSpace(text), " ", "-")
}

func TestCheckLink(t *testing.T) {
	page := "../../../" + architecturePage
	for target, want := range map[string]string{
		"https://example.com":               "",
		"dependencies.md":                   "",
		"#the-map":                          "",
		"dependencies.md#dependencies":      "",
		"none.md":                           "no such file",
		"#none":                             "no such heading",
		path.Base(architecturePage) + "#no": "no such heading",
	} {
		if got := checkLink(t, page, target); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
}
