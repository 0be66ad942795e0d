package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A job that is resumed by a version with other rules says so; one whose last number alone differs
// has the same rules.
func TestResumeByAnotherVersionSaysSo(t *testing.T) {
	was := version
	t.Cleanup(func() { version = was })
	const note = "this job began with Rollout v1.4.0 and is resumed with "
	for by, says := range map[string]bool{"v1.4.0": false, "v1.4.7": false, "v1.5.0": true, "v2.4.0": true} {
		dir := t.TempDir()
		write(t, dir, "job.yaml", "name: j\nenvironment: {type: fake}\nagents: [{name: oracle}]\ntasks: [one]\n")
		write(t, dir, "one/task.toml", "version = \"1.0\"\nenvironment.docker_image = \"debian:bookworm\"\n")
		write(t, dir, "one/instruction.md", "Do it.")
		write(t, dir, "one/solution/solve.sh", "true\n")
		write(t, dir, "one/tests/test.sh", "echo 1 >/logs/verifier/reward.txt\n")
		version = "v1.4.0"
		if o := inDir(t.Context(), t, dir, "run", "job.yaml"); o.code != 0 {
			t.Fatalf("the job ended with %d\n%s%s", o.code, o.stdout, o.stderr)
		}
		if err := os.Remove(filepath.Join(dir, "jobs/j/oracle/tasks/one__1/result.json")); err != nil {
			t.Fatal(err)
		}
		version = by
		o := inDir(t.Context(), t, dir, "resume", "jobs/j")
		said := strings.Join(strings.Fields(o.stderr), " ")
		if o.code != 0 || strings.Contains(said, note+by+": what counts as an error, a timeout or a reward may differ") != says || strings.Contains(said, note) != says {
			t.Errorf("resumed by %s with %d: %s", by, o.code, o.stderr)
		}
		plan, err := os.ReadFile(filepath.Join(dir, "jobs/j/plan.json"))
		if recorded := strings.Count(string(plan), `"rollout_version": "`+by+`"`); err != nil || recorded != 1 {
			t.Errorf("the plan of a job that %s resumed: %v\n%s", by, err, plan)
		}
	}
}
