package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestChanged(t *testing.T) {
	script, err := filepath.Abs("../../.ci/changed")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when, base string, want bool, paths ...string) {
		t.Helper()
		cmd := exec.Command(script, paths...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "ROLLOUT_CI_BASE="+base)
		out, err := cmd.CombinedOutput()
		if got := err == nil; got != want || len(out) > 0 {
			t.Errorf("%s: %q changed: %v, want %v (%v, %s)", when, paths, got, want, err, out)
		}
	}

	git("init", "--quiet", "--initial-branch=main")
	write("examples/a", "1")
	write("providers/b", "1")
	git("add", ".")
	git("commit", "--quiet", "--message=one")
	want("without a base", "", true, "examples")
	want("with a base that is unknown", "0123456789012345678901234567890123456789", true, "examples")
	want("at the base", "main", true, "examples")

	git("checkout", "--quiet", "-b", "topic")
	write("examples/a", "2")
	git("commit", "--quiet", "--all", "--message=two")
	git("checkout", "--quiet", "main")
	write("providers/b", "2")
	git("commit", "--quiet", "--all", "--message=meanwhile")
	git("checkout", "--quiet", "topic")
	want("after a commit", "main", true, "examples", "providers")
	want("after a commit elsewhere", "main", false, "providers")
	want("after a commit, of what is not there", "main", false, "internal/trial")

	write("providers/b", "3")
	want("before the commit", "main", true, "providers")
	git("checkout", "--quiet", "--", "providers")
	write("internal/trial/new", "1")
	want("with a new file", "main", true, "internal/trial")
	want("with a new file elsewhere", "main", false, "providers")

	git("update-ref", "refs/remotes/origin/main", "main")
	want("with origin/main as the base", "", false, "providers")
	want("with origin/main as the base", "", true, "examples")
	git("checkout", "--quiet", "--orphan", "other")
	git("commit", "--quiet", "--all", "--message=other")
	want("without a common commit", "", true, "providers")
}

// TestWorkflowsRunEveryPart: a part that a workflow left out would run nowhere. Trials on Kubernetes have a workflow of their own.
func TestWorkflowsRunEveryPart(t *testing.T) {
	read := func(name string, pattern *regexp.Regexp) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		found := pattern.FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s has no %s", name, pattern)
		}
		return string(found[1])
	}
	all := read(".ci/run", regexp.MustCompile(`(?m)^all='([a-z ]+)'$`))
	own := read(".github/workflows/kubernetes.yml", regexp.MustCompile(`(?m)"\$RUN" ([a-z]+)$`))
	for _, workflow := range []string{"ci.yml", "nightly.yml"} {
		got := read(".github/workflows/"+workflow, regexp.MustCompile(`(?m)^ +part: \[([a-z, ]+)\]$`))
		called := read(".github/workflows/"+workflow, regexp.MustCompile(`(?m)^ +uses: \./\.github/workflows/([a-z]+)\.yml\b`))
		if called != own || strings.ReplaceAll(got, ",", "")+" "+own != all {
			t.Errorf("%s runs the parts %s and calls %s, .ci/run has %s", workflow, got, called, all)
		}
	}
}
