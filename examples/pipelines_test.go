package examples

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// TestPipelinesFitTheirSchemas: the pipelines for other CI systems are valid by the schemas that their vendors publish.
func TestPipelinesFitTheirSchemas(t *testing.T) {
	for pipeline, name := range map[string]string{"gitlab-ci.yml": "gitlab-ci.json", "buildkite.yml": "buildkite.json", "circleci.yml": "circle-ci.json"} {
		t.Run(pipeline, func(t *testing.T) {
			schema := compile(t, filepath.Join("testdata", "schemas", name))
			text, err := os.ReadFile(filepath.Join("pipelines", pipeline))
			if err != nil {
				t.Fatal(err)
			}
			var value map[string]any
			if err := yaml.Unmarshal(text, &value); err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); err != nil {
				t.Errorf("%s: %v", pipeline, err)
			}
			for _, key := range []string{"stages", "steps", "jobs"} { // each system knows one of them
				if value[key] != nil {
					value[key] = "none"
				}
			}
			if schema.Validate(value) == nil {
				t.Errorf("%s: its schema accepts a broken pipeline", pipeline)
			}
		})
	}
}

func compile(t *testing.T, file string) *jsonschema.Schema {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	doc, err := jsonschema.UnmarshalJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// TestPipelinesAreExplained: each pipeline has a page that names it.
func TestPipelinesAreExplained(t *testing.T) {
	all := ""
	for path, page := range pages(t) {
		if strings.Contains(path, "docs/ci/") {
			all += string(page)
		}
	}
	for _, file := range []string{"gitlab-ci.yml", "buildkite.yml", "circleci.yml", "Jenkinsfile"} {
		if !strings.Contains(all, "examples/pipelines/"+file) {
			t.Errorf("no page below docs/ci explains %s", file)
		}
	}
}
