package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// roomy is the number of lines above which a package counts as large.
const roomy = 3000

// maxWidth is the number of columns of a line that holds only a comment. A tab counts as four.
const maxWidth = 100

// turns are turns of phrase that this tree used much more often than other programs.
var turns = []string{"what is", "nobody", "beside", "what it", "for people", "of its own", "has it"}

// room is a package; its lines are those of files without tests.
type room struct {
	dir   string
	lines int
}

// receiver is a type with methods, named "dir.Type"; tests do not count.
type receiver struct {
	name    string
	methods int
}

// figures are counted from source.
type figures struct {
	lines, testLines int
	packages         []room
	receivers        []receiver // most methods first
	promoted         []receiver // the same with the methods of embedded fields
	longest          int        // lines of the longest function
	internal         int        // directories in internal/
	readme           int
	words            int // of comments, those of tests included
	found            map[string]int
	wide             []string // places of lines that hold only a comment and are wider than maxWidth
}

// measure returns the figures of the Go files below dir, without generated files.
func measure(dir string) (*figures, error) {
	f := &figures{found: map[string]int{}}
	lines, methods, declared, module := map[string]int{}, map[string]int{}, types{}, moduleOf(dir)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != dir && skipped(e.Name()):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		return f.file(path, dir, module, lines, methods, declared)
	})
	if err != nil {
		return nil, err
	}
	for dir, n := range lines {
		f.packages = append(f.packages, room{dir, n})
	}
	slices.SortFunc(f.packages, func(a, b room) int { return b.lines - a.lines })
	for name, n := range methods {
		f.receivers = append(f.receivers, receiver{name, n})
	}
	f.promoted = declared.receivers()
	slices.SortFunc(f.receivers, func(a, b receiver) int {
		if a.methods != b.methods {
			return b.methods - a.methods
		}
		return strings.Compare(a.name, b.name)
	})
	if list, err := os.ReadDir(filepath.Join(dir, "internal")); err == nil {
		for _, e := range list {
			if e.IsDir() {
				f.internal++
			}
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "README.md")); err == nil {
		f.readme = bytes.Count(text, []byte("\n"))
	}
	return f, nil
}

// file adds a Go file below top, of a module.
func (f *figures) file(path, top, module string, lines, methods map[string]int, declared types) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if ast.IsGenerated(parsed) {
		return nil
	}
	for _, group := range parsed.Comments {
		f.comment(group.Text())
	}
	f.width(path, text, fset, parsed)
	n := bytes.Count(text, []byte("\n"))
	if strings.HasSuffix(path, "_test.go") {
		f.testLines += n
		return nil
	}
	dir, err := filepath.Rel(top, filepath.Dir(path))
	if err != nil {
		return err
	}
	f.lines += n
	lines[dir] += n
	declared.add(parsed, dir, module)
	for _, d := range parsed.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		f.longest = max(f.longest, fset.Position(fn.End()).Line-fset.Position(fn.Pos()).Line+1)
		if fn.Recv != nil {
			name := dir + "." + typeName(fn.Recv.List[0].Type)
			methods[name]++
			declared.at(name).methods[fn.Name.Name] = true
		}
	}
	return nil
}

// typeName returns the name of a receiver's type, without its parameters.
func typeName(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return typeName(t.X)
	case *ast.IndexExpr:
		return typeName(t.X)
	case *ast.IndexListExpr:
		return typeName(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// width notes the wide comment lines of a file. Comments after code are not counted.
func (f *figures) width(path string, text []byte, fset *token.FileSet, parsed *ast.File) {
	lines := strings.Split(string(text), "\n")
	for _, group := range parsed.Comments {
		for n := fset.Position(group.Pos()).Line; n <= fset.Position(group.End()).Line; n++ {
			line := strings.ReplaceAll(lines[n-1], "\t", "    ")
			if strings.HasPrefix(strings.TrimSpace(line), "//") && utf8.RuneCountInString(line) > maxWidth {
				f.wide = append(f.wide, fmt.Sprintf("%s:%d", path, n))
			}
		}
	}
}

var space = regexp.MustCompile(`\s+`)

// comment counts words and turns. Letters' case and the ends of lines make no difference.
func (f *figures) comment(text string) {
	text = " " + space.ReplaceAllString(strings.ToLower(text), " ") + " "
	f.words += len(strings.Fields(text))
	for _, turn := range turns {
		f.found[turn] += count(text, turn)
	}
}

// count returns how often turn is in text as whole words.
func count(text, turn string) (n int) {
	letter := func(i int) bool {
		return i >= 0 && i < len(text) && (text[i] >= 'a' && text[i] <= 'z' || text[i] >= 0x80)
	}
	for at := 0; ; {
		i := strings.Index(text[at:], turn)
		if i < 0 {
			return n
		}
		i += at
		at = i + len(turn)
		if !letter(i-1) && !letter(at) {
			n++
		}
	}
}

// per100k returns how often a turn is in 100,000 words of comments.
func (f *figures) per100k(turn string) int {
	if f.words == 0 {
		return 0
	}
	return (100_000*f.found[turn] + f.words/2) / f.words
}

// large returns the packages of more than roomy lines, largest first.
func (f *figures) large() []room {
	end := slices.IndexFunc(f.packages, func(p room) bool { return p.lines <= roomy })
	if end < 0 {
		end = len(f.packages)
	}
	return f.packages[:end]
}

// inLarge returns how many lines are in large packages.
func (f *figures) inLarge() (n int) {
	for _, p := range f.large() {
		n += p.lines
	}
	return n
}
