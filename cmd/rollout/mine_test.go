//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// history is a repository with a working tree.
type history string

// historyDate is the date of all commits, so that their ids are always the same.
const historyDate = "2026-01-02T03:04:05Z"

func (h history) git(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	cmd.Dir = string(h)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_DATE="+historyDate, "GIT_COMMITTER_DATE="+historyDate)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (h history) commit(t *testing.T, message string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(string(h), name)
		must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
	}
	h.git(t, "add", "--all")
	h.git(t, "commit", "--quiet", "-m", message)
}

// mined are the reasons that rollout mine prints, by the subjects of the commits.
func mined(t *testing.T, dir string, args ...string) map[string]string {
	t.Helper()
	r := start(t, dir, append([]string{"mine", "--format", "json", "--env-type", "sandbox", "--set", "environment.provider_config.base=host"}, args...)...)
	if code := r.exit(t); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	var out struct {
		Candidates []struct{ Subject, Reason string }
	}
	text := r.output.String()
	must(t, json.Unmarshal([]byte(text[strings.Index(text, "{\n"):]), &out))
	reasons := map[string]string{}
	for _, c := range out.Candidates {
		reasons[c.Subject] = c.Reason
	}
	return reasons
}

// From the commits of a repository to proven tasks, which validate --run proves again.
func TestMineProvesTasksOfAHistory(t *testing.T) {
	needSandbox(t)
	h := history(t.TempDir())
	h.git(t, "init", "--quiet", "-b", "main")
	must(t, os.Symlink("/etc/hostname", filepath.Join(string(h), "outside")))
	const add = "add() { echo $(($1 + $2)); }\n"
	h.commit(t, "begin", map[string]string{"lib/add.sh": add, "t/add_test.sh": ". lib/add.sh\n[ \"$(add 1 2)\" = 3 ]\n", ".gitignore": "jobs\nevals\n"})
	h.git(t, "checkout", "--quiet", "-b", "side")
	h.commit(t, "one", map[string]string{"lib/mul.sh": "mul() { echo $(($1 * $2)); }\n"})
	h.commit(t, "two", map[string]string{"t/mul_test.sh": ". lib/mul.sh\n[ \"$(mul 3 4)\" = 12 ]\n"})
	h.git(t, "checkout", "--quiet", "main")
	h.git(t, "merge", "--quiet", "--no-ff", "-m", "multiply", "side")
	h.commit(t, "tests nothing new", map[string]string{"lib/add.sh": add + "# Adds.\n", "t/two_test.sh": ". lib/add.sh\n[ \"$(add 1 1)\" = 2 ]\n"})
	h.commit(t, "breaks", map[string]string{"lib/add.sh": "add() { echo 0; }\n", "t/two_test.sh": "# 2\n. lib/add.sh\n[ \"$(add 1 1)\" = 2 ]\n", "t/zero_test.sh": ". lib/add.sh\n[ \"$(add 0 1)\" = 0 ]\n"})
	h.commit(t, "never passes", map[string]string{"lib/add.sh": add, "t/three_test.sh": "exit 1\n"})

	want := map[string]string{"begin": "root", "multiply": "proven", "tests nothing new": "no_new_test", "breaks": "breaks_tests", "never passes": "fails_after"}
	if got := mined(t, string(h)); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	tasks, err := filepath.Glob(filepath.Join(string(h), "evals/mined/*/task.toml"))
	must(t, err)
	if len(tasks) != 1 {
		t.Fatalf("the dataset has %q", tasks)
	}
	entries, err := os.ReadDir(filepath.Join(string(h), "evals"))
	must(t, err)
	if len(entries) != 1 {
		t.Errorf("files of tasks that are not proven are left: %v", entries)
	}
	r := start(t, string(h), "validate", "--run", "evals/mined", "--runs", "1", "--env-type", "sandbox", "--set", "environment.provider_config.base=host")
	if code := r.exit(t); code != 0 {
		t.Errorf("validate --run ends with %d", code)
	}

	// A task of the dataset is not made again, and commits that were left out are not run again.
	want["multiply"] = "exists"
	jobs := func() int {
		entries, err := os.ReadDir(filepath.Join(string(h), "jobs"))
		must(t, err)
		return len(entries)
	}
	before := jobs()
	if got := mined(t, string(h)); !maps.Equal(got, want) || jobs() != before {
		t.Errorf("the second time: got %v, want %v; %d jobs, want %d", got, want, jobs(), before)
	}
	if got := mined(t, string(h), "--retry"); !maps.Equal(got, want) || jobs() == before {
		t.Errorf("with --retry: got %v, want %v; %d jobs, want more", got, want, jobs())
	}
	if again, err := filepath.Glob(filepath.Join(string(h), "evals/mined/*/task.toml")); err != nil || !slices.Equal(again, tasks) {
		t.Errorf("the dataset has %q, %v", again, err)
	}
}
