package mine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/forge/github"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/run/mine"
	"github.com/org/rollout-action/internal/test/apptest"
	"github.com/org/rollout-action/internal/test/githubtest"
	"github.com/org/rollout-action/internal/test/testenv"
)

// The description of a merged pull request is the instruction. It is bounded and cannot control a
// terminal; without one that says enough, or with one that was never merged, the message stays.
func TestInstructionsFromPullRequests(t *testing.T) {
	testenv.NeedGit(t)
	server := githubtest.New(t)
	server.AddRepo("org/calc")
	server.AddPull("org/calc", githubtest.Pull{Number: 1, State: "closed", Merged: true, Title: "Multiply numbers", Body: "Mul takes two integers\r\n<!-- a template -->and returns\x1b[31m their product\u202e.\n\nSigned-off-by: me <me@example.com>"})
	server.AddPull("org/calc", githubtest.Pull{Number: 2, State: "closed", Title: "Never merged", Body: strings.Repeat("word ", 20)})
	server.AddPull("org/calc", githubtest.Pull{Number: 3, State: "closed", Merged: true, Title: "Fix", Body: ""})
	server.AddPull("org/calc", githubtest.Pull{Number: 4, State: "closed", Merged: true, Title: "Long", Body: strings.Repeat("word ", 20_000)})
	h, _ := apptest.New(t)
	h.GitHub = func() github.Environment {
		return github.Environment{Token: githubtest.WriteToken, Actions: github.Actions{APIURL: server.URL}}
	}
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=A", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Dir = h.Dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	run("init", "--quiet")
	run("commit", "--quiet", "--allow-empty", "-m", "begin")
	for i, message := range []string{"Merge pull request #1 from me/mul\n\nMultiply numbers", "Divide (#2)", "Fix (#3)", "Long (#4)", "Nobody knows #1"} {
		for name, text := range map[string]string{"lib.sh": "echo 1\n", "lib_test.sh": "bash lib.sh\n"} {
			if err := os.WriteFile(filepath.Join(h.Dir, name), []byte(text+strings.Repeat("#\n", i)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		run("add", "lib.sh", "lib_test.sh")
		run("commit", "--quiet", "-m", message)
	}
	req := Request{Repository: ".", Out: "mined", Limit: 10, GitHub: "org/calc"}
	req.Job.Overrides = []config.Override{{Path: "environment.type", Literal: "fake", Origin: "--env-type"}}
	m, err := open(t.Context(), h, req)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close(t.Context())
	commits, err := m.repo.History(t.Context(), git.HistoryOptions{Commits: 10, Changes: 10})
	if err == nil {
		m.Candidates, err = mine.Look(t.Context(), m.repo, commits, mine.Options{Limit: 10})
	}
	if err == nil {
		err = m.write(t.Context())
	}
	if err != nil || len(m.Candidates) != 6 {
		t.Fatalf("%+v, %v", m.Candidates, err)
	}
	for i, want := range []struct{ text, from string }{
		{"Nobody knows #1", "stub"}, {"word word", "pull_request"}, {"Fix (#3)", "stub"}, {"Divide (#2)", "stub"}, {"Mul takes two integers\nand returns", "pull_request"},
	} {
		dir := filepath.Join(m.staging, m.Candidates[i].Task)
		text, err := os.ReadFile(filepath.Join(dir, "instruction.md"))
		toml, failed := os.ReadFile(filepath.Join(dir, "task.toml"))
		if err != nil || failed != nil || !strings.Contains(string(text), want.text) || strings.ContainsAny(string(text), "\x1b\u202e\r") || len(text) > 10_000 ||
			!strings.Contains(string(toml), `instruction = "`+want.from+`"`) || strings.Contains(string(text), "template") || strings.Contains(string(text), "Signed-off-by") {
			t.Errorf("%s: %.300q, want %q from %s; %v, %v", m.Candidates[i].Subject, text, want.text, want.from, err, failed)
		}
	}
	h.GitHub = func() github.Environment { return github.Environment{} }
	_, err = open(t.Context(), h, req)
	apptest.Refused(t, err, "--github org/calc: there is no GITHUB_TOKEN")
}
