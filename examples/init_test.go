package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/test/testenv"
)

// inShell runs commands with the program in their PATH, and returns what they print.
func inShell(t *testing.T, dir, commands string, env []string) string {
	t.Helper()
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(build(t), filepath.Join(bin, "rollout")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir = dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GITHUB_") && !strings.HasPrefix(v, "ANTHROPIC_") && !strings.HasPrefix(v, "GIT_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(append(cmd.Env, env...), "PATH="+bin+":"+os.Getenv("PATH"), "NO_COLOR=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// after init, the job runs at once: on docker if an engine answers, else on the sandbox.
const atOnce = `
git init -q repo && cd repo
rollout init evals --yes
cd evals
grep -A3 'environment:' job.yaml
rollout validate job.yaml
rollout doctor job.yaml
rollout run job.yaml --name first
`

func TestAJobOfInitRunsAtOnceOnDocker(t *testing.T) {
	testenv.NeedGit(t)
	testenv.NeedDocker(t)
	out := inShell(t, t.TempDir(), atOnce, nil)
	for _, want := range []string{"# environment:\n#   type: sandbox", "3 agents × 1 task × 1 attempt = 3 trials", "provider  docker", "nothing is missing", "Gate: nothing to compare with yet. 2 checks passed"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
}

func TestAJobOfInitRunsAtOnceWithoutAnEngine(t *testing.T) {
	testenv.NeedGit(t)
	dir := t.TempDir()
	env := append(providers["sandbox"].prepare(t, dir), "DOCKER_HOST=unix://"+filepath.Join(dir, "nowhere.sock"))
	out := inShell(t, dir, atOnce, env)
	for _, want := range []string{"environment:\n  # Chosen because this did not work on the machine where it was written: docker: ", "  type: sandbox\n", "nothing is missing", "Gate: nothing to compare with yet. 2 checks passed"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
}

func TestInitMinesTasksAndRunsThem(t *testing.T) {
	testenv.NeedGit(t)
	dir := t.TempDir()
	env := append(providers["sandbox"].prepare(t, dir), "DOCKER_HOST=unix://"+filepath.Join(dir, "nowhere.sock"))
	out := inShell(t, dir, `
git init -q repo && cd repo
echo 'add() { echo $(($1 - $2)); }' >lib.sh
git add -A && git commit -qm first
echo 'add() { echo $(($1 + $2)); }' >lib.sh
printf '. ./lib.sh\n[ "$(add 1 2)" = 3 ]\n' >sum_test.sh
git add -A && git commit -qm 'lib: add must return the sum of its two arguments, not the difference'
rollout init evals --mine
cd evals
rollout run job.yaml --agent oracle --agent nop --name first
git -C .. status --short --untracked-files=all
`, env)
	for _, want := range []string{"1 proven, in evals/evals/mined", "evals/job.yaml\n", "2 trials", "2 checks passed", "?? evals/evals/mined/lib-add"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(out, "?? jobs") || strings.Contains(out, "?? evals/jobs") {
		t.Error("results are not ignored")
	}
}
