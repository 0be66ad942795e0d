package harborjob_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app/harborjob"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/lib/diag"
)

var update = flag.Bool("update", false, "write the golden files")

// What can be carried over is a valid job file; the rest is noted with line and reason.
func TestConvert(t *testing.T) {
	for _, name := range []string{"legacy.yaml", "dump.json"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			into := filepath.Join(dir, "evals")
			for _, made := range []string{"evals", "skills/one", "datasets/tasks", "examples/hello"} {
				if err := os.MkdirAll(filepath.Join(dir, made), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for name, content := range map[string]string{"skills/one/SKILL.md": "---\nname: one\ndescription: one\n---\n", "registry.json": "[]"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			made, err := harborjob.Convert(name, text, dir, into)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, made.Text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || string(want) != string(made.Text) {
				t.Errorf("%v; got\n%s", err, made.Text)
			}
			if strings.Contains(string(made.Text), "not-to-be-copied") {
				t.Error("the file has a key that stood in Harbor's")
			}
			job := filepath.Join(into, "job.yaml")
			if err := os.WriteFile(job, made.Text, 0o600); err != nil {
				t.Fatal(err)
			}
			loaded, err := config.Load(job, config.Options{Unused: true, Getenv: func(string) (string, bool) { return "set", true }})
			var warnings diag.List
			if loaded != nil {
				warnings = slices.DeleteFunc(loaded.Warnings, func(d diag.Diagnostic) bool { // a note says why
					return strings.HasPrefix(d.Message, `agent "codex" has neither a model`)
				})
			}
			if err != nil || len(warnings) > 0 {
				t.Errorf("the file is not valid: %v, %v\n%s", err, warnings, made.Text)
			}
		})
	}
}

func TestConvertRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"no YAML":            {"a: [", "job.yaml: line 1: did not find"},
		"a list":             {"- a\n", "job.yaml: it is not a job of Harbor: its top level has no keys"},
		"nothing":            {"", "job.yaml: EOF"},
		"another file":       {"on: push\njobs: {}\n", "it has none of the keys agents, datasets and tasks"},
		"no agent we have":   {"agents:\n  - import_path: a:B\n  - name: eve\ntasks: [{path: x}]\n", "there are no agents that Rollout could run\n  line 2: agents[0].import_path: a:B is a class of Python: write install and execute for it, see docs/agents.md\n  line 3: agents[1].name: there is no preset for eve"},
		"no task":            {"agents: [{name: nop}]\ndatasets: [{name: a/b}]\n", "there are no datasets or tasks that Rollout could run\n  line 2: datasets[0].name: a/b is a package of Harbor's Hub"},
		"single trials":      {"agents: []\ndatasets: []\ntasks: []\ntrial_configs:\n- {task: {path: x}, agent: {name: nop}}\n", "Rollout could run\n  line 4: trial_configs: Harbor reads no list of single trials any more"},
		"aliases that grow":  {"agents: &a [{name: nop}]\nx: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\ny: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nz: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\nu: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nv: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n", "it is too large or too deep"},
		"deep":               {"agents: " + strings.Repeat("[", 100) + strings.Repeat("]", 100), "it is too large or too deep"},
		"an alias of itself": {"agents: &a [*a]\ntasks: []\n", "it is too large or too deep"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := harborjob.Convert("job.yaml", []byte(tc.text), "/from", "/into"); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// Values of the wrong kind are noted, and texts that look like line ends stay in their comments.
func TestConvertOddValues(t *testing.T) {
	made, err := harborjob.Convert("job.yaml", []byte("job_name: {a: b}\nagents: [{name: nop, \"x\\n- name: evil\": 1}, 5]\ntasks:\n  - {path: \"../a\\nb\"}\n  - 7\nn_attempts: [1]\n"), "/from", "/from/evals")
	if err != nil {
		t.Fatal(err)
	}
	text := string(made.Text)
	for _, want := range []string{"line 1, job_name: a single value is expected", "agents[0].x - name: evil: Rollout has no such key", "line 6, n_attempts: a single value is expected"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "- name: evil") {
			t.Errorf("a comment became YAML:\n%s", text)
		}
	}
}

func TestNamesOfDatasetsDiffer(t *testing.T) {
	for job, want := range map[string][]string{
		"agents: [{name: nop}]\ndatasets: [{path: tasks}]\n":                                        nil,
		"agents: [{name: nop}]\ntasks: [{path: a}]\ndatasets: [{path: tasks}]\n":                    {"name: tasks-2"},
		"agents: [{name: nop}]\ndatasets: [{path: a}, {path: x/a-2}, {path: x/a}]\n":                {"name: a-3"},
		"agents: [{name: nop}]\ndatasets: [{path: a}, {path: b/a}, {path: c/a-2}]\n":                {"name: a-2", "name: a-2-2"},
		"agents: [{name: nop}]\ntasks: []\ndatasets: [{path: tasks}]\n":                             nil,
		"agents: [{name: nop}]\ndatasets: [{path: x/a}, {name: a, registry_path: registry.json}]\n": {"name: a-2", "name: a"},
		"agents: [{name: nop}]\ndatasets: [{path: 'a:b'}, {path: a-b}]\n":                           {"name: a-b-2"},
	} {
		made, err := harborjob.Convert("job.yaml", []byte(job), "/from", "/from")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(string(made.Text)) {
			if name := strings.TrimSpace(line); strings.HasPrefix(name, "name: ") {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q in\n%s", job, got, want, made.Text)
		}
	}
}

func FuzzConvert(f *testing.F) {
	for _, name := range []string{"legacy.yaml", "dump.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _ = harborjob.Convert("job.yaml", text, "/from", "/into") // it does not panic
	})
}

// The oracle and nop have no other names, so each is an agent once.
func TestAnAgentWithoutAnotherNameIsThereOnce(t *testing.T) {
	made, err := harborjob.Convert("job.yaml", []byte("agents: [{name: oracle}, {name: nop}, {name: oracle}, {}]\ndatasets: [{path: a}]\n"), "/from", "/from")
	if err != nil {
		t.Fatal(err)
	}
	text := string(made.Text)
	if strings.Count(text, "- name: ") != 2 || strings.Count(text, "there is one oracle already: n_attempts repeats trials") != 2 {
		t.Errorf("the job is\n%s", text)
	}
}

// A name that many datasets have would cost the square of their number.
func TestManyDatasetsOfOneName(t *testing.T) {
	const many = 20_000
	made, err := harborjob.Convert("job.yaml", []byte("agents: [{name: nop}]\ndatasets:\n"+strings.Repeat("- path: a\n", many)), "/from", "/from")
	if err != nil {
		t.Fatal(err)
	}
	if last := fmt.Sprintf("name: a-%d\n", many); !strings.Contains(string(made.Text), last) {
		t.Errorf("no dataset has %q", last)
	}
}
