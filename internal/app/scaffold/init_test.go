package scaffold_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/proof"
	"github.com/org/rollout-action/internal/app/scaffold"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/apptest"
	"github.com/org/rollout-action/providers"
)

func TestInitWritesOverNothing(t *testing.T) {
	h, _ := apptest.New(t)
	done, err := scaffold.Init(t.Context(), h, scaffold.InitRequest{Dir: "new"})
	if err != nil || len(done.Written) < 5 {
		t.Fatalf("%+v, %v", done, err)
	}
	for _, file := range done.Written {
		if _, err := os.Stat(h.Path(file)); err != nil || !strings.HasPrefix(file, "new"+string(filepath.Separator)) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if err := os.Remove(h.Path(done.Written[0])); err != nil {
		t.Fatal(err)
	}
	again, err := scaffold.Init(t.Context(), h, scaffold.InitRequest{Dir: "new"})
	apptest.Refused(t, err, "exists already: nothing was written")
	if _, err := os.Stat(h.Path(done.Written[0])); len(again.Written) > 0 || err == nil {
		t.Errorf("wrote %+v, %v", again, err)
	}
}

// withDocker returns a host whose tasks can be checked: that is done with the default provider.
func withDocker(t *testing.T) *host.Host {
	h, _ := apptest.New(t)
	docker := h.Providers[0]
	docker.Name = "docker"
	h.Providers = append(slices.Clone(h.Providers), docker)
	return h
}

// read returns a file below the host's directory.
func read(t *testing.T, h *host.Host, name string) string {
	t.Helper()
	data, err := os.ReadFile(h.Path(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, h *host.Host, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(h.Path(name)), 0o755), os.WriteFile(h.Path(name), []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func TestTheWorkflowGoesToTheTopOfTheRepository(t *testing.T) {
	h, _ := apptest.New(t)
	write(t, h, ".git/HEAD", "ref: refs/heads/main\n")
	for dir, job := range map[string]string{"tools/evals": "job: tools/evals/job.yaml,", "a: b": `job: "a: b/job.yaml",`} {
		done, err := scaffold.Init(t.Context(), h, scaffold.InitRequest{Dir: dir})
		if err != nil || !slices.Contains(done.Written, ".github/workflows/rollout.yml") {
			t.Fatalf("%+v, %v", done, err)
		}
		if text := read(t, h, ".github/workflows/rollout.yml"); !strings.Contains(text, job) {
			t.Errorf("no %s in\n%s", job, text)
		}
		if err := os.Remove(h.Path(".github/workflows/rollout.yml")); err != nil {
			t.Fatal(err)
		}
	}
	// A workflow that is there is kept, and the rest is written.
	write(t, h, ".github/workflows/rollout.yml", "mine")
	done, err := scaffold.Init(t.Context(), h, scaffold.InitRequest{Dir: "more"})
	if err != nil || done.Kept != ".github/workflows/rollout.yml" || done.Job != "more/job.yaml" || read(t, h, done.Kept) != "mine" {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestGitignoreIsAddedTo(t *testing.T) {
	for before, want := range map[string]string{
		"node_modules":      "node_modules\n/jobs/\n",
		"":                  "/jobs/\n",
		"x\r\n/jobs/\r\n":   "x\r\n/jobs/\r\n",
		"jobs/\n":           "jobs/\n",
		"jobs\n":            "jobs\n",
		"# jobs\n":          "# jobs\n/jobs/\n",
		"my/jobs/\n!jobs\n": "my/jobs/\n!jobs\n/jobs/\n",
	} {
		h, _ := apptest.New(t)
		write(t, h, "new/.gitignore", before)
		done, err := scaffold.Init(t.Context(), h, scaffold.InitRequest{Dir: "new"})
		if got := read(t, h, "new/.gitignore"); err != nil || got != want || slices.Contains(done.Written, "new/.gitignore") != (want != before) {
			t.Errorf("%q became %q, want %q; %+v, %v", before, got, want, done, err)
		}
	}
}

// Results of a job that is run from the top of its repository are ignored, too, unless the
// repository has another directory of that name.
func TestResultsAtTheTopOfTheRepositoryAreIgnored(t *testing.T) {
	for name, tc := range map[string]struct{ file, want string }{
		"nothing there":          {"repo/README.md", "/jobs/\n"},
		"results are there":      {"repo/jobs/mine-proof/plan.json", "/jobs/\n"},
		"another directory":      {"repo/jobs/nightly.rb", ""},
		"a .gitignore with both": {"repo/.gitignore", "a\n/jobs/\n"},
	} {
		h, _ := apptest.New(t)
		write(t, h, "repo/.git/HEAD", "ref: refs/heads/main\n")
		write(t, h, tc.file, "a\n")
		done, err := scaffold.Init(t.Context(), h, scaffold.InitRequest{Dir: "repo/deep/evals"})
		text, _ := os.ReadFile(h.Path("repo/.gitignore"))
		if err != nil || string(text) != tc.want || read(t, h, "repo/deep/evals/.gitignore") != "/jobs/\n" {
			t.Errorf("%s: %q, want %q; %+v, %v", name, text, tc.want, done, err)
		}
	}
}

func TestTheFirstProviderThatWorksIsChosen(t *testing.T) {
	h, _ := apptest.New(t)
	broken := func(name string, remote bool) providers.Entry {
		return providers.Entry{Name: name, Remote: remote, Check: h.Providers[0].Check, New: func(context.Context, map[string]any, providers.Host) (environment.Provider, error) {
			if remote {
				t.Error("a remote provider was asked")
			}
			return nil, &environment.Error{Kind: environment.KindUnavailable, Err: errors.New("nothing\nanswers"), Hint: "start it"}
		}}
	}
	h.Providers = providers.Table{broken("engine", false), broken("cluster", true), h.Providers[0]}
	done, err := scaffold.Init(t.Context(), h, scaffold.InitRequest{Dir: "new"})
	if text := read(t, h, "new/job.yaml"); err != nil || !strings.Contains(text, "written: engine: nothing⏎answers\n  type: fake\n") {
		t.Errorf("%+v, %v:\n%s", done, err, text)
	}
	h.Providers = providers.Table{broken("engine", false), broken("cluster", true)}
	done, err = scaffold.Init(t.Context(), h, scaffold.InitRequest{Dir: "none"})
	if text := read(t, h, "none/job.yaml"); err != nil || !done.Provider.None || !strings.Contains(text, "# environment:\n") {
		t.Errorf("%+v, %v:\n%s", done, err, text)
	}
}

func TestAPresetHasItsKey(t *testing.T) {
	h := withDocker(t)
	write(t, h, ".git/HEAD", "")
	_, err := scaffold.Init(t.Context(), h, scaffold.InitRequest{Dir: ".", Provider: "fake", Preset: "claude-code", Tasks: "evals"})
	apptest.Refused(t, err, "job.yaml exists already")
	done, err := scaffold.Init(t.Context(), h, scaffold.InitRequest{Dir: "new", Provider: "fake", Preset: "claude-code", Tasks: "evals"})
	if err != nil || slices.ContainsFunc(done.Written, func(name string) bool { return strings.Contains(name, "agent") }) {
		t.Fatalf("%+v, %v", done, err)
	}
	text := read(t, h, "new/job.yaml")
	for _, want := range []string{"    preset: claude-code", "      ANTHROPIC_API_KEY: ${ANTHROPIC_API_KEY}", "    - agent: claude-code\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if workflow := read(t, h, ".github/workflows/rollout.yml"); !strings.HasSuffix(workflow, "      env: |\n        ANTHROPIC_API_KEY=${{ secrets.ANTHROPIC_API_KEY }}\n") {
		t.Error(workflow)
	}
	checked, err := proof.Validate(t.Context(), h, stages.JobRequest{File: "new/job.yaml"}, false)
	if err != nil || checked.Agents != 3 || len(checked.Problems.Errors()) > 0 {
		t.Errorf("%+v, %v", checked, err)
	}
	for request, want := range map[scaffold.InitRequest]string{
		{Preset: "claude-cod"}:                "did you mean \"claude-code\"?",
		{Preset: "shell"}:                     "needs a model of the job",
		{Agent: "claude-code"}:                "take --preset claude-code",
		{Agent: "mine", Preset: "codex"}:      "leave out --agent",
		{Preset: "no such\x1b thing at all!"}: "rollout agents ls has their names",
	} {
		request.Dir = "other"
		_, err := scaffold.Init(t.Context(), h, request)
		apptest.Refused(t, err, want)
	}
	if _, err := os.Stat(h.Path("other")); err == nil {
		t.Error("something was written")
	}
}

func TestBrokenTasksAreLeftOutWithTheirReasons(t *testing.T) {
	h := withDocker(t)
	write(t, h, "evals/torn/task.toml", "version = \"1.0\n")
	write(t, h, "evals/torn/instruction.md", "Do it.\n")
	done, err := scaffold.Init(t.Context(), h, scaffold.InitRequest{Dir: "new", Provider: "fake", Tasks: "evals"})
	if err != nil || len(done.Broken) != 1 || done.Broken["torn"] == "" {
		t.Fatalf("%+v, %v", done, err)
	}
	text := read(t, h, "new/job.yaml")
	if !strings.Contains(text, "exclude_tasks: # they cannot run as they are\n  - \"torn\" # ") {
		t.Error(text)
	}
	checked, err := proof.Validate(t.Context(), h, stages.JobRequest{File: "new/job.yaml"}, false)
	if err != nil || checked.Tasks != 1 || len(checked.Problems.Errors()) > 0 {
		t.Errorf("%+v, %v", checked, err)
	}
}

func TestTasksOutsideOfTheRepositoryAreRefused(t *testing.T) {
	h := withDocker(t)
	write(t, h, "repo/.git", "gitdir: elsewhere\n") // as in a worktree
	_, err := scaffold.Init(t.Context(), h, scaffold.InitRequest{Dir: "repo/ci", Tasks: "evals"})
	apptest.Refused(t, err, "evals is outside of the repository")
	if err := os.Symlink(h.Path("evals"), h.Path("repo/link")); err != nil {
		t.Fatal(err)
	}
	_, err = scaffold.Init(t.Context(), h, scaffold.InitRequest{Dir: "repo/ci", Tasks: "repo/link"})
	apptest.Refused(t, err, "is outside of the repository")
	if err := os.CopyFS(h.Path("repo/tasks"), os.DirFS(h.Path("evals"))); err != nil {
		t.Fatal(err)
	}
	done, err := scaffold.Init(t.Context(), h, scaffold.InitRequest{Dir: "repo/ci", Tasks: "repo/tasks"})
	if err != nil || !strings.Contains(read(t, h, "repo/ci/job.yaml"), `path: "../tasks"`) {
		t.Errorf("%+v, %v", done, err)
	}
}
