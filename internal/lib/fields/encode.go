package fields

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
)

// Encode returns the tree of a struct that was decoded from a file of this dialect, without the
// keys that have their defaults. Decoding it gives the same struct.
func (d Dialect) Encode(from any) *Node {
	return d.encodeStruct(reflect.ValueOf(from))
}

func (d Dialect) encodeStruct(v reflect.Value) *Node {
	usual := reflect.New(v.Type()).Elem()
	NewDecoder(d, &Node{Kind: Mapping}, &Problems{}).setDefault(usual, Rules{})
	n := &Node{Kind: Mapping}
	for _, r := range Of(v.Type()) {
		field := v.FieldByIndex(r.Index)
		if r.Required || !equal(field, usual.FieldByIndex(r.Index)) {
			n.Add(&Field{Name: r.Key, Value: d.encode(field)})
		}
	}
	return n
}

// equal reports whether two values are decoded from the same text; nil and empty ones are.
func equal(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Slice, reflect.Map:
		if a.Len() == 0 && b.Len() == 0 {
			return true
		}
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

func (d Dialect) encode(v reflect.Value) *Node {
	switch kind := v.Kind(); {
	case kind == reflect.Pointer:
		return d.encode(v.Elem())
	case kind == reflect.Struct:
		return d.encodeStruct(v)
	case kind == reflect.Slice:
		n := &Node{Kind: List}
		for i := range v.Len() {
			n.Items = append(n.Items, d.encode(v.Index(i)))
		}
		return n
	case kind == reflect.String:
		return &Node{Kind: Text, Text: v.String()}
	case kind == reflect.Map:
		n := &Node{Kind: Mapping}
		for _, name := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) }) {
			value := v.MapIndex(name)
			if value.Kind() == reflect.Struct {
				n.Add(&Field{Name: name.String(), Value: d.encodeStruct(value)})
				continue
			}
			n.Add(&Field{Name: name.String(), Value: plainNode(value.Interface())})
		}
		return n
	case kind == reflect.Bool:
		return &Node{Kind: Bool, Text: strconv.FormatBool(v.Bool())}
	}
	text, err := json.Marshal(v.Interface()) // numbers, and amounts as config.json has them
	if err != nil {
		panic(fmt.Sprintf("keys: %s cannot be written: %v", v.Type(), err))
	}
	return jsonScalar(text)
}

// jsonScalar returns the node of a number or a text in JSON.
func jsonScalar(text []byte) *Node {
	var s string
	if json.Unmarshal(text, &s) == nil {
		return &Node{Kind: Text, Text: s}
	}
	if _, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return &Node{Kind: Int, Text: string(text)}
	}
	return &Node{Kind: Float, Text: string(text)}
}

// plainNode returns the node of a value of a map[string]any, as Node.plain returns the value of a
// node.
func plainNode(value any) *Node {
	switch value := value.(type) {
	case nil:
		return &Node{Kind: Null}
	case bool:
		return &Node{Kind: Bool, Text: strconv.FormatBool(value)}
	case string:
		return &Node{Kind: Text, Text: value}
	case []any:
		n := &Node{Kind: List}
		for _, item := range value {
			n.Items = append(n.Items, plainNode(item))
		}
		return n
	case map[string]any:
		n := &Node{Kind: Mapping}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			n.Add(&Field{Name: name, Value: plainNode(value[name])})
		}
		return n
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("keys: %T cannot be written: %v", value, err))
	}
	return jsonScalar(text)
}
