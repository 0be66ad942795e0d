package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// running lists the directories whose packages run trials, providers or servers. Even a package of
// them that starts no goroutine is called by several, so its tests keep the race detector.
var running = []string{"bench", "cmd", "internal/action", "internal/app", "internal/cli", "internal/forge", "internal/run", "providers"}

// simulates lists packages that compute for minutes in tests that run in parallel and share
// nothing.
var simulates = []string{"./internal/core/gate"}

// pure returns the packages whose tests run without the race detector for a change, sorted: neither
// the package nor its tests start a goroutine, serve a request or run tests in parallel, and it is
// in none of the directories of running. There the detector finds nothing, and is up to ten times
// slower.
func pure(packages map[string]*listed) ([]string, error) {
	names := slices.Clone(simulates)
	for path, p := range packages {
		name := local(path)
		if p.ForTest != "" || packages[path+".test"] == nil || slices.Contains(names, name) ||
			slices.ContainsFunc(running, func(dir string) bool { return strings.HasPrefix(name+"/", "./"+dir+"/") }) {
			continue
		}
		starts, err := startsGoroutines(p.Dir, slices.Concat(p.GoFiles, p.CgoFiles, p.TestGoFiles, p.XTestGoFiles))
		if err != nil {
			return nil, err
		}
		if !starts {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// startsGoroutines reports whether one of the files contains a go statement, calls a function or
// method that starts a goroutine, or imports a package that calls back from others.
func startsGoroutines(dir string, files []string) (bool, error) {
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return false, err
		}
		found := slices.ContainsFunc(f.Imports, func(spec *ast.ImportSpec) bool {
			return strings.HasPrefix(spec.Path.Value, `"net/http`) || spec.Path.Value == `"os/signal"`
		})
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				found = true
			case *ast.SelectorExpr:
				found = found || slices.Contains([]string{"Go", "Parallel", "RunParallel", "AfterFunc"}, n.Sel.Name)
			}
			return !found
		})
		if found {
			return true, nil
		}
	}
	return false, nil
}
