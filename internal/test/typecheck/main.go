// Command typecheck checks the types of packages and their tests as on other systems: a file that
// only they compile, or a call that they do not have, is an error here. Nothing is compiled, and
// bodies of functions of other modules are not read, so it takes seconds.
//
//	go run ./internal/test/typecheck darwin/arm64 ./...
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	if err := run(".", os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run returns the errors of the packages below a directory that match the patterns after the
// system.
func run(dir string, args []string) error {
	if len(args) < 2 {
		return errors.New("usage: typecheck GOOS/GOARCH PACKAGE")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	system, arch, _ := strings.Cut(args[0], "/")
	all, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax | packages.NeedModule,
		Dir:   dir,
		Env:   append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0"),
		Tests: true,
		ParseFile: func(files *token.FileSet, name string, text []byte) (*ast.File, error) {
			f, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
			if f != nil && !strings.HasPrefix(name, dir+string(filepath.Separator)) {
				withoutBodies(f)
			}
			return f, err
		},
	}, args[1:]...)
	if err != nil {
		return err
	}
	var found []string
	for _, p := range all {
		if p.Name == "main" && strings.HasSuffix(p.ID, ".test") {
			continue // made by go test
		}
		for _, e := range p.Errors {
			found = append(found, e.Error())
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	return fmt.Errorf("on %s:\n%s", args[0], strings.Join(slices.Compact(found), "\n"))
}

// withoutBodies removes the bodies of functions. Errors that this makes are those of a package that
// is not asked about.
func withoutBodies(f *ast.File) {
	for _, d := range f.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			f.Body = nil
		}
	}
}
