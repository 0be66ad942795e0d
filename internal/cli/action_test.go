package cli

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
)

// The Action's log, summary and annotations name commands, too. The summary is Markdown.
func TestCommandsThatTheActionPrintsCanBeRun(t *testing.T) {
	s := step(t, map[string]string{"job": "job.yaml", "baseline": "none", "comment": "off"}).job(t)
	s.env["API_KEY"] = "key"
	s.env["GITHUB_STEP_SUMMARY"], s.env["GITHUB_ACTIONS"] = filepath.Join(t.TempDir(), "summary.md"), "true"
	if code := s.main(t, "action"); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	stepMust(t, os.RemoveAll(filepath.Join(s.dir, "jobs/j/a/evals/one__1")))
	stepMust(t, os.Remove(filepath.Join(s.dir, "jobs/j/result.json")))
	delete(s.env, "INPUT_JOB")
	s.env["INPUT_COMMAND"], s.env["INPUT_PATHS"] = "report", "jobs/j"
	s.stdout.Reset()
	s.stderr.Reset()
	if code := s.main(t, "action"); code != 1 {
		t.Fatalf("exit code %d", code)
	}
	summary, err := os.ReadFile(s.env["GITHUB_STEP_SUMMARY"])
	stepMust(t, err)
	shell := s.world()
	shell.Getenv = func(name string) (string, bool) {
		if strings.HasPrefix(name, "GITHUB_") || strings.HasPrefix(name, "INPUT_") {
			return "", false
		}
		return s.world().Getenv(name)
	}
	if n := runPrinted(t, shell, s.stdout.String()+s.stderr.String()); n == 0 {
		t.Error("the log names no command to resume the job")
	}
	t.Logf("%d commands in the summary\n%s", runPrinted(t, shell, string(summary)), summary)
}

// aStep is a step of a workflow, in a separate workspace.
type aStep struct {
	env            map[string]string
	dir            string
	stdout, stderr bytes.Buffer
}

func step(t *testing.T, inputs map[string]string) *aStep {
	t.Helper()
	s := &aStep{dir: t.TempDir(), env: map[string]string{
		"GITHUB_EVENT_NAME": "push", "GITHUB_REPOSITORY": "acme/widgets", "GITHUB_RUN_ID": "7", "GITHUB_STATE": filepath.Join(t.TempDir(), "state"),
	}}
	s.env["GITHUB_WORKSPACE"] = s.dir
	for name, value := range inputs {
		s.env["INPUT_"+strings.ToUpper(name)] = value
	}
	return s
}

func (s *aStep) world() Env {
	return Env{
		Providers: offered,
		Stdin:     strings.NewReader(""), Stdout: &s.stdout, Stderr: &s.stderr, Dir: s.dir, Now: time.Now,
		Getenv: func(name string) (string, bool) { value, ok := s.env[name]; return value, ok },
		Environ: func() (all []string) {
			for _, name := range slices.Sorted(maps.Keys(s.env)) {
				all = append(all, name+"="+s.env[name])
			}
			return all
		},
	}
}

func (s *aStep) main(t *testing.T, args ...string) int {
	t.Helper()
	code := Main(t.Context(), t.Context(), s.world(), args)
	t.Logf("rollout %s: exit code %d\n%s%s", strings.Join(args, " "), code, &s.stdout, &s.stderr)
	return code
}

// write writes files into the workspace; a task that passes if its agent does nothing, unless told
// otherwise.
func (s *aStep) write(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(s.dir, name)
		stepMust(t, os.MkdirAll(filepath.Dir(path), 0o755))
		stepMust(t, os.WriteFile(path, []byte(text), 0o644))
	}
}

