package examples

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/task"
	lint "github.com/org/rollout-action/internal/run/prove"
	table "github.com/org/rollout-action/providers"
)

var fenced = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// pages returns the text of README.md and of every page below docs, by its path from the
// repository's top.
func pages(t *testing.T) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	read := func(path string) {
		text, err := os.ReadFile(filepath.Join("..", path))
		if err != nil {
			t.Fatal(err)
		}
		found[path] = text
	}
	read("README.md")
	err := filepath.WalkDir("../docs", func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			read(filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator))))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestDocumentedBlocks checks every YAML and TOML block of README.md and docs: a workflow is in
// examples/workflows, which other tests lint and run, and a job of one (indented) is in a file
// there; a manifest of Kubernetes' is in examples/kubernetes, which other tests apply; any other
// YAML is a part of a job file, and loads; TOML is a task.toml.
func TestDocumentedBlocks(t *testing.T) {
	seen := map[string]int{}
	for path, page := range pages(t) {
		for _, block := range fenced.FindAllSubmatchIndex(page, -1) {
			language, text := string(page[block[2]:block[3]]), bytes.Clone(page[block[4]:block[5]])
			where := fmt.Sprintf("%s:%d", path, 1+bytes.Count(page[:block[0]], []byte("\n")))
			switch {
			case language == "toml":
				seen["task"]++
				checkTaskToml(t, where, text)
			case language != "yaml":
			case bytes.Contains(text, []byte("\njobs:\n")):
				seen["workflow"]++
				checkWorkflow(t, where, text)
			case bytes.HasPrefix(text, []byte("  ")):
				seen["workflow"]++
				checkContained(t, where, "workflows/*.yml", text)
			case bytes.HasPrefix(text, []byte("apiVersion:")):
				seen["manifest"]++
				checkContained(t, where, "kubernetes/*.yaml", text)
			default:
				seen["job"]++
				checkJobPart(t, where, text)
			}
		}
	}
	if seen["task"] < 3 || seen["workflow"] < 3 || seen["manifest"] < 1 || seen["job"] < 10 {
		t.Errorf("found only %v: this test looks in the wrong place, or blocks have lost their language", seen)
	}
}

// TestReadmeLength keeps details out of the README: they belong in docs.
func TestReadmeLength(t *testing.T) {
	if n := bytes.Count(pages(t)["README.md"], []byte("\n")); n > 130 {
		t.Errorf("README.md has %d lines, want at most 130: move details to docs", n)
	}
}

func checkWorkflow(t *testing.T, where string, text []byte) {
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
	t.Errorf("%s: this workflow is none of examples/workflows, so nothing checks it", where)
}

// checkContained checks that one of some files has a text.
func checkContained(t *testing.T, where, glob string, text []byte) {
	t.Helper()
	files, err := filepath.Glob(glob)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(content, text) {
			return
		}
	}
	t.Errorf("%s: this text is in no file of examples/%s, so nothing checks it", where, glob)
}

// checkJobPart loads a job file with the keys that a page shows.
func checkJobPart(t *testing.T, where string, text []byte) {
	t.Helper()
	var keys map[string]any
	if err := yaml.Unmarshal(text, &keys); err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	dir := t.TempDir()
	for _, name := range []string{"job/evals", "job/agent", "elsewhere/fix-the-build", "CLAUDE.md", ".claude/skills"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	answers := []byte("answers: [{text: done}]\n")
	if keys["answers"] != nil { // the script of a model
		answers, text = text, []byte("models: {m: {api: scripted, script: answers.yaml}}\nagents: [{name: my-agent, model: m, execute: work}]\n")
		keys = map[string]any{"agents": true}
	}
	if err := os.WriteFile(filepath.Join(dir, "job", "answers.yaml"), answers, 0o644); err != nil {
		t.Fatal(err)
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
			value, ok := map[string]string{"API_KEY": "secret-value", "MODEL": "large", "ANTHROPIC_API_KEY": "secret-value", "OPENAI_API_KEY": "secret-value", "DOCS_TOKEN": "secret-value"}[name]
			return value, ok
		},
	})
	if err != nil {
		t.Errorf("%s: %s", where, strings.ReplaceAll(err.Error(), file, "job.yaml"))
		return
	}
	for _, w := range loaded.Warnings {
		t.Errorf("%s: %s", where, w)
	}
}

// checkTaskToml checks a task.toml, or a dataset's lint.toml if the first line is its name.
func checkTaskToml(t *testing.T, where string, text []byte) {
	t.Helper()
	var ofDataset []byte
	if bytes.HasPrefix(text, []byte("# lint.toml\n")) {
		ofDataset, text = text, []byte("version = \"1.0\"\n")
	}
	dir := filepath.Join(t.TempDir(), "task")
	files := map[string][]byte{
		"../lint.toml": ofDataset, "task.toml": text, "instruction.md": []byte("do it"), "tests/test.sh": []byte("true\n"), "environment/Dockerfile": []byte("FROM debian:bookworm\n"),
	}
	for _, step := range regexp.MustCompile(`(?m)^\[\[steps\]\]\nname = "(.*)"`).FindAllSubmatch(text, -1) {
		files["steps/"+string(step[1])+"/instruction.md"] = []byte("do it")
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	loader := task.Loader{Options: task.Options{PassEnv: []string{"JUDGE_KEY"}, Getenv: func(name string) (string, bool) { return "x", name == "JUDGE_KEY" }}}
	loaded := loader.Load(dir)
	for _, p := range loaded.Problems {
		t.Errorf("%s: %s", where, p)
	}
	for _, f := range lint.Lint(loaded) {
		if f.Rule == "lint-ignore" {
			t.Errorf("%s: %s: %s", where, f.File, f.Message)
		}
	}
}
