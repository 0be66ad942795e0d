package judge

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"

	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/fields"
)

// The limits of expressions. There are no variables, ranges and loops in loops, so an expression
// takes at most the time of its nodes for each value of a verdict.
const (
	maxExpression = 4 << 10 // bytes
	maxNodes      = 300
	maxMemory     = 1 << 20 // of the lists and texts that an expression makes, in the library's units
)

// functions lists the library's functions that expressions may call: they have no side effects and
// do not depend on the time.
var functions = []string{
	"abs", "all", "any", "ceil", "count", "filter", "float", "floor", "int", "len", "lower", "map", "max", "mean", "median", "min",
	"none", "one", "round", "sum", "trim",
}

// expression is a checked expression. It is safe for concurrent use.
type expression struct {
	program *vm.Program
	paths   []fields.Path // of the values that it reads: verdict.score; of lists only the list
}

// nameError is the error for an unknown name in an expression.
type nameError struct {
	path  fields.Path
	known []string
}

// Error lists the known names.
func (e *nameError) Error() string {
	known := strings.Join(e.known, ", ")
	switch owner := e.path[:len(e.path)-1]; {
	case len(owner) == 0:
		return fmt.Sprintf("there is no %s; there are: %s", fields.Shorten(e.path.String()), known)
	case known == "":
		return fmt.Sprintf("there is no %s: %s is empty", fields.Shorten(e.path.String()), owner)
	default:
		return fmt.Sprintf("there is no %s; %s has: %s", fields.Shorten(e.path.String()), fields.Shorten(owner.String()), known)
	}
}

// hint returns advice on correcting an expression with an error; "" if there is none.
func hint(err error) string {
	if unknown := (*nameError)(nil); errors.As(err, &unknown) {
		return diag.DidYouMean(unknown.path[len(unknown.path)-1], unknown.known)
	}
	if word := (*wordError)(nil); errors.As(err, &word) {
		return diag.DidYouMean(word.word, word.known)
	}
	return ""
}

// compileExpression checks and compiles an expression over variables.
func compileExpression(text string, variables *kind) (*expression, error) {
	if len(text) > maxExpression {
		return nil, fmt.Errorf("it is longer than %d bytes", maxExpression)
	}
	tree, err := parser.Parse(text)
	if err != nil {
		return nil, plainError(err)
	}
	w := &walk{variables: variables}
	if _, err := w.visit(tree.Node); err != nil {
		return nil, err
	}
	options := []expr.Option{expr.Env(variables.native()), expr.MaxNodes(maxNodes), expr.DisableAllBuiltins()}
	for _, name := range functions {
		if !slices.Contains(averages, name) {
			options = append(options, expr.EnableBuiltin(name))
		}
	}
	program, err := expr.Compile(text, slices.Concat(options, averaging, truthArithmetic)...)
	if err != nil {
		return nil, plainError(err)
	}
	return &expression{program: program, paths: w.paths}, nil
}

// averages are functions that the library defines as 0 for an empty list.
var averages = []string{"mean", "median"}

// averaging replaces them with functions that return no value for an empty list, as max and min do.
var averaging = func() (options []expr.Option) {
	for _, name := range averages {
		of := builtin.Builtins[builtin.Index[name]].Func
		options = append(options, expr.Function(name, func(arguments ...any) (any, error) {
			if !hasValue(arguments) {
				return nil, fmt.Errorf("%s of an empty list has no value", name)
			}
			return of(arguments...)
		}))
	}
	return options
}()

// hasValue reports whether any of values, or of the lists among them, is not a list.
func hasValue(values []any) bool {
	return slices.ContainsFunc(values, func(v any) bool {
		list := reflect.ValueOf(v)
		if list.Kind() != reflect.Slice && list.Kind() != reflect.Array {
			return true
		}
		for i := range list.Len() {
			if hasValue([]any{list.Index(i).Interface()}) {
				return true
			}
		}
		return false
	})
}

// plainError returns an error of the library without its drawing of the place.
func plainError(err error) error {
	if failed := (*file.Error)(nil); errors.As(err, &failed) {
		return fmt.Errorf("%s, at character %d", strings.TrimPrefix(failed.Message, "reflect: "), failed.Column+1)
	}
	return err
}

// truthArithmetic lets expressions calculate with true and false as 1 and 0.
var truthArithmetic = func() []expr.Option {
	types := []any{
		new(func(bool, bool) float64), new(func(bool, int) float64), new(func(bool, float64) float64), new(func(int, bool) float64), new(func(float64, bool) float64),
	}
	var options []expr.Option
	for operator, apply := range map[string]func(a, b float64) float64{
		"+": func(a, b float64) float64 { return a + b }, "-": func(a, b float64) float64 { return a - b },
		"*": func(a, b float64) float64 { return a * b }, "/": func(a, b float64) float64 { return a / b },
	} {
		name := "truth" + operator // which no expression can write
		call := func(arguments ...any) (any, error) { return apply(asNumber(arguments[0]), asNumber(arguments[1])), nil }
		options = append(options, expr.Function(name, call, types...), expr.Operator(operator, name))
	}
	return options
}()

