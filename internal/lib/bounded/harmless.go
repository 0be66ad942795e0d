package bounded

import (
	"bytes"
	"reflect"
	"sync"
)

// harmless reports whether no decoding of a text into a type can take more memory than it may:
// before each value is a separator, and a value takes at most what the largest type takes. Then
// nothing needs to be counted, which takes half of the time of decoding.
func harmless(data []byte, into any) bool {
	to := reflect.TypeOf(into)
	if to == nil || to.Kind() != reflect.Pointer {
		return false
	}
	t := to.Elem()
	largest, known := largestBelow.Load(t)
	if !known {
		largest = largestIn(t, map[reflect.Type]bool{})
		largestBelow.Store(t, largest)
	}
	if largest == anything {
		return false
	}
	values := int64(bytes.Count(data, []byte(",")) + bytes.Count(data, []byte("[")) + bytes.Count(data, []byte("{")))
	return sizeOf(t)+values*largest.(int64) <= allowed(int64(len(data)))
}

// largestBelow has the result of largestIn for types.
var largestBelow sync.Map

// anything is the size of types of which nothing is known.
const anything = int64(-1)

// largestIn returns the largest size of the types that are decoded for the parts of a type.
func largestIn(t reflect.Type, seen map[reflect.Type]bool) int64 {
	var parts []reflect.Type
	switch t.Kind() {
	case reflect.Interface:
		return anything
	case reflect.Pointer, reflect.Slice, reflect.Array:
		parts = []reflect.Type{t.Elem()}
	case reflect.Map:
		parts = []reflect.Type{t.Key(), t.Elem()}
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() || f.Anonymous {
				parts = append(parts, f.Type)
			}
		}
	}
	largest := int64(0)
	for _, p := range parts {
		if seen[p] {
			continue
		}
		seen[p] = true
		below := largestIn(p, seen)
		if below == anything {
			return anything
		}
		largest = max(largest, below, sizeOf(p))
	}
	return largest
}

// sizeOf returns what meter counts for a value of a type, with a pointer to it and its name in a
// map.
func sizeOf(t reflect.Type) int64 {
	const pointer, name = 8, 16
	return int64(t.Size()) + pointer + name + mapBytes
}
