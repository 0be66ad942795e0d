package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// long returns a line for each package with slow tests (they call testenv.Long or testenv.LongRun):
// the package and a pattern for go test -run that matches exactly these tests.
func long(packages map[string]*listed) ([]string, error) {
	var lines []string
	for path, p := range packages {
		if p.ForTest != "" || !p.ours() || path == testenv { // which tests the two functions
			continue
		}
		var names []string
		for _, file := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			found, err := longTests(filepath.Join(p.Dir, file))
			if err != nil {
				return nil, err
			}
			names = append(names, found...)
		}
		if len(names) > 0 {
			slices.Sort(names)
			lines = append(lines, fmt.Sprintf("%s ^(%s)$", local(path), strings.Join(names, "|")))
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// longTests returns the names of the tests in a file that call testenv.Long or testenv.LongRun. It
// is an error if another function calls them: then the name of the test would be unknown.
func longTests(file string) ([]string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, decl := range f.Decls {
		if !mentions(decl, "testenv.Long", "testenv.LongRun") {
			continue
		}
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
			names = append(names, fn.Name.Name)
			continue
		}
		return nil, fmt.Errorf("%s: testenv.Long and testenv.LongRun must be called by a test, not by a helper", file)
	}
	return names, nil
}

// mentions reports whether a node contains one of the qualified names, such as os.Getuid.
func mentions(part ast.Node, names ...string) bool {
	found := false
	ast.Inspect(part, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok {
				found = found || slices.Contains(names, x.Name+"."+s.Sel.Name)
			}
		}
		return !found
	})
	return found
}

// local returns the path of a package relative to the top of the repository: ./internal/cli.
func local(path string) string { return "." + strings.TrimPrefix(path, module) }
