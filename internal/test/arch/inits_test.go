package arch

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// inits lists the packages whose init starts a process in another role than the command line, and
// ends it: by the name that the process is started with. They begin before most packages are
// initialised, which costs memory that counts against a container's limits. cmd/rollout/main.go
// names them.
var inits = map[string]string{
	"providers/docker/internal/killer":    "kills processes in a container",
	"providers/docker/internal/relay":     "carries connections out of a container without a network",
	"providers/internal/initproc":         "process 1 of a sandbox",
	"providers/internal/podinit":          "process 1 of a pod",
	"providers/kubernetes/internal/probe": "shows what a cluster's network lets through",
}

// TestInits checks that no other package has an init: it would run in every process, before
// main.
func TestInits(t *testing.T) {
	found := map[string]int{}
	eachFile(t, func(name string, _ *token.FileSet, f *ast.File) {
		if strings.HasPrefix(name, "internal/test/") {
			return
		}
		for _, d := range f.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				found[name]++
			}
		}
	})
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if inits[name] == "" {
			t.Errorf("%s has a func init: call it from main, or add it to the list in internal/test/arch/inits_test.go with its role", name)
		}
	}
	for name := range inits {
		if found[name] != 1 {
			t.Errorf("%s has %d func init, want 1", name, found[name])
		}
	}
}

// TestProductDoesNotImportTesting: what only tests use does not belong into the program.
func TestProductDoesNotImportTesting(t *testing.T) {
	eachFile(t, func(name string, fset *token.FileSet, f *ast.File) {
		if helpsTests(name) || strings.HasPrefix(name, "internal/test/") {
			return
		}
		for _, i := range f.Imports {
			if imported, _ := strconv.Unquote(i.Path.Value); imported == "testing" || strings.HasPrefix(imported, "testing/") {
				t.Errorf("%s: %s is for tests only; package memfs has files in memory", fset.Position(i.Pos()), imported)
			}
		}
	})
}
