package config

import (
	"reflect"

	"github.com/org/rollout-action/internal/lib/fields"
)

// belongsIn returns the hint for a key that exists elsewhere: usually the indentation is wrong.
func belongsIn(key string) string {
	var places []string
	var search func(t reflect.Type, place string)
	search = func(t reflect.Type, place string) {
		for _, r := range fields.Of(t) {
			if r.Key == key || r.MB != "" && r.MB == key {
				places = append(places, place)
			}
			inner, suffix := r.Type, ""
			switch {
			case inner.Kind() == reflect.Slice:
				inner, suffix = inner.Elem(), "[]"
			case inner.Kind() == reflect.Map:
				inner, suffix = inner.Elem(), ".*"
			}
			if inner.Kind() == reflect.Struct {
				search(inner, "in "+r.Key+suffix)
			}
		}
	}
	search(reflect.TypeFor[Job](), "at the top level")
	if len(places) != 1 {
		return ""
	}
	return "it belongs " + places[0]
}
