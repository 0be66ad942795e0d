package examples

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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
			for _, key := range []string{"include", "steps", "jobs"} { // each system knows one of them
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

// inputs are the places in GitLab's component that get a value of its caller.
var inputs = regexp.MustCompile(`\$\[\[ inputs\.(\w+) \]\]`)

// TestGitLabComponent: the component fits GitLab's schema with the defaults of its inputs, uses each input, and no other. The example
// gives those that have no default.
func TestGitLabComponent(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "templates", "rollout.yml"))
	if err != nil {
		t.Fatal(err)
	}
	head, body, found := strings.Cut(string(text), "\n---\n")
	var spec struct {
		Spec struct {
			Inputs map[string]struct{ Default any }
		}
	}
	if err := yaml.Unmarshal([]byte(head), &spec); err != nil || !found {
		t.Fatal(err, found)
	}
	schema := compile(t, filepath.Join("testdata", "schemas", "gitlab-ci.json"))
	used := map[string]bool{}
	body = inputs.ReplaceAllStringFunc(body, func(place string) string {
		name := inputs.FindStringSubmatch(place)[1]
		used[name] = true
		input, ok := spec.Spec.Inputs[name]
		if !ok {
			t.Errorf("the input %s is not declared", name)
		}
		if input.Default == nil {
			return "evals"
		}
		return fmt.Sprint(input.Default)
	})
	if len(used) != len(spec.Spec.Inputs) {
		t.Errorf("%d of %d inputs are used", len(used), len(spec.Spec.Inputs))
	}
	for _, part := range []string{head, body} {
		var value map[string]any
		if err := yaml.Unmarshal([]byte(part), &value); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); err != nil {
			t.Error(err)
		}
	}
	var example struct {
		Include []struct{ Inputs map[string]any }
	}
	text, err = os.ReadFile(filepath.Join("pipelines", "gitlab-ci.yml"))
	if err == nil {
		err = yaml.Unmarshal(text, &example)
	}
	if err != nil || len(example.Include) != 1 {
		t.Fatal(err, example)
	}
	for name, input := range spec.Spec.Inputs {
		if _, given := example.Include[0].Inputs[name]; !given && input.Default == nil {
			t.Errorf("the example does not give %s", name)
		}
	}
	for name := range example.Include[0].Inputs {
		if _, ok := spec.Spec.Inputs[name]; !ok {
			t.Errorf("the example gives %s, which is no input", name)
		}
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
