package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/git/gittest"
	"github.com/org/rollout-action/internal/result"
)

// registryScene is a registry on a web server, whose tasks are in a repository on a git server.
type registryScene struct {
	*testing.T
	repo     *gittest.Repo
	git      *gittest.Server
	web      *httptest.Server
	registry func() string // what the web server has now
	dir      string        // the current folder
	env      map[string]string
}

func newRegistryScene(t *testing.T) *registryScene {
	t.Helper()
	root := t.TempDir()
	s := &registryScene{T: t, repo: gittest.NewRepo(t, filepath.Join(root, "tasks.git")), git: gittest.Serve(t, root), dir: t.TempDir()}
	s.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(s.registry())) }))
	t.Cleanup(s.web.Close)
	s.env = map[string]string{"XDG_CACHE_HOME": filepath.Join(t.TempDir(), "cache"), "HOME": t.TempDir()}
	return s
}

// rollout runs a command line.
func (s *registryScene) rollout(args ...string) (code int, stdout, stderr string) {
	s.Helper()
	var out, errs bytes.Buffer
	env := Env{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Dir: s.dir, Now: time.Now,
		Getenv: func(name string) (string, bool) { v, ok := s.env[name]; return v, ok },
	}
	code = Main(s.Context(), s.Context(), env, args)
	return code, out.String(), errs.String()
}

func (s *registryScene) write(name, content string) {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		s.Fatal(err)
	}
}

func registryOf(url, commit string, tasks ...string) string {
	type task map[string]string
	var list []task
	for _, name := range tasks {
		list = append(list, task{"name": "org/" + name, "git_url": url, "git_commit_id": commit, "path": "tasks/" + name})
	}
	text, _ := json.Marshal([]any{
		map[string]any{"name": "bench", "version": "1.0", "description": "Old.", "tasks": list[:1]},
		map[string]any{"name": "bench", "version": "2.0", "description": "A bench.", "tasks": list},
	})
	return string(text)
}

// TestARegistrysDatasetIsRun from the web, and again when neither server can be reached.
func TestARegistrysDatasetIsRun(t *testing.T) {
	s := newRegistryScene(t)
	id := s.repo.Commit("main", gittest.Tasks("tasks/one", "tasks/two"))
	s.repo.Commit("main", map[string]string{"README.md": "gone"})
	s.registry = func() string { return registryOf(s.git.URL+"/tasks.git", id[:7], "one", "two", "tow") }
	s.write("job.yaml", `
agents: [{name: oracle}]
environment: {type: fake}
datasets:
  - registry: {url: "`+s.web.URL+`/registry.json"}
    name: bench
`)
	run := func(name string) result.Job {
		code, stdout, stderr := s.rollout("run", "job.yaml", "--name", name)
		if code != 1 || !strings.Contains(stdout, "task_not_found") {
			t.Fatalf("exit code %d\n%s\n%s", code, stdout, stderr)
		}
		if name == "offline" && strings.Count(stderr, "the copy of") != 1 {
			t.Errorf("nobody says that the registry is an old copy:\n%s", stderr)
		}
		tree, err := result.ReadTree(filepath.Join(s.dir, "jobs", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, tr := range tree.Trials {
			if tr.TaskGitCommitID == nil || *tr.TaskGitCommitID != id {
				t.Errorf("%s: commit %v, want %s", tr.Task, tr.TaskGitCommitID, id)
			}
			if tr.Task == "org/tow" && !strings.Contains(tr.Error.Message, "did you mean tasks/two?") {
				t.Errorf("a task that is not there: %s", tr.Error.Message)
			}
		}
		for _, task := range tree.Plan.Tasks {
			if task.GitCommitID != id || task.GitPath != "tasks/"+strings.TrimPrefix(task.Task, "org/") || task.Path != "" {
				t.Errorf("plan: %+v", task)
			}
		}
		return result.Summarize(tree.Plan, tree.Trials)
	}
	first := run("online")
	if first.CompletedTrials != 2 || first.PassRate != 1 {
		t.Errorf("%+v", first)
	}
	if n := s.git.Count("git-upload-pack"); n > 12 {
		t.Errorf("%d requests", n)
	}
	s.git.Close()
	s.web.Close()
	second := run("offline")
	if second.PlanDigest != first.PlanDigest {
		t.Errorf("the plan's digest changed from %s to %s", first.PlanDigest, second.PlanDigest)
	}
}
