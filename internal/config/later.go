package config

import "reflect"

// later are the keys that are planned but not there yet, with what to do until then. They are
// refused, since ignoring a judge would make results look better than they are.
var later = map[string]string{
	"models": "list one agent per model, with the model in its env",
	"judges": "remove it; a task's tests/test.sh may call a judge",
	"preset": "give install and execute scripts",
}

// belongsIn is the hint for a key that exists, but elsewhere: the usual slip is indentation.
func belongsIn(key string) string {
	var places []string
	var search func(t reflect.Type, place string)
	search = func(t reflect.Type, place string) {
		for _, r := range rulesOf(t) {
			if r.key == key || r.mb != "" && r.mb == key {
				places = append(places, place)
			}
			inner, suffix := r.typ, ""
			if inner.Kind() == reflect.Slice {
				inner, suffix = inner.Elem(), "[]"
			}
			if inner.Kind() == reflect.Struct {
				search(inner, "in "+r.key+suffix)
			}
		}
	}
	search(reflect.TypeFor[Job](), "at the top level")
	if len(places) != 1 {
		return ""
	}
	return "it belongs " + places[0]
}
