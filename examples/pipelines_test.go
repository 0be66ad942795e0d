package examples

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// TestPipelinesFitTheirSchemas: the pipelines for other CI systems are valid by the schemas that
// their vendors publish.
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

// inputs matches the placeholders in GitLab's component for inputs of its caller.
var inputs = regexp.MustCompile(`\$\[\[ inputs\.(\w+) \]\]`)

// TestGitLabComponent: the component fits GitLab's schema with the defaults of its inputs, uses
// each input, and no other. The example sets those without a default.
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

// TestOnlyTheDefaultBranchWritesTheGitLabBaseline: a job that runs in merge requests may read the
// cache with the baseline, and not write it.
func TestOnlyTheDefaultBranchWritesTheGitLabBaseline(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "templates", "rollout.yml"))
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(text), "\n---\n")
	type job struct {
		Extends string
		Rules   []struct {
			If        string
			Variables map[string]string
		}
		Cache struct{ Key, Policy string }
	}
	var jobs map[string]job
	if err := yaml.Unmarshal([]byte(body), &jobs); err != nil {
		t.Fatal(err)
	}
	writers := 0
	for name, j := range jobs {
		if j.Cache.Key != "rollout-baseline" {
			continue
		}
		rules := j.Rules
		if rules == nil {
			rules = jobs[j.Extends].Rules
		}
		for _, r := range rules {
			policy := j.Cache.Policy
			if variable, ok := strings.CutPrefix(policy, "$"); ok {
				policy = r.Variables[variable]
			}
			onDefault := r.If == "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH"
			if policy != "pull" && !onDefault {
				t.Errorf("%s: with the rule %q the policy of the baseline's cache is %q", name, r.If, policy)
			}
			if policy == "pull-push" && onDefault {
				writers++
			}
		}
	}
	if writers != 1 {
		t.Errorf("%d jobs of the default branch write the baseline", writers)
	}
}

// TestGitLabNote: the pipelines of a merge request update one note, which ends with the result of
// the last pipeline.
func TestGitLabNote(t *testing.T) {
	dir := t.TempDir()
	env := ownCache(t, dir)
	jobs := gitLabScripts(t, nil)
	server, notes := fakeNotes(t)
	tasks, err := filepath.Abs(filepath.Join("quickstart", "tasks"))
	if err != nil {
		t.Fatal(err)
	}
	programs := filepath.Join(dir, "bin")
	if err := errors.Join(os.Mkdir(programs, 0o755), os.Symlink(build(t), filepath.Join(programs, "rollout"))); err != nil {
		t.Fatal(err)
	}
	env = append(append(os.Environ(), env...), "PATH="+programs+":"+os.Getenv("PATH"), "GITLAB_CI=true", "CI_API_V4_URL="+server+"/api/v4", "CI_PROJECT_ID=5",
		"CI_MERGE_REQUEST_IID=7", "GITLAB_TOKEN=secret", "CI_DEFAULT_BRANCH=main", "CI_COMMIT_BRANCH=", "CI_NODE_TOTAL=2")
	for pipeline, agent := range []string{"nop", "oracle", "nop"} {
		checkout := filepath.Join(dir, fmt.Sprint("pipeline-", pipeline))
		job := fmt.Sprintf("environment: {type: sandbox, provider_config: {base: host}}\ndatasets: [{path: %s, tasks: [baking-order, clean-exit]}]\nagents: [{name: %s}]\ngate: {min_pass_rate: 1}\n", tasks, agent)
		if err := errors.Join(os.Mkdir(checkout, 0o755), os.WriteFile(filepath.Join(checkout, "job.yaml"), []byte(job), 0o644)); err != nil {
			t.Fatal(err)
		}
		run := func(name string, variables ...string) error {
			cmd := exec.Command("bash", "-c", "set -eo pipefail\n"+strings.Join(jobs[name], "\n"))
			cmd.Dir, cmd.Env = checkout, append(slices.Clone(env), append(variables, fmt.Sprint("CI_PIPELINE_ID=", 9000+pipeline))...)
			out, err := cmd.CombinedOutput()
			t.Logf("%s of pipeline %d: %v\n%s", name, pipeline, err, out)
			return err
		}
		for index := 1; index <= 2; index++ {
			if err := run("rollout", fmt.Sprint("CI_NODE_INDEX=", index), fmt.Sprint("CI_JOB_ID=", 10*pipeline+index)); err != nil {
				t.Fatal(err)
			}
		}
		if got := notes(); pipeline > 0 && (len(got) != 1 || !strings.Contains(got[0], "Evaluating a new commit …") || !strings.Contains(got[0], "Rollout ")) {
			t.Errorf("while pipeline %d goes on the notes are %q", pipeline, got)
		}
		green := agent == "oracle"
		if err := run("rollout-report", fmt.Sprint("CI_JOB_ID=", 10*pipeline+9)); (err == nil) != green {
			t.Errorf("the report ended with %v", err)
		}
		if got := notes(); len(got) != 1 || strings.Contains(got[0], "Rollout passed") != green || strings.Contains(got[0], "Evaluating") {
			t.Errorf("after pipeline %d the notes are %q", pipeline, got)
		}
	}
}

