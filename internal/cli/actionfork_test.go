package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/githubtest"
	"github.com/org/rollout-action/internal/test/gittest"
)

// aCheckout is a step in the workspace of a workflow with secrets, where main of acme/widgets is
// checked out, and whose repository has all that strangers can bring: GitHub shows commits of forks
// as if they were the repository's.
type aCheckout struct {
	*aStep
	t       *testing.T
	github  *githubtest.Server
	commits map[string]string
}

// stolen is what a stranger's test does with the secret.
const stolen = "echo 1 > /logs/verifier/reward.txt\necho \"key $API_KEY\" > /logs/verifier/stolen\n"

func newCheckout(t *testing.T, of *aCheckout) *aCheckout {
	t.Helper()
	c := &aCheckout{aStep: step(t, map[string]string{"job": "job.yaml", "baseline": "none", "comment": "off", "github-token": githubtest.WriteToken}), t: t, commits: map[string]string{}}
	c.github = githubtest.New(t)
	c.github.AddRepo("acme/widgets")
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", of.dir+"/.", c.dir).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}
	maps.Copy(c.commits, of.commits)
	c.github.Mirror(t, "acme/widgets", c.dir)
	c.env["API_KEY"], c.env["PATH"] = "a-secret", os.Getenv("PATH")
	c.env["GITHUB_API_URL"], c.env["GITHUB_SHA"], c.env["GITHUB_REF"] = c.github.URL, c.commits["main"], "refs/heads/main"
	return c
}

// newHistory makes the history that checkouts are copies of.
func newHistory(t *testing.T) *aCheckout {
	t.Helper()
	c := &aCheckout{aStep: step(t, nil), t: t, commits: map[string]string{}}
	c.job(t)
	c.write(t, map[string]string{"README.md": "hello\n", ".gitignore": "jobs\n"})
	c.git("init", "--quiet", "--initial-branch=main")
	c.commit("old")
	c.write(t, map[string]string{"README.md": "hello again\n"})
	c.commit("main")

	c.git("checkout", "--quiet", "-b", "feature")
	c.write(t, map[string]string{"evals/one/tests/test.sh": "echo 1 > /logs/verifier/reward.txt # ours\n"})
	c.commit("feature")

	c.git("checkout", "--quiet", "-b", "hidden/pr", "main")
	c.write(t, map[string]string{
		"evals/one/tests/test.sh": stolen,
	})
	c.commit("pr")
	c.git("checkout", "--quiet", "-b", "hidden/more")
	c.write(t, map[string]string{
		"evals/two/task.toml": "version = \"1.0\"\n[environment]\ndocker_image = \"x\"\n", "evals/two/instruction.md": "Do.\n", "evals/two/tests/test.sh": stolen,
	})
	c.commit("more")
	c.git("checkout", "--quiet", "-b", "hidden/merge", "main")
	c.git("merge", "--quiet", "--no-ff", "-m", "merge", "hidden/pr")
	c.named("merge")
	c.git("checkout", "--quiet", "-b", "hidden/docs", "main")
	c.write(t, map[string]string{"README.md": "a stranger's words\n"})
	c.commit("docs")
	c.git("checkout", "--quiet", "-b", "merge-of-ours", "main")
	c.git("merge", "--quiet", "--no-ff", "-m", "merge", "feature")
	c.git("branch", "--quiet", "-m", "hidden/merge-of-ours")
	c.named("merge-of-ours")

	c.git("checkout", "--quiet", "main")
	return c
}

