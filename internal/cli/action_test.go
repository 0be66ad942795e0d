package cli

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/result"
)

func TestInputsAsACommandLine(t *testing.T) {
	for _, c := range []struct {
		name   string
		inputs map[string]string
		want   string // the command line, or with an exclamation mark before it what the error says
	}{
		{"run is what is done by default", map[string]string{"job": "job.yaml"}, "run -- job.yaml"},
		{"defaults of action.yml are no wishes", map[string]string{"command": "plan", "job": "j", "comment": "changes", "baseline": "github:", "allow-fork-checkout": "false"}, "plan -- j"},
		{"lists have a line for each", map[string]string{"job": "j", "task": "\n a*\n\n  b c \n", "set": "x=1\ny=2"}, "run --task=a* --task=b c --set=x=1 --set=y=2 -- j"},
		{"values that look like flags stay values", map[string]string{"job": "-j", "name": "--name"}, "run --name=--name -- -j"},
		{"thresholds of the gate are flags", map[string]string{"command": "report", "paths": "jobs/a", "max-failed-trials": "-1", "on-inconclusive": "fail"}, "report --max-failed-trials=-1 --on-inconclusive=fail -- jobs/a"},
		{"merge takes folders", map[string]string{"command": "merge", "paths": "a\nb", "output": "o", "comment": "always"}, "merge --output=o --comment=always -- a b"},
		{"a shard is not commented on, but knows the baseline, for gate.confirm", map[string]string{"job": "j", "shard": "1/4", "comment": "changes", "baseline": "github:", "junit": "j.xml"}, "run --shard=1/4 --baseline=github: --junit=j.xml -- j"},
		{"a plan has shards", map[string]string{"command": "plan", "job": "j", "shards": "auto", "target": "20m", "timings": "t"}, "plan --shards=auto --target=20m --timings=t -- j"},
		{"tasks are proven", map[string]string{"command": "validate", "job": "evals", "changed": "main", "runs": "5", "junit": "j.xml", "shard": "1/2", "baseline": "github:", "comment": "changes"}, "validate --run --shard=1/2 --runs=5 --changed=main --junit=j.xml -- evals"},
		{"the tasks are required", map[string]string{"command": "validate"}, "!the input job is missing: validate needs a directory of tasks"},
		{"tasks are proven with built-in agents", map[string]string{"command": "validate", "job": "evals", "agent": "mine"}, "!command: validate has no use for the input agent"},
		{"the job is required", nil, "!the input job is missing: run needs a job file"},
		{"so are paths", map[string]string{"command": "merge"}, "!the input paths is missing: merge needs directories"},
		{"an input that means nothing is named", map[string]string{"command": "merge", "paths": "a", "job": "j"}, "!command: merge has no use for the input job (it is for run, plan, validate; it has paths instead"},
		{"with what to do instead", map[string]string{"command": "plan", "job": "j", "shard": "1/4"}, "!command: plan has no use for the input shard (it is for run, validate; each job of the matrix"},
		{"a comment that was asked for is not ignored", map[string]string{"command": "plan", "job": "j", "comment": "always"}, "!command: plan has no use for the input comment"},
		{"one value is one line", map[string]string{"job": "j", "name": "a\nb"}, "!the input name has several lines"},
		{"commands are checked", map[string]string{"command": "ruin", "job": "j"}, "!the input command is \"ruin\": want run, plan, merge, report"},
		{"the permission is yes or no", map[string]string{"job": "j", "allow-fork-checkout": "yes"}, "!the input allow-fork-checkout is \"yes\": want true or false"},
		{"variables have names, and errors do not tell their values", map[string]string{"job": "j", "env": "A_KEY=secret\nsecret"}, "!line 2 of the input env is not of the form NAME=value"},
		{"misspelt inputs are found", map[string]string{"job": "j", "n-attempt": "3", "tasks": "x"}, "!the Action has no such input: n-attempt (did you mean \"n-attempts\"?), tasks (did you mean \"task\"?)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := step(t, c.inputs).app().readInputs()
			var got []string
			if err == nil {
				got, err = s.commandLine()
			}
			want, fails := strings.CutPrefix(c.want, "!")
			switch {
			case fails && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("got %q, %v, want an error with %q", got, err, want)
			case !fails && (err != nil || strings.Join(got, " ") != want):
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
}

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

// aStep is a step of a workflow, in a workspace of its own.
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

func (s *aStep) app() *invocation { return newInvocation(context.Background(), s.world()) }

func (s *aStep) main(t *testing.T, args ...string) int {
	t.Helper()
	code := Main(t.Context(), t.Context(), s.world(), args)
	t.Logf("rollout %s: exit code %d\n%s%s", strings.Join(args, " "), code, &s.stdout, &s.stderr)
	return code
}

// write writes files into the workspace; a task that passes if its agent does nothing, unless told otherwise.
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
	if !s.app().state(stateOwner, &owner) || owner != environment.Self() {
		t.Errorf("the owner in the state is %+v", owner)
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
	s.write(t, map[string]string{"job.yaml": "name: j\nagents: [{name: a, execute: 'test \"$T\" = ghs_token && env > /logs/agent/env', env: {T: '${GITHUB_TOKEN}'}}]\ndatasets: [{path: evals}]\nenvironment: {type: fake}\n"})
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

	s = step(t, map[string]string{"jobs": "job.yaml"})
	if code := s.main(t, "action"); code != 2 || !strings.Contains(s.stderr.String(), "::error title=Rollout::the Action has no such input: jobs (did you mean") {
		t.Errorf("exit code %d, and what is wrong is not said", code)
	}
}

// The files that a step makes as root belong to whom the workspace belongs to; nothing else changes hands.
func TestFilesAreHandedOver(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	const uid, gid = 54321, 54322
	outside := t.TempDir()
	stepMust(t, os.WriteFile(filepath.Join(outside, "theirs"), nil, 0o644))
	s := step(t, nil)
	s.write(t, map[string]string{
		"jobs/j/a/log": "", "reports/deep/junit.xml": "", "other/file": "", "jobs/j/hard": "", "jobs/j/kept": "",
	})
	stepMust(t, os.Link(filepath.Join(s.dir, "jobs/j/hard"), filepath.Join(s.dir, "other/hard")))
	stepMust(t, os.Symlink(outside, filepath.Join(s.dir, "jobs/j/link")))
	stepMust(t, os.Symlink(outside, filepath.Join(s.dir, "away")))
	stepMust(t, os.Lchown(filepath.Join(s.dir, "jobs/j/kept"), 7, 7))
	stepMust(t, os.Chown(s.dir, uid, gid))
	s.app().handOver([]string{"jobs", "reports/deep/junit.xml", "away/theirs", "../x", outside, "missing", "."})
	for path, want := range map[string]uint32{
		"jobs": uid, "jobs/j": uid, "jobs/j/a/log": uid, "jobs/j/link": uid, "reports": uid, "reports/deep": uid, "reports/deep/junit.xml": uid,
		"other": 0, "other/file": 0, "other/hard": 0, "jobs/j/kept": 7, outside: 0, filepath.Join(outside, "theirs"): 0,
	} {
		full := path
		if !filepath.IsAbs(path) {
			full = filepath.Join(s.dir, path)
		}
		info, err := os.Lstat(full)
		stepMust(t, err)
		if got := info.Sys().(*syscall.Stat_t).Uid; got != want {
			t.Errorf("%s belongs to %d, want %d", path, got, want)
		}
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

// action.yml stands at the top of the repository; its inputs are ours.
func TestActionInputsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, in := range actionInputs() {
		if seen[in.name] || len(in.commands) == 0 {
			t.Errorf("%q is there twice, or for no command", in.name)
		}
		seen[in.name] = true
	}
	for _, k := range config.GateKeys() {
		if !seen[k.Flag()] {
			t.Errorf("gate.%s is no input", k.Key)
		}
	}
}

func stepMust(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
