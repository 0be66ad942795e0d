package actiontest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/org/rollout-action/internal/test/testenv"
)

// top is the top of the repository.
const top = "../../.."

func TestMain(m *testing.M) {
	code := m.Run()
	if image.built {
		_ = exec.Command("docker", "image", "rm", image.name, image.name+"-stage").Run()
		// Build stages have no names.
		_ = exec.Command("docker", "image", "prune", "--force", "--filter", "label="+ownLabel()).Run()
	}
	_ = os.RemoveAll(artifactActions.dir)
	os.Exit(code)
}

// image is the Action's image, built once for all tests from this checkout.
var image struct {
	once  sync.Once
	built bool
	name  string
	err   error
}

// needImage returns the name of the Action's image.
func needImage(t *testing.T) string {
	t.Helper()
	testenv.NeedDocker(t)
	testenv.NeedRoot(t, "as GitHub's runner starts the Action")
	image.once.Do(func() {
		image.name = fmt.Sprintf("rollout-action-test:%d", os.Getpid())
		image.err = testenv.ActionImage(top, t.TempDir(), image.name, ownLabel())
		image.built = image.err == nil
	})
	if image.err != nil {
		t.Fatal(image.err)
	}
	return image.name
}

// ownLabel returns the label that identifies leftovers of these tests.
func ownLabel() string { return fmt.Sprintf("rollout-action-test=%d", os.Getpid()) }

// docker runs docker and returns its output.
func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "docker", args...).Output()
	if err != nil {
		t.Fatalf("docker %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	must(t, err)
	return string(text)
}

// suite writes a repository with a job file at evals/job.yaml: five tasks, and an agent that solves
// those in knows.
func suite(t *testing.T, dir string, knows ...string) {
	t.Helper()
	write(t, dir, map[string]string{"evals/job.yaml": fmt.Sprintf(`
n_attempts: 1
n_concurrent_trials: 2
agents:
  - name: solver
    execute: |
      test "$KEY" = model-secret || { echo "no key"; exit 1; }
      echo "using $KEY"
      for known in %s; do
        if grep -qw "$known" "$ROLLOUT_TASK_INSTRUCTION"; then echo solved > /tmp/answer; fi
      done
      mkdir -p '/logs/agent/a:b'
      echo "::error::forged by the agent"
      echo x > '/logs/agent/a:b/what?.log'
    env: { KEY: '${MODEL_API_KEY}', MODEL: '${MODEL:-none}' }
datasets: [{ path: tasks }]
`, strings.Join(knows, " "))})
	for _, name := range []string{"apple", "banana", "cherry", "damson", "elder"} {
		write(t, filepath.Join(dir, "evals/tasks", name), map[string]string{
			"task.toml":         "version = \"1.0\"\n[environment]\ndocker_image = \"" + testenv.Image + "\"\n",
			"instruction.md":    "Bring me an " + name + " .\n",
			"tests/test.sh":     "if grep -q solved /tmp/answer; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n",
			"solution/solve.sh": "echo solved > /tmp/answer\n",
		})
	}
}