// gitLabScripts returns the scripts of the component's jobs, with the defaults of its inputs where
// given has no value.
func gitLabScripts(t *testing.T, given map[string]string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "templates", "rollout.yml"))
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(string(text), "\n---\n")
	var spec struct {
		Spec struct {
			Inputs map[string]struct{ Default any }
		}
	}
	if err := yaml.Unmarshal([]byte(head), &spec); err != nil {
		t.Fatal(err)
	}
	body = inputs.ReplaceAllStringFunc(body, func(place string) string {
		name := inputs.FindStringSubmatch(place)[1]
		if value, ok := given[name]; ok {
			return value
		}
		if name == "job" {
			return "job.yaml"
		}
		return fmt.Sprint(spec.Spec.Inputs[name].Default)
	})
	var jobs map[string]struct{ Script []string }
	if err := yaml.Unmarshal([]byte(body), &jobs); err != nil {
		t.Fatal(err)
	}
	scripts := map[string][]string{}
	for name, job := range jobs {
		scripts[name] = job.Script
	}
	return scripts
}

// TestGitLabReuse: merge requests reuse the baseline, and the default branch, whose results become
// one, does not.
func TestGitLabReuse(t *testing.T) {
	dir := t.TempDir()
	program := "#!/bin/sh\nprintf '%s|' \"$@\"\n" // prints its arguments
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "bin"), 0o755), os.WriteFile(filepath.Join(dir, "bin", "rollout"), []byte(program), 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, branch string
		stored       bool
		given        map[string]string
		want         string
	}{
		{"a merge request", "", true, nil, "--baseline|baseline/result.json|--reuse|baseline|"},
		{"a merge request before the first baseline", "", false, nil, "--baseline|none|"},
		{"the default branch", "main", true, nil, "--baseline|none|"},
		{"the default branch with an address", "main", false, map[string]string{"baseline": "https://x/result.json"}, "--baseline|none|"},
		{"a merge request with an address", "", false, map[string]string{"baseline": "https://x/result.json"}, "--baseline|https://x/result.json|--reuse|baseline|"},
		{"a merge request that runs everything", "", true, map[string]string{"reuse": ""}, "--baseline|baseline/result.json|"},
	} {
		checkout := t.TempDir()
		if c.stored {
			if err := errors.Join(os.Mkdir(filepath.Join(checkout, "baseline"), 0o755), os.WriteFile(filepath.Join(checkout, "baseline", "result.json"), nil, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("sh", "-c", "set -e\n"+strings.Join(gitLabScripts(t, c.given)["rollout"], "\n"))
		cmd.Dir = checkout
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "CI_NODE_INDEX=1", "CI_PIPELINE_ID=9", "CI_DEFAULT_BRANCH=main", "CI_COMMIT_BRANCH="+c.branch)
		out, err := cmd.CombinedOutput()
		if want := "run|job.yaml|--name|rollout|--jobs-dir|jobs/9|--shard|auto|--round|1000|" + c.want; err != nil || string(out) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, out, want)
		}
	}
}

// fakeNotes serves the notes of a merge request as GitLab's API does.
func fakeNotes(t *testing.T) (url string, notes func() []string) {
	t.Helper()
	var mu sync.Mutex
	var posted []string
	write := func(w http.ResponseWriter, r *http.Request, id int) {
		var sent struct{ Body string }
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			t.Error(err)
		}
		posted = append(posted[:id-1], append([]string{sent.Body}, posted[min(id, len(posted)):]...)...)
		fmt.Fprintf(w, `{"id": %d, "author": {"id": 1}}`, id)
	}
	const all = "/api/v4/projects/5/merge_requests/7/notes"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/api/v4/user":
			fmt.Fprint(w, `{"id": 1}`)
		case r.Method == http.MethodGet && r.URL.Path == all:
			list := []any{}
			for i, body := range posted {
				list = append(list, map[string]any{"id": i + 1, "body": body, "author": map[string]int{"id": 1}})
			}
			_ = json.NewEncoder(w).Encode(list)
		case r.Method == http.MethodPost && r.URL.Path == all:
			write(w, r, len(posted)+1)
		case r.Method == http.MethodPut:
			id, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, all+"/"))
			if err != nil || id > len(posted) {
				t.Errorf("%s %s", r.Method, r.URL)
			}
			write(w, r, id)
		default:
			t.Errorf("%s %s", r.Method, r.URL)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(posted)
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
