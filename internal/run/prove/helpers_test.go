package prove_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/prove"
)

// good is a task without problems.
var good = map[string]string{
	"task.toml":              "version = \"1.0\"\n",
	"instruction.md":         "Write a greeting to /app/hello.\n",
	"environment/Dockerfile": "FROM debian:bookworm\nWORKDIR /app\n",
	"solution/solve.sh":      "#!/bin/bash\necho hello > /app/hello\n",
	"tests/test.sh":          "#!/bin/bash\ngrep -q hello /app/hello && reward=1 || reward=0\necho $reward > /logs/verifier/reward.txt\n",
}

// load returns the good task with other files. A file without content is removed; a name that
// begins with + is executable.
func load(t *testing.T, changes map[string]string) *task.Task {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "greet")
	files := map[string]string{}
	for _, set := range []map[string]string{good, changes} {
		for name, text := range set {
			files[strings.TrimPrefix(name, "+")] = text
		}
	}
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if text == "" {
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		mode := os.FileMode(0o644)
		if _, ok := changes["+"+name]; ok {
			mode = 0o755
		}
		must(t, os.WriteFile(path, []byte(text), mode))
	}
	return task.Load(dir)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// of returns the findings of a rule.
func of(findings []prove.Finding, rule string) []prove.Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f prove.Finding) bool { return f.Rule != rule })
}

func reward(values ...float64) []result.Trial {
	var out []result.Trial
	for _, v := range values {
		zero := 0
		out = append(out, result.Trial{Reward: &v, VerifierExitCode: &zero})
	}
	return out
}

func failed(kind result.ErrorType, code int) result.Trial {
	t := result.Trial{Error: &result.Error{Type: kind, Message: "as it went"}}
	if code >= 0 {
		t.VerifierExitCode = &code
	}
	return t
}