func (s *aStep) job(t *testing.T) *aStep {
	t.Helper()
	s.write(t, map[string]string{
		"job.yaml":                 "name: j\nagents: [{name: a, execute: 'echo \"key $KEY\"', env: {KEY: '${API_KEY}'}}]\ndatasets: [{path: evals}]\nenvironment: {type: fake}\n",
		"evals/one/task.toml":      "version = \"1.0\"\n[environment]\ndocker_image = \"x\"\n",
		"evals/one/instruction.md": "Do.\n",
		"evals/one/tests/test.sh":  "echo 1 > /logs/verifier/reward.txt\n",
	})
	return s
}

func TestAStepRunsAJobAndHidesItsSecretsFirst(t *testing.T) {
	s := step(t, map[string]string{"job": "job.yaml", "baseline": "none", "comment": "off", "github-token": "ghs_token", "jobs-dir": "out/jobs"}).job(t)
	s.env["API_KEY"] = "line-one\n{\nline-three"
	if code := s.main(t, "action"); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	for _, secret := range []string{"ghs_token", "line-one", "line-three"} {
		if first := strings.Index(s.stderr.String(), secret); first < 0 || !strings.HasPrefix(s.stderr.String()[:first][strings.LastIndexByte(s.stderr.String()[:first], '\n')+1:], "::add-mask::") {
			t.Errorf("%q is not given to add-mask first", secret)
		}
	}
	if strings.Contains(s.stderr.String(), "::add-mask::{") {
		t.Error("a brace is masked, and with it half of the log")
	}
	if _, err := os.Stat(filepath.Join(s.dir, "out/jobs/j/result.json")); err != nil {
		t.Error(err)
	}
	// The step after the job gets to know where to look.
	state, err := os.ReadFile(s.env["GITHUB_STATE"])
	stepMust(t, err)
	lines := strings.Split(string(state), "\n")
	for ; len(lines) > 3; lines = lines[3:] { // a name and a delimiter, the value, the delimiter
		name, delimiter, ok := strings.Cut(lines[0], "<<")
		if !ok || lines[2] != delimiter {
			t.Fatalf("state %q", lines[:3])
		}
		s.env["STATE_"+name] = lines[1]
	}
	var owner environment.Owner
	if err := json.Unmarshal([]byte(s.env["STATE_rollout_owner"]), &owner); err != nil || owner != environment.Self() {
		t.Errorf("the owner in the state is %+v, %v", owner, err)
	}
	if code := s.main(t, "action", "post"); code != 0 || strings.Contains(s.stderr.String(), "warning") {
		t.Errorf("the step after the job ends with %d", code)
	}
}

// A workflow's checkout has one commit, and knows the names of its parents: the plan keeps them.
func TestAPlanKnowsTheParentsOfAMerge(t *testing.T) {
	s := step(t, map[string]string{"job": "job.yaml", "baseline": "none", "comment": "off"}).job(t)
	s.env["API_KEY"], s.env["GITHUB_ACTIONS"], s.env["PATH"] = "none-needed", "true", os.Getenv("PATH")
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", s.dir, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.Output()
		stepMust(t, err)
		return strings.TrimSpace(string(out))
	}
	git("init", "--quiet", "--initial-branch=main")
	git("commit", "--quiet", "--allow-empty", "-m", "root")
	git("checkout", "--quiet", "-b", "change")
	git("commit", "--quiet", "--allow-empty", "-m", "head")
	git("checkout", "--quiet", "main")
	git("commit", "--quiet", "--allow-empty", "-m", "main")
	git("merge", "--quiet", "--no-ff", "-m", "merge", "change")
	stepMust(t, os.WriteFile(filepath.Join(s.dir, ".git/shallow"), []byte(git("rev-parse", "HEAD")+"\n"), 0o644))
	s.env["GITHUB_SHA"] = git("rev-parse", "HEAD")
	want := []string{git("rev-parse", "main@{1}"), git("rev-parse", "change")}
	if code := s.main(t, "action"); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	tree, err := result.ReadTree(filepath.Join(s.dir, "jobs/j"))
	stepMust(t, err)
	if !slices.Equal(tree.Plan.Parents, want) {
		t.Errorf("the plan has the parents %q, want %q", tree.Plan.Parents, want)
	}
}

