package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

// Limits for the whole job do not count a task that broke for the oracle if there are other agents.
// Every report says so all the same, and a group limits it.
func TestReportNamesATaskThatBreaksForTheOracle(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"job.yaml":                "name: one\nenvironment: {type: fake}\nagents: [{name: oracle}, {name: mine, execute: 'true'}]\ntasks: [hello]\ngate: {max_broken_tasks: 0}\n",
		"group.yaml":              "name: two\nenvironment: {type: fake}\nagents: [{name: oracle}, {name: mine, execute: 'true'}]\ntasks: [hello]\ngate: {groups: [{agent: oracle, min_pass_rate: 1}]}\n",
		"hello/task.toml":         "version = \"1.0\"\nenvironment.docker_image = \"debian:bookworm\"\n",
		"hello/instruction.md":    "Do it.\n",
		"hello/solution/solve.sh": "true\n",
		"hello/tests/test.sh":     "echo 1 >/logs/verifier/reward.txt\n",
	} {
		write(t, dir, name, text)
	}
	for job, c := range map[string]struct {
		file string
		code int
		says []string
	}{
		"one": {"job.yaml", 0, []string{"1 broken for the oracle"}},
		"two": {"group.yaml", 1, []string{"1 broken for the oracle", "agent oracle: "}},
	} {
		for _, name := range []string{"base-" + job, job} {
			if o := inDir(t.Context(), t, dir, "run", c.file, "--name", name); o.code != 0 {
				t.Fatalf("the job ended with %d\n%s%s", o.code, o.stdout, o.stderr)
			}
		}
		path := filepath.Join(dir, "jobs", job, "oracle/tasks/hello__1/result.json")
		var tr result.Trial
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &tr)
		}
		tr.Reward = new(0.0)
		if err == nil {
			err = result.WriteJSON(path, tr)
		}
		if err != nil {
			t.Fatal(err)
		}
		o := inDir(t.Context(), t, dir, "report", filepath.Join("jobs", job), "--baseline", filepath.Join("jobs", "base-"+job), "--markdown", "report.md")
		report, err := os.ReadFile(filepath.Join(dir, "report.md"))
		if err != nil || o.code != c.code {
			t.Errorf("report of %s ended with %d, want %d: %v\n%s%s", job, o.code, c.code, err, o.stdout, o.stderr)
		}
		for _, text := range c.says {
			if !strings.Contains(string(report), text) {
				t.Errorf("the report of %s does not say %q:\n%s", job, text, report)
			}
		}
		if !strings.Contains(o.stdout, "broken    oracle/tasks/hello") {
			t.Errorf("the summary of %s does not name the task:\n%s", job, o.stdout)
		}
	}
}