func (c *aCheckout) git(args ...string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), "git", append([]string{"-C", c.dir, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (c *aCheckout) commit(name string) {
	c.t.Helper()
	c.git("add", "--all")
	c.git("commit", "--quiet", "-m", name)
	c.named(name)
}

func (c *aCheckout) named(name string) { c.commits[name] = c.git("rev-parse", "HEAD") }

// about sets the event. In its payload, names of commits stand for them.
func (c *aCheckout) about(event, payload string) {
	c.t.Helper()
	for name, sha := range c.commits {
		payload = strings.ReplaceAll(payload, "<"+name+">", sha)
	}
	if !json.Valid([]byte(payload)) {
		c.t.Logf("the event is no JSON: %s", payload)
	}
	c.env["GITHUB_EVENT_NAME"] = event
	c.env["GITHUB_EVENT_PATH"] = filepath.Join(c.t.TempDir(), "event.json")
	stepMust(c.t, os.WriteFile(c.env["GITHUB_EVENT_PATH"], []byte(payload), 0o644))
}

const (
	forkPull  = `{"repository": {"default_branch": "main"}, "pull_request": {"number": 7, "head": {"sha": "<pr>", "ref": "x", "repo": {"full_name": "mallory/widgets"}}, "base": {"ref": "main", "sha": "<main>"}}}`
	ownPull   = `{"repository": {"default_branch": "main"}, "pull_request": {"number": 7, "head": {"sha": "<feature>", "ref": "feature", "repo": {"full_name": "Acme/Widgets"}}, "base": {"ref": "main", "sha": "<main>"}}}`
	gonePull  = `{"repository": {"default_branch": "main"}, "pull_request": {"number": 7, "head": {"sha": "<pr>", "ref": "x", "repo": null}, "base": {"ref": "main", "sha": "<main>"}}}`
	forkRun   = `{"repository": {"default_branch": "main"}, "workflow_run": {"id": 5, "event": "pull_request", "head_sha": "<pr>", "head_branch": "x", "head_repository": {"full_name": "mallory/widgets"}}}`
	onDefault = `{"repository": {"default_branch": "main"}}`
)

// files writes a stranger's files.
func strangers(c *aCheckout) {
	c.t.Helper()
	c.write(c.t, map[string]string{"evals/one/tests/test.sh": stolen})
}

// bringsAlong gives the job's agent a file or directory of the checkout.
func bringsAlong(c *aCheckout, source string) {
	c.env["INPUT_SET"] = "agents=[{name: helper, execute: echo, files: [{source: " + source + ", target: /agent}]}]"
}

// runs wants the step to run the job, all of whose trials pass.
func (c *aCheckout) runs() {
	c.t.Helper()
	if code := c.main(c.t, "action"); code != 0 {
		c.t.Fatalf("exit code %d", code)
	}
}

// refused wants the step to run nothing, with a reason.
func (c *aCheckout) refused(why ...string) {
	c.t.Helper()
	code := c.main(c.t, "action")
	said := strings.ReplaceAll(c.stderr.String(), "%25", "%")
	for _, part := range append(why, "refused to run anything", "allow-fork-checkout: true") {
		if code != command.ExitUsage || !strings.Contains(said, part) {
			c.t.Errorf("exit code %d, want %d and a refusal with %q", code, command.ExitUsage, part)
		}
	}
	c.nothingRan()
}

func (c *aCheckout) nothingRan() {
	c.t.Helper()
	if _, err := os.Stat(filepath.Join(c.dir, "jobs")); err == nil {
		c.t.Error("something was run")
	}
}

func TestFilesOfAStrangerAreNotRun(t *testing.T) {
	of := newHistory(t)
	for _, tc := range []struct {
		name  string
		with  func(c *aCheckout)
		wants string // in the refusal; "": it runs
	}{
		{"our own checkout runs", func(*aCheckout) {}, ""},
		{"the head of the pull request", func(c *aCheckout) { c.git("checkout", "--quiet", "hidden/pr") }, "evals/one/tests/test.sh differs"},
		{"the merge", func(c *aCheckout) { c.git("checkout", "--quiet", "--detach", "hidden/merge") }, "evals/one/tests/test.sh differs"},
		{"files of the pull request", func(c *aCheckout) { c.git("checkout", "hidden/pr", "--", ".") }, "evals/one/tests/test.sh differs"},
		{"a merge without a commit", func(c *aCheckout) { c.git("merge", "--no-commit", "--no-ff", "hidden/pr") }, "evals/one/tests/test.sh differs"},
		{"a squashed merge", func(c *aCheckout) { c.git("merge", "--squash", "hidden/pr") }, "evals/one/tests/test.sh differs"},
		{"a patch", func(c *aCheckout) {
			patch := filepath.Join(c.t.TempDir(), "patch")
			stepMust(c.t, os.WriteFile(patch, []byte(c.git("diff", "main", "hidden/pr")+"\n"), 0o644))
			c.git("apply", patch)
		}, "evals/one/tests/test.sh differs"},
		{"a commit on top of ours", func(c *aCheckout) { c.git("merge", "--squash", "hidden/pr"); c.git("commit", "--quiet", "-m", "x") }, "evals/one/tests/test.sh differs"},
		{"only a new task", func(c *aCheckout) { c.git("checkout", "hidden/more", "--", "evals/two") }, "evals/two is not in that commit"},
		{"a new task that git ignores", func(c *aCheckout) {
			c.write(c.t, map[string]string{"evals/jobs/task.toml": "version = \"1.0\"\n", "evals/jobs/instruction.md": "x", "evals/jobs/tests/test.sh": stolen})
		}, "evals/jobs is not in that commit"},
		{"a file hidden from git's index", func(c *aCheckout) {
			c.git("update-index", "--assume-unchanged", "evals/one/tests/test.sh")
			strangers(c)
		}, "evals/one/tests/test.sh differs"},
		{"a clean filter that makes it look unchanged", func(c *aCheckout) {
			c.write(c.t, map[string]string{".git/info/attributes": "*.sh filter=x\n"})
			c.git("config", "filter.x.clean", "git show HEAD:evals/one/tests/test.sh")
			strangers(c)
		}, "evals/one/tests/test.sh differs"},
		{"a replaced object", func(c *aCheckout) {
			strangers(c)
			id := c.git("hash-object", "-w", "evals/one/tests/test.sh")
			c.git("replace", c.git("rev-parse", "main:evals/one/tests/test.sh"), id)
		}, "evals/one/tests/test.sh differs"},
		{"a forged HEAD", func(c *aCheckout) {
			c.git("checkout", "--quiet", "hidden/pr")
			c.write(c.t, map[string]string{".git/HEAD": c.commits["main"] + "\n"})
		}, "evals/one/tests/test.sh differs"},
		{"a forged branch", func(c *aCheckout) {
			c.git("checkout", "--quiet", "hidden/pr")
			c.git("update-ref", "refs/heads/main", "hidden/pr")
			c.git("update-ref", "refs/remotes/origin/main", "hidden/pr")
		}, "evals/one/tests/test.sh differs"},
		{"an artifact with a repository of its own", func(c *aCheckout) {
			c.git("clone", "--quiet", c.dir, "got")
			c.env["INPUT_JOB"] = "got/job.yaml"
			c.write(c.t, map[string]string{"got/evals/one/tests/test.sh": stolen, "got/.git/HEAD": c.commits["main"] + "\n"})
		}, "evals/one/tests/test.sh differs"},
		{"an artifact below our checkout", func(c *aCheckout) {
			c.env["INPUT_JOB"] = "got/job.yaml"
			strangersJob(c, c.dir, "got")
		}, "got is not in that commit"},
		{"an artifact outside of it", func(c *aCheckout) {
			dir := c.t.TempDir()
			strangersJob(c, dir, ".")
			c.env["INPUT_JOB"] = filepath.Join(dir, "job.yaml")
		}, "lies neither in a checkout nor in the workspace"},
		{"an artifact outside of it with a forged HEAD", func(c *aCheckout) {
			dir := c.t.TempDir()
			strangersJob(c, dir, ".")
			stepMust(c.t, os.MkdirAll(filepath.Join(dir, ".git"), 0o755))
			stepMust(c.t, os.WriteFile(filepath.Join(dir, ".git/HEAD"), []byte(c.commits["main"]+"\n"), 0o644))
			c.env["INPUT_JOB"] = filepath.Join(dir, "job.yaml")
		}, "job.yaml differs"},
		{"a dataset five directories deep", func(c *aCheckout) {
			c.git("worktree", "add", "--quiet", "a/b/c/d/e", "hidden/pr")
			c.env["INPUT_SET"] = "datasets.0.path=a/b/c/d/e/evals"
		}, "a is not in that commit"},
		{"a dataset outside", func(c *aCheckout) {
			dir := c.t.TempDir()
			strangersJob(c, dir, ".")
			c.env["INPUT_SET"] = "datasets.0.path=" + filepath.Join(dir, "evals")
		}, "lies outside of the checkout"},
		{"a dataset by way of ..", func(c *aCheckout) { c.env["INPUT_SET"] = "datasets.0.path=../evals" }, "lies outside of the checkout"},
		{"a link instead of the dataset", func(c *aCheckout) {
			dir := c.t.TempDir()
			strangersJob(c, dir, ".")
			stepMust(c.t, os.RemoveAll(filepath.Join(c.dir, "evals")))
			stepMust(c.t, os.Symlink(filepath.Join(dir, "evals"), filepath.Join(c.dir, "evals")))
		}, "evals is a directory in that commit, and something else here"},
		{"a link instead of a directory on the way", func(c *aCheckout) {
			c.env["INPUT_SET"] = "datasets.0.path=evals\ntasks=[evals/one]"
			stepMust(c.t, os.Rename(filepath.Join(c.dir, "evals/one"), filepath.Join(c.dir, "evals/.one")))
			stepMust(c.t, os.Symlink(".one", filepath.Join(c.dir, "evals/one")))
		}, "evals/.one is not in that commit"},
		{"a link instead of a file", func(c *aCheckout) {
			c.write(c.t, map[string]string{"x": stolen})
			stepMust(c.t, os.Remove(filepath.Join(c.dir, "evals/one/tests/test.sh")))
			stepMust(c.t, os.Symlink("../../../x", filepath.Join(c.dir, "evals/one/tests/test.sh")))
		}, "evals/one/tests/test.sh is a file in that commit, and a link here"},
		{"the job file", func(c *aCheckout) {
			text, err := os.ReadFile(filepath.Join(c.dir, "job.yaml"))
			stepMust(c.t, err)
			c.write(c.t, map[string]string{"job.yaml": string(text) + "# and more\n"})
		}, "job.yaml differs"},
		{"a job file next to it", func(c *aCheckout) {
			c.env["INPUT_JOB"] = "other.yaml"
			text, err := os.ReadFile(filepath.Join(c.dir, "job.yaml"))
			stepMust(c.t, err)
			c.write(c.t, map[string]string{"other.yaml": string(text)})
		}, "other.yaml is not in that commit"},
		{"the job file is a link", func(c *aCheckout) {
			stepMust(c.t, os.Rename(filepath.Join(c.dir, "job.yaml"), filepath.Join(c.dir, "x.yaml")))
			stepMust(c.t, os.Symlink("x.yaml", filepath.Join(c.dir, "job.yaml")))
		}, "job.yaml is a file in that commit, and a link here"},
		{"a registry next to it", func(c *aCheckout) {
			c.write(c.t, map[string]string{"registry.json": `[{"name": "d", "version": "1", "tasks": [{"name": "one", "path": "evals/one"}]}]`})
			c.env["INPUT_SET"] = "datasets=[{name: d, registry: {path: registry.json}}]"
		}, "registry.json is not in that commit"},
		{"a new file that an agent brings along", func(c *aCheckout) {
			c.write(c.t, map[string]string{"tools/login": stolen})
			bringsAlong(c, "./tools")
		}, "tools is not in that commit"},
		{"another file that an agent brings along", func(c *aCheckout) {
			bringsAlong(c, "./README.md")
			c.write(c.t, map[string]string{"README.md": stolen})
		}, "README.md differs"},
		{"a link among the files that an agent brings along", func(c *aCheckout) {
			bringsAlong(c, "./evals")
			stepMust(c.t, os.Symlink("/etc/passwd", filepath.Join(c.dir, "evals/one/link")))
		}, "evals/one/link is not in that commit"},
		{"our own file that an agent brings along", func(c *aCheckout) { bringsAlong(c, "./README.md") }, ""},
		{"a task that is missing", func(c *aCheckout) {
			stepMust(c.t, os.Remove(filepath.Join(c.dir, "evals/one/instruction.md")))
		}, "evals/one/instruction.md is missing here"},
		{"a pipe", func(c *aCheckout) {
			stepMust(c.t, os.Remove(filepath.Join(c.dir, "evals/one/instruction.md")))
			stepMust(c.t, exec.Command("mkfifo", filepath.Join(c.dir, "evals/one/instruction.md")).Run())
		}, "evals/one/instruction.md is a file in that commit, and something else here"},
		{"the machine's files", func(c *aCheckout) {
			c.env["INPUT_ENV-TYPE"] = "docker"
			c.env["INPUT_SET"] = "environment.provider_config={mounts: [/srv/evil:/srv]}"
		}, "environment.provider_config.mounts names files of this machine"},
		{"other line endings", func(c *aCheckout) {
			c.write(c.t, map[string]string{"evals/one/instruction.md": "Do.\r\n"})
		}, `only in line endings, which git converted: write "* -text" into .gitattributes`},
		{"words that nobody runs", func(c *aCheckout) { c.git("checkout", "--quiet", "hidden/docs") }, ""},
		{"files that nobody runs", func(c *aCheckout) { c.write(c.t, map[string]string{"node_modules/x": "y", "evil/task.toml": ""}) }, ""},
		{"an empty directory", func(c *aCheckout) { stepMust(c.t, os.MkdirAll(filepath.Join(c.dir, "evals/one/a/b"), 0o755)) }, ""},
		{"a checkout without git", func(c *aCheckout) { stepMust(c.t, os.RemoveAll(filepath.Join(c.dir, ".git"))) }, ""},
		{"a stranger's files without git", func(c *aCheckout) { strangers(c); stepMust(c.t, os.RemoveAll(filepath.Join(c.dir, ".git"))) }, "evals/one/tests/test.sh differs"},
		{"a branch of our own", func(c *aCheckout) { c.git("checkout", "--quiet", "feature") }, ""},
		{"what main was once", func(c *aCheckout) { c.git("checkout", "--quiet", "--detach", c.commits["old"]) }, ""},
		{"our checkout in another place", func(c *aCheckout) {
			c.git("clone", "--quiet", c.dir, "trusted/main")
			c.env["INPUT_JOB"] = "trusted/main/job.yaml"
		}, ""},
		{"it can be allowed in so many words", func(c *aCheckout) {
			c.git("checkout", "--quiet", "hidden/pr")
			c.env["INPUT_ALLOW-FORK-CHECKOUT"] = "true"
		}, ""},
		{"tasks are not proven either", func(c *aCheckout) {
			c.env["INPUT_COMMAND"] = "validate"
			c.git("checkout", "--quiet", "hidden/pr")
		}, "evals/one/tests/test.sh differs"},
		{"nor are directories of them", func(c *aCheckout) {
			c.env["INPUT_COMMAND"], c.env["INPUT_JOB"] = "validate", "evals"
			strangers(c)
		}, "evals/one/tests/test.sh differs"},
		{"nor what has changed", func(c *aCheckout) { c.env["INPUT_COMMAND"], c.env["INPUT_CHANGED"] = "validate", "main" }, "the input changed"},
		{"a plan executes nothing", func(c *aCheckout) {
			c.env["INPUT_COMMAND"], c.env["INPUT_BASELINE"], c.env["INPUT_COMMENT"] = "plan", "github:", "changes"
			c.git("checkout", "--quiet", "hidden/pr")
		}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCheckout(t, of)
			c.about("pull_request_target", forkPull)
			tc.with(c)
			if c.env["INPUT_COMMAND"] == "validate" { // which compares with nothing
				delete(c.env, "INPUT_BASELINE")
				delete(c.env, "INPUT_COMMENT")
			}
			if tc.wants != "" {
				c.refused(tc.wants)
				return
			}
			c.runs()
		})
	}
}

// strangersJob writes a whole job of a stranger's.
func strangersJob(c *aCheckout, dir, below string) {
	c.t.Helper()
	for _, name := range []string{"job.yaml", "evals/one/task.toml", "evals/one/instruction.md", "evals/one/tests/test.sh"} {
		text, err := os.ReadFile(filepath.Join(c.dir, name))
		stepMust(c.t, err)
		if strings.HasSuffix(name, "test.sh") || name == "job.yaml" {
			text = append(text, "# evil\n"...)
		}
		path := filepath.Join(dir, below, name)
		stepMust(c.t, os.MkdirAll(filepath.Dir(path), 0o755))
		stepMust(c.t, os.WriteFile(path, text, 0o644))
	}
}

// Every event that strangers can cause or be the subject of has the same rule.
func TestOwnerOfTheChangesOfAnEvent(t *testing.T) {
	of := newHistory(t)
	const foreign = "evals/one/tests/test.sh differs"
	const notOurs = "is on no branch of the repository"
	pr := func(c *aCheckout) { c.git("checkout", "--quiet", "hidden/pr") }
	dirty := strangers
	main := func(*aCheckout) {}
	feature := func(c *aCheckout) { c.git("checkout", "--quiet", "feature") }
	run := func(event, repo string) string {
		return fmt.Sprintf(`{"repository": {"default_branch": "main"}, "workflow_run": {"id": 5, "event": %q, "head_sha": "<feature>", "head_branch": "feature", "head_repository": {"full_name": %q}}}`, event, repo)
	}
	for _, tc := range []struct {
		event, payload string
		with           func(c *aCheckout)
		wants          string
	}{
		{"workflow_run", forkRun, pr, foreign},
		{"workflow_run", forkRun, dirty, foreign},
		{"workflow_run", forkRun, main, ""},
		{"workflow_run", run("pull_request", "acme/widgets"), feature, ""},
		{"workflow_run", run("pull_request", "acme/widgets"), pr, notOurs},
		{"workflow_run", run("issue_comment", "acme/widgets"), dirty, foreign},
		{"workflow_run", run("workflow_dispatch", "acme/widgets"), dirty, foreign},
		{"workflow_run", `{}`, dirty, foreign},
		{"workflow_run", `{`, main, "Rollout cannot tell whose changes the event is about"},
		{"pull_request_target", gonePull, pr, foreign},
		{"pull_request_target", ownPull, feature, ""},
		{"pull_request_target", ownPull, pr, notOurs},
		{"issue_comment", `{"issue": {"number": 7, "pull_request": {}}, "repository": {"default_branch": "main"}}`, pr, foreign},
		{"issue_comment", `{"issue": {"number": 7, "pull_request": {}}, "repository": {"default_branch": "main"}}`, dirty, foreign},
		{"issue_comment", `{"issue": {"number": 7, "pull_request": {}}, "repository": {"default_branch": "main"}}`, main, ""},
		{"issue_comment", `{"issue": {"number": 7, "pull_request": {}}, "repository": {"default_branch": "main"}}`, feature, ""},
		{"issue_comment", `{"issue": {"number": 8}}`, pr, foreign}, // /evaluate 7
		{"issues", onDefault, pr, foreign},
		{"issues", onDefault, main, ""},
		{"discussion", onDefault, dirty, foreign},
		{"discussion_comment", onDefault, dirty, foreign},
		{"check_suite", onDefault, pr, foreign},
		{"check_run", onDefault, dirty, foreign},
		{"status", onDefault, pr, foreign},
		{"deployment_status", onDefault, pr, foreign},
		{"label", onDefault, pr, foreign},
		{"watch", onDefault, dirty, foreign},
		{"an_event_of_next_year", onDefault, dirty, foreign},
		{"", onDefault, dirty, foreign},
		{"workflow_dispatch", `{"inputs": {"ref": "refs/pull/7/head"}, "repository": {"default_branch": "main"}}`, pr, foreign},
		{"workflow_dispatch", `{"inputs": {"ref": "refs/pull/7/head"}, "repository": {"default_branch": "main"}}`, dirty, foreign},
		{"workflow_dispatch", `{"inputs": {"ref": "feature"}, "repository": {"default_branch": "main"}}`, feature, ""},
		{"workflow_dispatch", `{"inputs": null, "repository": {"default_branch": "main"}}`, pr, notOurs},
		{"workflow_dispatch", `{"inputs": null, "repository": {"default_branch": "main"}}`, dirty, ""}, // what the workflow made
		{"repository_dispatch", `{"client_payload": {"number": 7}, "repository": {"default_branch": "main"}}`, dirty, foreign},
		{"repository_dispatch", `{"client_payload": {}, "repository": {"default_branch": "main"}}`, pr, notOurs},

		{"push", onDefault, main, ""},
		{"push", onDefault, dirty, ""},
		{"push", onDefault, feature, ""},
		{"push", onDefault, pr, notOurs},
		{"push", `{`, main, ""},
		{"push", onDefault, func(c *aCheckout) { c.git("checkout", "--quiet", "--detach", c.commits["old"]) }, ""},
		{"push", onDefault, func(c *aCheckout) { c.git("checkout", "--quiet", "--detach", "hidden/merge") }, notOurs},
		{"push", onDefault, func(c *aCheckout) { c.git("merge", "--quiet", "--no-ff", "-m", "here", "hidden/pr") }, notOurs},
		{"push", onDefault, func(c *aCheckout) { c.git("merge", "--quiet", "--no-ff", "-m", "here", "feature") }, ""},
		{"push", onDefault, func(c *aCheckout) {
			c.write(c.t, map[string]string{"VERSION": "2\n"})
			c.git("add", "VERSION")
			c.git("commit", "--quiet", "-m", "a version")
		}, ""},
		{"push", onDefault, func(c *aCheckout) { // a dataset in another repository's checkout
			stepMust(c.t, os.Rename(filepath.Join(c.dir, "evals"), filepath.Join(c.dir, "moved")))
			c.git("init", "--quiet", "other")
			stepMust(c.t, os.Rename(filepath.Join(c.dir, "moved"), filepath.Join(c.dir, "other/evals")))
			c.git("-C", "other", "add", "--all")
			c.git("-C", "other", "commit", "--quiet", "-m", "x")
			c.env["INPUT_SET"] = "datasets.0.path=other/evals"
		}, ""},
		{"push", onDefault, func(c *aCheckout) {
			c.git("worktree", "add", "--quiet", "pr", "hidden/pr")
			c.env["INPUT_SET"] = "datasets.0.path=pr/evals"
		}, notOurs},
		{"push", onDefault, func(c *aCheckout) {
			c.git("worktree", "add", "--quiet", "pr", "hidden/more")
			stepMust(c.t, os.Symlink("../pr/evals/two", filepath.Join(c.dir, "evals/two")))
		}, notOurs},
		{"push", onDefault, func(c *aCheckout) { c.git("worktree", "add", "--quiet", "evals/pr", "hidden/pr") }, notOurs},
		{"schedule", onDefault, pr, notOurs},
		{"schedule", onDefault, main, ""},
		{"merge_group", `{"merge_group": {"head_sha": "<merge>", "base_sha": "<main>", "base_ref": "refs/heads/main"}}`, func(c *aCheckout) {
			c.git("checkout", "--quiet", "--detach", "hidden/merge")
		}, ""},
		{"pull_request", ownPull, feature, ""},
		{"pull_request", ownPull, dirty, ""},
		{"pull_request", ownPull, func(c *aCheckout) { // the merge was made again
			c.github.AddPull("acme/widgets", githubtest.Pull{Number: 7, HeadBranch: "feature", HeadSHA: c.commits["feature"], Base: "main", Merge: c.commits["merge-of-ours"]})
			c.git("checkout", "--quiet", "hidden/merge-of-ours")
		}, ""},
		{"pull_request", ownPull, func(c *aCheckout) {
			c.github.AddPull("acme/widgets", githubtest.Pull{Number: 7, HeadRepo: "mallory/widgets", HeadBranch: "x", HeadSHA: c.commits["pr"], Base: "main", Merge: c.commits["merge"]})
			c.git("checkout", "--quiet", "hidden/merge")
		}, notOurs},
		{"pull_request", ownPull, pr, notOurs},
		{"pull_request", `{`, feature, "Rollout cannot tell whose changes the event is about"},
		{"pull_request", forkPull, pr, ""}, // there are no secrets
		{"pull_request", forkPull, dirty, ""},
		{"pull_request_review", forkPull, pr, ""},
	} {
		t.Run(tc.event, func(t *testing.T) {
			t.Parallel()
			c := newCheckout(t, of)
			c.about(tc.event, tc.payload)
			tc.with(c)
			if tc.wants != "" {
				c.refused(tc.wants)
				return
			}
			c.runs()
		})
	}
}

// Results say which commit was compared with, whatever the checkout says of itself; tasks have the
// paths that they have in the repository, and messages too.
func TestCheckedFilesAreCalledWhatTheyAre(t *testing.T) {
	of := newHistory(t)
	c := newCheckout(t, of)
	c.about("issue_comment", onDefault)
	c.write(t, map[string]string{".git/HEAD": c.commits["pr"] + "\n"})
	c.runs()
	tree, err := result.ReadTree(filepath.Join(c.dir, "jobs/j"))
	stepMust(t, err)
	if got := tree.Plan.Tasks[0].Path; got != "evals/one" || tree.Plan.Commit == nil || *tree.Plan.Commit != c.commits["main"] {
		t.Errorf("the task is at %q of %v, want %s", got, tree.Plan.Commit, c.commits["main"])
	}

	c = newCheckout(t, of)
	c.write(t, map[string]string{"evals/broken/task.toml": "version = 1.0 =\n", "evals/broken/instruction.md": "x\n", "job.yaml": "agents: [{name: a, execute: 'true'}]\ndatasets: [{path: evals}]\nnonsense: 1\nenvironment: {type: fake}\n"})
	c.commit("wrong")
	c.github.Mirror(t, "acme/widgets", c.dir)
	c.env["GITHUB_SHA"] = c.commits["wrong"]
	c.about("issue_comment", onDefault)
	if code := c.main(t, "action"); code != command.ExitUsage || !strings.Contains(c.stderr.String(), "file=job.yaml,line=3") || strings.Contains(c.stderr.String(), "rollout-checked") {
		t.Errorf("exit code %d, and the file is not named as it is", code)
	}
}

// The token of a run may see nothing, and the API may not answer.
func TestNothingRunsUntilGitHubConfirmsTheCommit(t *testing.T) {
	of := newHistory(t)
	c := newCheckout(t, of)
	c.about("pull_request_target", forkPull)
	access := githubtest.Workflow()
	access.Contents = githubtest.None
	c.github.AddToken(githubtest.WriteToken, access)
	c.refused("give the job the permission contents: read")

	c = newCheckout(t, of)
	c.about("issue_comment", onDefault)
	c.env["GITHUB_REF"] = "refs/pull/7/merge"
	c.env["GITHUB_SHA"] = c.commits["merge"]
	c.git("checkout", "--quiet", "hidden/merge")
	c.refused("evals/one/tests/test.sh differs", "it was compared with commit "+c.commits["main"][:7])
}

// A large repository's trees are listed in parts.
func TestTreesThatGitHubCutsAreListedOneByOne(t *testing.T) {
	of := newHistory(t)
	c := newCheckout(t, of)
	c.about("issue_comment", onDefault)
	c.github.TreeLimit = 5
	c.runs()
	c = newCheckout(t, of)
	c.about("issue_comment", onDefault)
	c.github.TreeLimit = 5
	strangers(c)
	c.refused("evals/one/tests/test.sh differs")
}

// A registry on disk names directories next to it, which are compared, too. It cannot name
// repositories of this machine.
func TestRegistriesOnDiskAreChecked(t *testing.T) {
	t.Parallel()
	of := newHistory(t)
	of.write(t, map[string]string{
		"lists/registry.json": `[{"name": "d", "version": "1", "tasks": [{"name": "one", "path": "../evals/one"}]},
			{"name": "local", "version": "1", "tasks": [{"name": "one", "git_url": "../repo", "git_commit_id": "HEAD", "path": "evals/one"}]}]`,
		"registry.yaml": "name: j\nagents: [{name: a, execute: 'true'}]\ndatasets: [{name: d, format: rollout, registry: {path: lists/registry.json}}]\nenvironment: {type: fake}\n",
	})
	of.commit("registry")
	start := func() *aCheckout {
		c := newCheckout(t, of)
		c.env["INPUT_JOB"], c.env["GITHUB_SHA"] = "registry.yaml", c.commits["registry"]
		c.about("issue_comment", onDefault)
		return c
	}
	start().runs()
	c := start()
	strangers(c)
	c.refused("evals/one/tests/test.sh differs")
	c = start()
	c.env["INPUT_SET"] = "datasets.0.name=local"
	if code := c.main(t, "action"); code != command.ExitUsage || !strings.Contains(c.stderr.String(), "is a directory of this machine") {
		t.Errorf("exit code %d, and a repository of this machine is taken", code)
	}
	c.nothingRan()
}

// What was fetched earlier may have been put there by anybody.
func TestTheCacheOfOthersIsNotUsed(t *testing.T) {
	t.Parallel()
	scene := newRegistryScene(t)
	id := scene.repo.Commit("main", gittest.Tasks("tasks/one"))
	of := newHistory(t)
	of.write(t, map[string]string{
		"registry.json": registryOf(scene.git.URL+"/tasks.git", id, "one"),
		"registry.yaml": "name: j\nagents: [{name: a, execute: 'true'}]\ndatasets: [{name: bench, registry: {path: registry.json}}]\nenvironment: {type: fake}\n",
	})
	of.commit("registry")
	for event, cached := range map[string]bool{"push": true, "issue_comment": false} {
		c := newCheckout(t, of)
		c.env["INPUT_JOB"], c.env["GITHUB_SHA"] = "registry.yaml", c.commits["registry"]
		c.env["XDG_CACHE_HOME"] = t.TempDir()
		c.about(event, onDefault)
		c.main(t, "action")
		if _, err := os.Stat(filepath.Join(c.dir, "jobs/j/result.json")); err != nil {
			t.Errorf("%s: %v", event, err)
		}
		if found, err := os.ReadDir(c.env["XDG_CACHE_HOME"]); err != nil || len(found) > 0 != cached {
			t.Errorf("%s: the cache has %v, %v", event, found, err)
		}
	}
}