func TestJobFilesGetTheTokenOnlyByItsName(t *testing.T) {
	s := step(t, map[string]string{"job": "job.yaml", "baseline": "none", "comment": "off", "github-token": "ghs_token"}).job(t)
	s.env["API_KEY"] = "none-needed"
	s.write(t, map[string]string{"job.yaml": "name: j\nagents: [{name: a, execute: 'test \"$T\" = ghs_token && echo \"T=$T\" ${!G*} ${!I*} > /logs/agent/env', env: {T: '${GITHUB_TOKEN}'}}]\ndatasets: [{path: evals}]\nenvironment: {type: fake}\n"})
	if code := s.main(t, "action"); code != 0 {
		t.Errorf("exit code %d", code)
	}
	env, err := os.ReadFile(filepath.Join(s.dir, "jobs/j/a/evals/one__1/logs/agent/env"))
	stepMust(t, err)
	if strings.Contains(string(env), "ghs_token") || strings.Contains(string(env), "GITHUB_TOKEN") {
		t.Errorf("the token is in what the agent left, or under its own name with it:\n%s", env)
	}
}

func TestJobFilesGetVariablesOfTheInput(t *testing.T) {
	s := step(t, map[string]string{"job": "job.yaml", "baseline": "none", "comment": "off", "env": "\n  API_KEY=a=secret value\nOTHER=not used by it\n"}).job(t)
	if code := s.main(t, "action"); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, mask := range []string{"::add-mask::a=secret value\n", "::add-mask::not used by it\n"} {
		if !strings.Contains(s.stderr.String(), mask) {
			t.Errorf("%q is missing", mask)
		}
	}
	said, err := os.ReadFile(filepath.Join(s.dir, "jobs/j/a/evals/one__1/command/stdout.txt"))
	stepMust(t, err)
	if string(said) != "key ***\n" {
		t.Errorf("the agent was given %q", said)
	}
}

func TestProblemsAreAnnotations(t *testing.T) {
	s := step(t, map[string]string{"job": "job.yaml"})
	s.write(t, map[string]string{"job.yaml": "n_attempt: 2\nagents: [{name: oracle}]\n"})
	if code := s.main(t, "action"); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
	if want := "::error col=1,file=job.yaml,line=1,title=Rollout::unknown key \"n_attempt\""; !strings.Contains(s.stderr.String(), want) {
		t.Errorf("%s is missing", want)
	}

	s = step(t, map[string]string{"job": "job.yaml", "set": "environment.override_cpu=2"}).job(t)
	want := "::error title=Rollout::--set environment.override_cpu=2: unknown key \"override_cpu\""
	if code := s.main(t, "action"); code != 2 || !strings.Contains(s.stderr.String(), want) || strings.Contains(s.stderr.String(), "file=--") {
		t.Errorf("exit code %d, and no annotation without a file is about the flag:\n%s", code, &s.stderr)
	}

	s = step(t, map[string]string{"jobs": "job.yaml"})
	if code := s.main(t, "action"); code != 2 || !strings.Contains(s.stderr.String(), "::error title=Rollout::the Action has no such input: jobs (did you mean") {
		t.Errorf("exit code %d, and what is wrong is not said", code)
	}
}

func TestNamesOfTheProgram(t *testing.T) {
	for _, c := range []struct{ words, want string }{
		{"/rollout-action", "action"}, {"/rollout-post", "action post"}, {"/usr/local/bin/rollout run job.yaml", "run job.yaml"}, {"rollout", ""},
	} {
		if got := strings.Join(Args(strings.Fields(c.words)), " "); got != c.want {
			t.Errorf("%q means %q, want %q", c.words, got, c.want)
		}
	}
}

func stepMust(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
