package ghvars

import (
	"reflect"
	"testing"
)

// Each field is read from a different variable.
func TestReadFillsEveryField(t *testing.T) {
	asked := map[string]bool{}
	v := Read(func(name string) (string, bool) {
		asked[name] = true
		if name == "GITHUB_ACTIONS" {
			return "true", true
		}
		return " " + name + "\n", true
	})
	seen := map[string]bool{}
	fields := reflect.ValueOf(v)
	for i := range fields.NumField() {
		name := fields.Type().Field(i).Name
		switch field := fields.Field(i).Interface().(type) {
		case bool:
			if !field {
				t.Errorf("%s is false", name)
			}
		case string:
			if seen[field] || !asked[field] {
				t.Errorf("%s is %q", name, field)
			}
			seen[field] = true
		case File:
			if field.Path != field.Variable || seen[field.Path] || !asked[field.Path] {
				t.Errorf("%s is %+v", name, field)
			}
			seen[field.Path] = true
		}
	}
	for name := range asked {
		if !Reserved(name) {
			t.Errorf("%s is read, and not reserved", name)
		}
	}
	for _, name := range []string{"GITHUB_PERSONAL_ACCESS_TOKEN", "GITHUB_", "REPOSITORY", "MY_GITHUB_SHA"} {
		if Reserved(name) {
			t.Errorf("%s is reserved, and GitHub does not set it", name)
		}
	}
	if len(seen)+1 != len(asked) {
		t.Errorf("%d variables for %d fields", len(asked), len(seen)+1)
	}
}
