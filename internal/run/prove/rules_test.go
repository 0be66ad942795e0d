package prove

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// A misspelt ID would be a rule that no task can ignore and no table lists.
func TestFindingsNameRulesByConstants(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, r := range Rules {
		ids[r.ID] = true
	}
	files := token.NewFileSet()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool { return checkRules(t, files, n, ids) })
	}
}

// checkRules reports findings with a literal as their rule, and rules that are not listed.
func checkRules(t *testing.T, files *token.FileSet, n ast.Node, ids map[string]bool) bool {
	if pair, ok := n.(*ast.KeyValueExpr); ok {
		key, _ := pair.Key.(*ast.Ident)
		value, literal := pair.Value.(*ast.BasicLit)
		if key != nil && literal && (key.Name == "Rule" || key.Name == "ID") {
			t.Errorf("%s: %s instead of a constant", files.Position(value.Pos()), value.Value)
		}
	}
	if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "rule") && len(spec.Values) == 1 {
		if value, ok := spec.Values[0].(*ast.BasicLit); ok && !ids[strings.Trim(value.Value, `"`)] {
			t.Errorf("%s: Rules does not list %s", files.Position(value.Pos()), value.Value)
		}
	}
	return true
}
