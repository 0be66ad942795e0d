package browsertest_test

import (
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/test/browsertest"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/internal/test/testprogram"
	"github.com/org/rollout-action/internal/test/untrustedtest"
)

// style imitates GitHub's style for Markdown.
const style = `body{margin:16px;font:16px/1.5 "Liberation Sans",Arial,sans-serif;color:#1f2328}
article{border:1px solid #d1d9e0;border-radius:6px}article>p.by{margin:0;padding:10px 16px;background:#f6f8fa;border-bottom:1px solid #d1d9e0;border-radius:6px 6px 0 0;color:#59636e}
.by strong{color:#1f2328}main{padding:0 16px 8px}h2{font-size:1.4em;border-bottom:1px solid #d1d9e0;padding-bottom:.3em}h3{font-size:1.15em}a{color:#0969da;text-decoration:none}
table{border-collapse:collapse;margin:0 0 16px}th,td{border:1px solid #d1d9e0;padding:6px 13px}tr:nth-child(2n){background:#f6f8fa}
code,pre{font:85% "Liberation Mono",monospace;background:#eff1f3;border-radius:6px}code{padding:.2em .4em}pre{padding:12px;overflow:auto}pre code{padding:0;font-size:100%}details{margin-bottom:10px}`

// The pictures of the README show a real change of the quickstart's agent: it no longer removes its
// lock on a signal, and knows that fines have a limit. ROLLOUT_TEST_PICTURES=DIR keeps them as
// readme-comment.png, readme-summary.png and readme-page.png.
func TestPicturesOfTheReadme(t *testing.T) {
	if os.Getenv("ROLLOUT_TEST_PICTURES") == "" {
		t.Skip("ROLLOUT_TEST_PICTURES names no directory for pictures")
	}
	browser := browsertest.Start(t)
	binary, err := testenv.Binary(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, outputs := t.TempDir(), t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../../examples/quickstart")); err != nil {
		t.Fatal(err)
	}
	event := filepath.Join(outputs, "event.json")
	if err := os.WriteFile(event, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	sha := ""
	run := func(code int, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		others := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GITHUB_") }) // for a test in a workflow
		cmd.Env = append(others, "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com",
			"GITHUB_ACTIONS=true", "GITHUB_SERVER_URL=https://github.com", "GITHUB_REPOSITORY=acme/widgets", "GITHUB_RUN_ID=4711", "GITHUB_SHA="+sha, "GITHUB_TOKEN=",
			"GITHUB_EVENT_PATH="+event, "GITHUB_STEP_SUMMARY="+filepath.Join(outputs, args[0]+".md"), "GITHUB_OUTPUT="+filepath.Join(outputs, "output"))
		out, err := cmd.Output()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Fatalf("%s %q ends with %d, %v\n%s", name, args, got, err, out)
		}
		return string(out)
	}
	commit := func() {
		run(0, "git", "add", "--all")
		run(0, "git", "commit", "--quiet", "--message", "x")
		sha = strings.TrimSpace(run(0, "git", "rev-parse", "HEAD"))
	}
	run(0, "git", "init", "--quiet", "--initial-branch=main")
	if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("/jobs\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	commit()
	job := []string{"run", "job.yaml", "--agent", "apprentice", "--n-attempts", "3"}
	run(0, binary, append(job, "--name", "main", "--github", "off")...)
	agent := filepath.Join(dir, "agent/apprentice")
	text, err := os.ReadFile(agent)
	if err != nil {
		t.Fatal(err)
	}
	worse := strings.NewReplacer("trap 'rm $lock; exit 0' TERM INT\n", "trap 'exit 0' TERM INT\n", "[ $days -gt 0 ] || days=0\n", "[ $days -gt 0 ] || days=0\n  [ $days -lt 50 ] || days=50\n").Replace(string(text))
	testprogram.Write(t, agent, worse)
	commit()
	compared := []string{"--baseline", "jobs/main", "--max-broken-tasks", "0", "--noise", "ignore"}
	run(1, binary, append(append(job, "--name", "agent", "--html", "jobs/page.html"), compared...)...)
	comment := run(1, binary, append([]string{"report", "jobs/agent", "--format", "comment"}, compared...)...)
	summary, err := os.ReadFile(filepath.Join(outputs, "run.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"comment": comment, "summary": string(summary)} {
		if !strings.Contains(text, "Rollout failed: 1 broken, 1 fixed") || !strings.Contains(text, "clean-exit") {
			t.Errorf("the %s is\n%s", name, text)
		}
		by := map[string]string{"comment": "<strong>github-actions</strong> bot commented", "summary": "<strong>Job summary</strong> of the workflow run"}[name]
		file := filepath.Join(outputs, name+".html")
		shown := "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>" + html.EscapeString(name) + "</title><style>" + style + "</style><article><p class=\"by\">" + by + "</p><main>" +
			untrustedtest.HTML(t, []byte(text)) + "</main></article>"
		if err := os.WriteFile(file, []byte(shown), 0o600); err != nil {
			t.Fatal(err)
		}
		tab := browser.Open(t, browsertest.File(file), browsertest.Look{Width: 900, Height: 100, Scale: 1.2})
		if name == "summary" { // one of the trials that explain the failure
			tab.Eval(`[...document.querySelectorAll("details")].find((d) => d.textContent.includes("FAIL")).open = true`, nil)
		}
		tab.Picture("readme-" + name)
	}
	browser.Open(t, browsertest.File(filepath.Join(dir, "jobs/page.html")), browsertest.Look{Height: 925}).Screen("readme-page")
}
