package arch

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
)

// apisDir has a directory for each API of models, and their table.
const apisDir = "internal/model/api"

// TestOnlyTheTableKnowsAPIs checks that no package tells one API of models from another: outside
// the directory of an API, none has its name and none but the table imports it. So no code can
// switch on the API, and a new one is a directory and a line in the table. Tests and measurements
// may.
func TestOnlyTheTableKnowsAPIs(t *testing.T) {
	names := map[string]bool{}
	for _, name := range api.Names() {
		names[string(name)] = true
	}
	if len(names) == 0 || names[string(model.Scripted)] {
		t.Fatalf("the APIs are %v", names)
	}
	eachFile(t, func(name string, fset *token.FileSet, f *ast.File) {
		if strings.HasPrefix(name, apisDir+"/") || within([]string{"internal/test", "bench"}, name) || helpsTests(name) {
			return
		}
		for _, i := range f.Imports {
			if imported, _ := strconv.Unquote(i.Path.Value); name != apisDir && strings.HasPrefix(below(imported), apisDir+"/") {
				t.Errorf("%s: take the API from the table in %s, not from %s", fset.Position(i.Pos()), apisDir, below(imported))
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if text, err := strconv.Unquote(l.Value); err == nil && names[text] {
					t.Errorf("%s: %q is the name of an API: what depends on one belongs into its directory below %s", fset.Position(l.Pos()), text, apisDir)
				}
			}
			return true
		})
	})
}
