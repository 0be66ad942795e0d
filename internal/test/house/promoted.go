package main

import (
	"bytes"
	"cmp"
	"go/ast"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// declared are the methods and the embedded fields of a type, by names as receivers have them.
type declared struct {
	methods  map[string]bool
	embedded []string
}

// types are the types of a tree by name, as receivers have it.
type types map[string]*declared

func (t types) at(name string) *declared {
	if t[name] == nil {
		t[name] = &declared{methods: map[string]bool{}}
	}
	return t[name]
}

// add notes the fields that the structs of a file embed. Those of packages outside of the module
// are left out: their methods are not this tree's.
func (t types) add(parsed *ast.File, dir, module string) {
	imported := map[string]string{}
	for _, spec := range parsed.Imports {
		at, err := strconv.Unquote(spec.Path.Value)
		below, ok := strings.CutPrefix(at, module+"/")
		if err != nil || !ok {
			continue
		}
		name := path.Base(at)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imported[name] = filepath.FromSlash(below)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		of := t.at(dir + "." + spec.Name.Name)
		fields := &ast.FieldList{}
		switch kind := spec.Type.(type) {
		case *ast.StructType:
			fields = kind.Fields
		case *ast.InterfaceType:
			fields = kind.Methods
		}
		for _, f := range fields.List {
			for _, name := range f.Names { // of an interface's method
				if _, isMethod := f.Type.(*ast.FuncType); isMethod {
					if _, isInterface := spec.Type.(*ast.InterfaceType); isInterface {
						of.methods[name.Name] = true
					}
				}
			}
			if name := embeddedName(f, dir, imported); name != "" {
				of.embedded = append(of.embedded, name)
			}
		}
		return true
	})
}

// embeddedName returns the type of an embedded field; "" for another field, and for a type of
// another module.
func embeddedName(f *ast.Field, dir string, imported map[string]string) string {
	if len(f.Names) > 0 {
		return ""
	}
	kind := f.Type
	if pointer, ok := kind.(*ast.StarExpr); ok {
		kind = pointer.X
	}
	if selected, ok := kind.(*ast.SelectorExpr); ok {
		if from, ok := selected.X.(*ast.Ident); ok && imported[from.Name] != "" {
			return imported[from.Name] + "." + selected.Sel.Name
		}
		return ""
	}
	if name := typeName(kind); name != "" {
		return dir + "." + name
	}
	return ""
}

// methodsOf adds the methods of a type to names, with those that embedded fields promote.
func (t types) methodsOf(name string, names, seen map[string]bool) {
	of := t[name]
	if of == nil || seen[name] {
		return
	}
	seen[name] = true
	maps.Copy(names, of.methods)
	for _, embedded := range of.embedded {
		t.methodsOf(embedded, names, seen)
	}
}

// receivers returns all types with their methods, those that embedded fields promote included; the
// one with the most comes first.
func (t types) receivers() []receiver {
	var out []receiver
	for name := range t {
		names := map[string]bool{}
		t.methodsOf(name, names, map[string]bool{})
		if len(names) > 0 {
			out = append(out, receiver{name, len(names)})
		}
	}
	slices.SortFunc(out, func(a, b receiver) int {
		return cmp.Or(cmp.Compare(b.methods, a.methods), strings.Compare(a.name, b.name))
	})
	return out
}

// moduleOf returns the path of the module in a directory; "" if there is none.
func moduleOf(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return ""
	}
	line, _, _ := bytes.Cut(bytes.TrimPrefix(text, []byte("module ")), []byte("\n"))
	return strings.TrimSpace(string(line))
}
