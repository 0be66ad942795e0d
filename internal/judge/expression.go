package judge

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
)

// The limits of expressions. Without variables, ranges and loops in loops, the work is at most the nodes times the size of a verdict.
const (
	maxExpression = 4 << 10 // bytes
	maxNodes      = 500
	maxMemory     = 1 << 20 // of the values that an expression makes, in the library's units
)

// functions are those of the library that expressions may call: they have no side effects and do not depend on the time.
var functions = []string{
	"abs", "all", "any", "ceil", "count", "filter", "float", "floor", "int", "len", "lower", "map", "max", "mean", "median", "min",
	"none", "one", "round", "sum", "trim",
}

// expression is a checked expression. It is safe for concurrent use.
type expression struct {
	program *vm.Program
	names   []string // the variables that it reads
}

// compileExpression checks the types of an expression over variables.
func compileExpression(text string, variables *kind) (*expression, error) {
	if len(text) > maxExpression {
		return nil, fmt.Errorf("is longer than %d bytes", maxExpression)
	}
	tree, err := parser.Parse(text)
	if err != nil {
		return nil, plainError(err)
	}
	w := &walk{variables: variables}
	ast.Walk(&tree.Node, w)
	if w.err != nil {
		return nil, w.err
	}
	options := []expr.Option{expr.Env(variables.native()), expr.MaxNodes(maxNodes), expr.DisableAllBuiltins()}
	for _, name := range functions {
		options = append(options, expr.EnableBuiltin(name))
	}
	program, err := expr.Compile(text, options...)
	if err != nil {
		return nil, plainError(err)
	}
	return &expression{program: program, names: w.names}, nil
}

// plainError returns an error of the library without the drawing that points at the place.
func plainError(err error) error {
	if failed := (*file.Error)(nil); errors.As(err, &failed) {
		return fmt.Errorf("%s (character %d)", failed.Message, failed.Column+1)
	}
	return err
}

// walk refuses what makes expressions expensive, and collects the variables.
type walk struct {
	variables *kind
	names     []string
	err       error
}

// Visit looks at a node.
func (w *walk) Visit(node *ast.Node) {
	if n, ok := (*node).(*ast.IdentifierNode); ok && !slices.Contains(w.names, n.Value) {
		w.names = append(w.names, n.Value)
	}
}

func (e *expression) uses(name string) bool { return slices.Contains(e.names, name) }

// run returns the value of the expression.
func (e *expression) run(env map[string]any) (any, error) {
	machine := vm.VM{MemoryBudget: maxMemory}
	out, err := machine.Run(e.program, env)
	if err != nil {
		return nil, plainError(err)
	}
	return out, nil
}

// errNull is the error of an expression whose value is null.
var errNull = errors.New("it has no value (null)")

// number returns the value of the expression as a number; true is 1 and false is 0.
func (e *expression) number(env map[string]any) (float64, error) {
	out, err := e.run(env)
	if err != nil {
		return 0, err
	}
	switch v := out.(type) {
	case nil:
		return 0, errNull
	case bool:
		if v {
			return 1, nil
		}
		return 0, nil
	case int:
		return float64(v), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, errors.New("it is not a finite number")
		}
		return v, nil
	}
	return 0, fmt.Errorf("it is not a number but %T", out)
}

// unit returns the value of the expression, which must be from 0 to 1.
func (e *expression) unit(env map[string]any) (float64, error) {
	v, err := e.number(env)
	if err == nil && (v < 0 || v > 1) {
		err = fmt.Errorf("it is %v, which is not from 0 to 1", v)
	}
	return v, err
}
