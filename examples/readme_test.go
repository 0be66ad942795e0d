package examples

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/task"
	table "github.com/org/rollout-action/providers"
)

var fenced = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// TestReadmeBlocks checks every YAML and TOML block of the README: a workflow stands in examples/workflows, which other
// tests lint and run; anything else is a part of a job file, and loads; TOML is a task.toml.
func TestReadmeBlocks(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, block := range fenced.FindAllSubmatchIndex(readme, -1) {
		language, text := string(readme[block[2]:block[3]]), readme[block[4]:block[5]]
		line := 1 + bytes.Count(readme[:block[0]], []byte("\n"))
		switch {
		case language == "toml":
			seen["task"]++
			checkTaskToml(t, line, text)
		case language != "yaml":
		case bytes.Contains(text, []byte("\njobs:\n")):
			seen["workflow"]++
			checkWorkflow(t, line, text)
		default:
			seen["job"]++
			checkJobPart(t, line, text)
		}
	}
	if seen["task"] == 0 || seen["workflow"] == 0 || seen["job"] < 4 {
		t.Errorf("only %v were found: this test looks for the wrong thing", seen)
	}
}

func checkWorkflow(t *testing.T, line int, text []byte) {
	t.Helper()
	files, err := filepath.Glob("workflows/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if content, err := os.ReadFile(file); err == nil && bytes.Equal(content, text) {
			return
		}
	}
	t.Errorf("README.md:%d: this workflow is none of examples/workflows, so nothing checks it", line)
}

// checkJobPart loads a job file of which the README shows some keys.
func checkJobPart(t *testing.T, line int, text []byte) {
	t.Helper()
	var keys map[string]any
	if err := yaml.Unmarshal(text, &keys); err != nil {
		t.Errorf("README.md:%d: %v", line, err)
		return
	}
	dir := t.TempDir()
	for _, name := range []string{"job/evals", "elsewhere/fix-the-build"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if keys["agents"] == nil {
		text = append(text, "\nagents: [{name: my-agent, execute: work}]\n"...)
	}
	if keys["datasets"] == nil && keys["tasks"] == nil {
		text = append(text, "\ndatasets: [{path: evals, name: core-evals}]\n"...)
	}
	file := filepath.Join(dir, "job", "job.yaml")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	checks := map[string]config.ProviderCheck{}
	for _, p := range table.All {
		checks[p.Name] = p.Check
	}
	loaded, err := config.Load(file, config.Options{
		Dir: filepath.Dir(file), Providers: checks,
		Getenv: func(name string) (string, bool) {
			value, ok := map[string]string{"API_KEY": "secret-value", "MODEL": "large"}[name]
			return value, ok
		},
	})
	if err != nil {
		t.Errorf("README.md:%d: %s", line, strings.ReplaceAll(err.Error(), file, "job.yaml"))
		return
	}
	for _, w := range loaded.Warnings {
		t.Errorf("README.md:%d: %s", line, w)
	}
}

func checkTaskToml(t *testing.T, line int, text []byte) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"task.toml": text, "instruction.md": []byte("do it"), "tests/test.sh": []byte("true\n"), "environment/Dockerfile": []byte("FROM debian:bookworm\n"),
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	loader := task.Loader{Options: task.Options{PassEnv: []string{"JUDGE_KEY"}, Getenv: func(name string) (string, bool) { return "x", name == "JUDGE_KEY" }}}
	for _, p := range loader.Load(dir).Problems {
		t.Errorf("README.md:%d: %s", line, p)
	}
}
