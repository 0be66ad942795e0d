package actiontest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/test/testenv"
)

// ours returns this repository's workflows, including those for users.
func ours(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(top, ".github/workflows/*.yml"))
	must(t, err)
	if len(files) < 3 {
		t.Fatalf("there are only %d workflows: the test looks at the wrong directory", len(files))
	}
	return files
}

// actionlint returns the problems of workflows, one per line.
func actionlint(t *testing.T, dir string, files ...string) string {
	t.Helper()
	if _, err := exec.LookPath("actionlint"); err != nil {
		testenv.Lacks(t, "actionlint", "actionlint")
	}
	// Without shellcheck and pyflakes, which only some machines have.
	cmd := exec.Command("actionlint", append([]string{"-no-color", "-oneline", "-shellcheck=", "-pyflakes="}, files...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	return string(out)
}

// byCommit matches an action at a commit, with its version as a comment.
var byCommit = regexp.MustCompile(`^([\w.-]+/[\w./-]+)@[0-9a-f]{40} # v\d+\.\d+\.\d+\s*$`)

// pinned returns the actions that the workflows use, each with its commit.
func pinned(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, file := range append(ours(t), examples(t)...) {
		for line := range strings.Lines(read(t, file)) {
			uses, ok := strings.CutPrefix(strings.TrimLeft(line, " -"), "uses: ")
			if !ok || strings.HasPrefix(uses, "org/") || strings.HasPrefix(uses, "./") { // our own
				continue
			}
			action := byCommit.FindStringSubmatch(uses)
			if action == nil {
				t.Errorf("%s: %s is not pinned by a commit, with its version beside it", file, strings.TrimSpace(uses))
				continue
			}
			at, _, _ := strings.Cut(uses, " ")
			if other := found[action[1]]; other != "" && other != at {
				t.Errorf("%s: %s, elsewhere %s", file, at, other)
			}
			found[action[1]] = at
		}
	}
	return found
}

func TestActionsArePinned(t *testing.T) {
	if found := pinned(t); len(found) < 5 {
		t.Errorf("there are only %v", found)
	}
	for line := range strings.Lines(read(t, top, "Dockerfile")) {
		if _, image, ok := strings.Cut(line, "_IMAGE="); ok && !regexp.MustCompile(`@sha256:[0-9a-f]{64}\n$`).MatchString(image) {
			t.Errorf("the Dockerfile has %s", line)
		}
	}
}

func TestWorkflowsAreCorrect(t *testing.T) {
	files := append(ours(t), examples(t)...)
	for i, file := range files {
		abs, err := filepath.Abs(file)
		must(t, err)
		files[i] = abs
	}
	if problems := actionlint(t, top, files...); problems != "" {
		t.Errorf("actionlint says:\n%s", problems)
	}
}

// actionlint knows the inputs and outputs only of actions in the same repository, so this one is
// copied to where its users refer to it.
func TestWorkflowsUseWhatTheActionHas(t *testing.T) {
	local := func(t *testing.T, change func(string) string) string {
		t.Helper()
		dir := released(t, "v1.2.3", "image")
		must(t, os.Mkdir(filepath.Join(dir, ".git"), 0o755)) // where actionlint sees a repository's top
		write(t, dir, map[string]string{
			"rollout-post":            "", // which it takes for a file of the repository; it is in the image
			".github/actionlint.yaml": read(t, top, ".github/actionlint.yaml"),
		})
		var files []string
		for _, file := range append(examples(t), filepath.Join(top, ".github/workflows/rollout.yml")) {
			text := strings.ReplaceAll(read(t, file), "uses: org/rollout-action@v1", "uses: ./")
			text = strings.ReplaceAll(text, "uses: org/rollout-action/.github/workflows/rollout.yml@v1", "uses: ./.github/workflows/rollout.yml")
			text = strings.ReplaceAll(text, "uses: org/rollout-action/setup@v1", "uses: ./setup")
			if strings.Contains(text, "uses: org/") {
				t.Fatalf("%s uses the Action in a way that this test does not know", file)
			}
			name := filepath.Join(".github/workflows", filepath.Base(file))
			write(t, dir, map[string]string{name: change(text)})
			files = append(files, name)
		}
		return actionlint(t, dir, files...)
	}
	if problems := local(t, func(text string) string { return text }); problems != "" {
		t.Errorf("actionlint says:\n%s", problems)
	}
	for _, wrong := range []struct{ old, new, want string }{
		{"max-broken-tasks:", "max-broken-task:", `input "max-broken-task" is not defined`},
		{"outputs.result-path", "outputs.result-paths", `property "result-paths" is not defined`},
		{"job: evals/job.yaml, shards", "jobs: evals/job.yaml, shards", `input "jobs" is not defined`},
	} {
		problems := local(t, func(text string) string { return strings.ReplaceAll(text, wrong.old, wrong.new) })
		if !strings.Contains(problems, wrong.want) {
			t.Errorf("with %q nobody says %s, but:\n%s", wrong.new, wrong.want, problems)
		}
	}
}
