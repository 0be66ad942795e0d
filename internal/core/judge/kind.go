package judge

import "github.com/expr-lang/expr/types"

// kind is the type of a value in expressions.
type kind struct {
	base   types.Type       // of a value that is no object or list
	fields map[string]*kind // of an object
	extra  *kind            // of the other fields of an object; nil: there are none
	items  *kind            // of a list
	words  []string         // the only values of a text; nil: any
}

var (
	anyKind    = &kind{base: types.Any}
	numberKind = &kind{base: types.Float64}
	boolKind   = &kind{base: types.Bool}
	textKind   = &kind{base: types.String}
)

// native returns the type in the library's representation.
func (k *kind) native() types.Type {
	switch {
	case k.items != nil:
		return types.Array(k.items.native())
	case k.fields != nil:
		out := types.Map{}
		for name, field := range k.fields {
			out[name] = field.native()
		}
		if k.extra != nil {
			out[types.Extra] = k.extra.native()
		}
		return out
	}
	return k.base
}
