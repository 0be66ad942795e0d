package config_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/org/rollout-action/internal/core/config"
)

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := config.Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("job.json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("job.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// instance reads a job file like an editor.
func instance(t *testing.T, file string) any {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if filepath.Ext(file) == ".yaml" && data[0] != '{' {
		if err := yaml.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		if data, err = json.Marshal(textKeys(v)); err != nil {
			t.Fatal(err)
		}
	}
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// textKeys removes keys that are not text, which JSON does not have.
func textKeys(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = textKeys(v[k])
		}
	case map[any]any:
		out := map[string]any{}
		for k := range v {
			if s, ok := k.(string); ok {
				out[s] = textKeys(v[k])
			}
		}
		return out
	case []any:
		for i := range v {
			v[i] = textKeys(v[i])
		}
	}
	return v
}

func TestSchemaAcceptsWhatLoadAccepts(t *testing.T) {
	s := compiledSchema(t)
	for _, file := range jobFiles(t, "valid") {
		t.Run(filepath.ToSlash(file), func(t *testing.T) {
			if err := s.Validate(instance(t, file)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSchemaRefusesWrongStructure(t *testing.T) {
	s := compiledSchema(t)
	for _, file := range jobFiles(t, "structure") {
		t.Run(filepath.ToSlash(file), func(t *testing.T) {
			if err := s.Validate(instance(t, file)); err == nil {
				t.Error("the schema accepts it")
			}
		})
	}
}

func TestSchemaGolden(t *testing.T) {
	text, err := config.Schema()
	if err != nil {
		t.Fatal(err)
	}
	compare(t, filepath.Join("testdata", "schema.golden"), string(text))
}

// All keys have a doc tag and the same name in JSON.
func TestEveryKeyIsDocumented(t *testing.T) {
	var check func(typ reflect.Type)
	check = func(typ reflect.Type) {
		for typ.Kind() == reflect.Slice || typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct {
			return
		}
		for _, f := range reflect.VisibleFields(typ) {
			if f.Anonymous {
				continue
			}
			if f.Tag.Get("doc") == "" {
				t.Errorf("%s.%s has no doc tag", typ, f.Name)
			}
			name, _, _ := bytes.Cut([]byte(f.Tag.Get("json")), []byte(","))
			if string(name) != f.Tag.Get("yaml") {
				t.Errorf("%s.%s is called %q in JSON and %q in YAML", typ, f.Name, name, f.Tag.Get("yaml"))
			}
			check(f.Type)
		}
	}
	check(reflect.TypeFor[config.Job]())
}
