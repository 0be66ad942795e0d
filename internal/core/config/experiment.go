package config

import (
	"reflect"
	"slices"
	"strings"
)

// Use is a purpose for which configurations are compared. Each use has a digest over the keys that
// matter to it.
type Use string

// The uses of keys. The tag experiment of a struct field lists the uses for which its key counts,
// separated by commas, or "no" for none. Without the tag, a key counts for all: if the tag of a new
// key is forgotten, trials differ rather than look equal.
const (
	// ForResume: is this the job that was planned, and may its shards be merged? The plan has the
	// names and contents of tasks and the files of agents already.
	ForResume Use = "resume"
	// ForReuse: would another job's trial be the same here? The number, the schedule and the
	// judging of trials do not count; nor do keys that a trial's key or another digest has.
	ForReuse Use = "reuse"
	// ForScores: would a judge give another verdict about the same trial?
	ForScores Use = "scores"
)

// Experiment returns a copy of a configuration, or of a part of one, in which the keys that do not
// count for a use are not set. v is not changed.
func Experiment[T any](v T, use Use) T {
	counted(reflect.ValueOf(&v).Elem(), use)
	return v
}

// counted clears the keys of a struct that do not count, including those of nested structs. It
// replaces lists, maps and pointers instead of changing what they share.
func counted(v reflect.Value, use Use) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			switch field := v.Type().Field(i); {
			case !field.IsExported():
			case !countsFor(field, use):
				v.Field(i).SetZero()
			default:
				counted(v.Field(i), use)
			}
		}
	case reflect.Pointer:
		if v.Type().Elem().Kind() != reflect.Struct || v.IsNil() {
			return
		}
		copied := reflect.New(v.Type().Elem())
		copied.Elem().Set(v.Elem())
		counted(copied.Elem(), use)
		v.Set(copied)
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Struct || v.IsNil() {
			return
		}
		v.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v))
		for i := range v.Len() {
			counted(v.Index(i), use)
		}
	case reflect.Map:
		if v.Type().Elem().Kind() != reflect.Struct || v.IsNil() {
			return
		}
		copied := reflect.MakeMapWithSize(v.Type(), v.Len())
		for _, key := range v.MapKeys() {
			entry := reflect.New(v.Type().Elem()).Elem()
			entry.Set(v.MapIndex(key))
			counted(entry, use)
			copied.SetMapIndex(key, entry)
		}
		v.Set(copied)
	}
}

// countsFor reports whether the key of a field counts for a use.
func countsFor(field reflect.StructField, use Use) bool {
	uses, limited := field.Tag.Lookup("experiment")
	return !limited || slices.Contains(strings.Split(uses, ","), string(use))
}