func asNumber(v any) float64 {
	switch v := v.(type) {
	case bool:
		if v {
			return 1
		}
	case int:
		return float64(v)
	case float64:
		return v
	}
	return 0
}

// walk checks the nodes of an expression: it refuses unknown names and expensive constructs.
type walk struct {
	variables *kind
	paths     []fields.Path
	loops     int
	element   *kind // of the list that is looped over
}

var errLimited = errors.New("it is too complicated: let, several statements, ranges and loops in loops are not supported")

// reads records the path of a value that is read, unless it is nil.
func (w *walk) reads(path fields.Path) {
	if len(path) > 0 && !slices.ContainsFunc(w.paths, func(p fields.Path) bool { return slices.Equal(p, path) }) {
		w.paths = append(w.paths, path)
	}
}

// visit checks a node and returns its type, nil if that is not known.
func (w *walk) visit(node ast.Node) (*kind, error) {
	switch n := node.(type) {
	case *ast.IdentifierNode, *ast.MemberNode:
		k, path, err := w.member(node)
		if err == nil {
			w.reads(path)
		}
		return k, err
	case *ast.PointerNode:
		return w.element, nil
	case *ast.ChainNode:
		return w.visit(n.Node)
	case *ast.UnaryNode:
		return nil, w.all(n.Node)
	case *ast.BinaryNode:
		if n.Operator == ".." {
			return nil, errLimited
		}
		if err := w.words(n); err != nil {
			return nil, err
		}
		return nil, w.all(n.Left, n.Right)
	case *ast.ConditionalNode:
		return nil, w.all(n.Cond, n.Exp1, n.Exp2)
	case *ast.SliceNode:
		k, err := w.visit(n.Node)
		if err != nil {
			return nil, err
		}
		return k, w.all(n.From, n.To)
	case *ast.ArrayNode:
		return nil, w.all(n.Nodes...)
	case *ast.MapNode:
		return nil, w.all(n.Pairs...)
	case *ast.PairNode:
		return nil, w.all(n.Key, n.Value)
	case *ast.BuiltinNode:
		return w.builtin(n)
	case *ast.PredicateNode:
		return nil, w.all(n.Node)
	case *ast.CallNode:
		name := "a value"
		if callee, ok := n.Callee.(*ast.IdentifierNode); ok {
			name = callee.Value
		}
		return nil, &functionError{name}
	case *ast.VariableDeclaratorNode, *ast.SequenceNode:
		return nil, errLimited
	}
	return nil, nil
}

// wordError is the error of comparing a value with a text that it can never equal.
type wordError struct {
	word  string
	known []string
}

// Error lists the possible values.
func (e *wordError) Error() string {
	return fmt.Sprintf("it compares with %q, and the schema has only: %s", fields.Shorten(e.word), quoted(e.known))
}

// words refuses to compare a value with a text that it can never equal.
func (w *walk) words(n *ast.BinaryNode) error {
	if n.Operator != "==" && n.Operator != "!=" && n.Operator != "in" {
		return nil
	}
	for _, pair := range [][2]ast.Node{{n.Left, n.Right}, {n.Right, n.Left}} {
		var of *kind
		switch pair[0].(type) {
		case *ast.MemberNode, *ast.PointerNode, *ast.ChainNode:
			k, err := (&walk{variables: w.variables, element: w.element, loops: w.loops}).visit(pair[0])
			if err != nil {
				return err
			}
			of = k
		}
		if of == nil || of.words == nil {
			continue
		}
		constants := []ast.Node{pair[1]}
		if list, ok := pair[1].(*ast.ArrayNode); ok {
			constants = list.Nodes
		}
		for _, one := range constants {
			if text, ok := one.(*ast.StringNode); ok && !slices.Contains(of.words, text.Value) {
				return &wordError{text.Value, of.words}
			}
		}
	}
	return nil
}

func (w *walk) all(nodes ...ast.Node) error {
	for _, n := range nodes {
		if n == nil || reflect.ValueOf(n).IsNil() {
			continue
		}
		if _, err := w.visit(n); err != nil {
			return err
		}
	}
	return nil
}

// functionError is the error for an unknown function.
type functionError struct{ name string }

// Error lists the known functions.
func (e *functionError) Error() string {
	return fmt.Sprintf("%s is no function; there are: %s", fields.Shorten(e.name), strings.Join(functions, ", "))
}

// builtin checks a function call and returns its type.
func (w *walk) builtin(n *ast.BuiltinNode) (*kind, error) {
	if !slices.Contains(functions, n.Name) {
		return nil, &functionError{n.Name}
	}
	var list *kind
	for i, argument := range n.Arguments {
		if _, loops := argument.(*ast.PredicateNode); loops {
			if w.loops > 0 {
				return nil, errLimited
			}
			w.loops++
			if w.element = nil; list != nil {
				w.element = list.items
			}
		}
		k, err := w.visit(argument)
		if err != nil {
			return nil, err
		}
		if _, loops := argument.(*ast.PredicateNode); loops {
			w.loops--
			w.element = nil
		}
		if i == 0 {
			list = k
		}
	}
	if n.Name == "filter" {
		return list, nil
	}
	return nil, nil
}

// member returns the type of a variable or of something in it, and its path; both are nil if they
// are not known.
func (w *walk) member(node ast.Node) (*kind, fields.Path, error) {
	switch n := node.(type) {
	case *ast.IdentifierNode:
		k, ok := w.variables.fields[n.Value]
		if !ok {
			return nil, nil, &nameError{fields.Path{n.Value}, slices.Sorted(maps.Keys(w.variables.fields))}
		}
		return k, fields.Path{n.Value}, nil
	case *ast.ChainNode:
		return w.member(n.Node)
	case *ast.MemberNode:
		owner, path, err := w.member(n.Node)
		if err != nil {
			return nil, nil, err
		}
		if n.Method {
			return nil, nil, &functionError{"a value"}
		}
		name, isName := n.Property.(*ast.StringNode)
		if !isName {
			w.reads(path)
			if _, err := w.visit(n.Property); err != nil || owner == nil {
				return nil, nil, err
			}
			return owner.items, nil, nil
		}
		switch {
		case owner == nil || owner.fields == nil:
			return nil, nil, nil
		case owner.fields[name.Value] != nil:
		case owner.extra == nil:
			if path == nil {
				path = fields.Path{"#"} // an element of a list
			}
			return nil, nil, &nameError{path.Child(name.Value), slices.Sorted(maps.Keys(owner.fields))}
		}
		k := owner.fields[name.Value]
		if k == nil {
			k = owner.extra
		}
		if path == nil {
			return k, nil, nil
		}
		return k, path.Child(name.Value), nil
	}
	k, err := w.visit(node)
	return k, nil, err
}

// uses reports whether the expression reads a variable or a part of it.
func (e *expression) uses(name string) bool {
	return slices.ContainsFunc(e.paths, func(p fields.Path) bool { return p[0] == name })
}

// below returns the names that the expression reads in a variable. whole reports that it also reads
// names that are not known.
func (e *expression) below(name string) (names []string, whole bool) {
	for _, p := range e.paths {
		switch {
		case p[0] != name:
		case len(p) == 1:
			whole = true
		case !slices.Contains(names, p[1]):
			names = append(names, p[1])
		}
	}
	return names, whole
}

// run returns the value of the expression. Its errors, and those of the methods below, complete a
// sentence about the value.
func (e *expression) run(env map[string]any) (any, error) {
	machine := vm.VM{MemoryBudget: maxMemory}
	out, err := machine.Run(e.program, env)
	if err != nil {
		return nil, fmt.Errorf("cannot be computed: %w", plainError(err))
	}
	return out, nil
}

// Reasons why a value is not a score.
var (
	errNull     = errors.New("has no value (null)")
	errInfinite = errors.New("is not a finite number")
)

// rangeError is the error of a value outside of 0 to 1.
type rangeError struct{ value float64 }

// Error states the value.
func (e *rangeError) Error() string { return fmt.Sprintf("is %v, which is not from 0 to 1", e.value) }

// number returns the value of the expression as a number; true is 1 and false is 0.
func (e *expression) number(env map[string]any) (float64, error) {
	out, err := e.run(env)
	if err != nil {
		return 0, err
	}
	switch v := out.(type) {
	case nil:
		return 0, errNull
	case bool, int:
		return asNumber(v), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, errInfinite
		}
		return v, nil
	case string:
		return 0, errors.New("is a text, not a number")
	}
	return 0, errors.New("is a list or an object, not a number")
}

// unit returns the value of the expression, which must be from 0 to 1.
func (e *expression) unit(env map[string]any) (float64, error) {
	v, err := e.number(env)
	// 0.5 + 0.2 + 0.2 + 0.1 is a little less than 1, and a trial passes with exactly 1.
	v = math.Round(v*1e9) / 1e9
	switch {
	case err != nil:
		return 0, err
	case !(v >= 0 && v <= 1):
		return 0, &rangeError{v}
	}
	return max(v, 0), nil // and not -0
}

// truth returns the value of the expression, which must be true or false.
func (e *expression) truth(env map[string]any) (bool, error) {
	out, err := e.run(env)
	if err != nil {
		return false, err
	}
	is, ok := out.(bool)
	if !ok {
		return false, errors.New("is neither true nor false")
	}
	return is, nil
}
