package trial_test

import (
	"context"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
)

// harbor holds the options of a task made for Harbor.
var harbor = task.Options{Format: task.FormatHarbor}

func TestTasksMadeForHarbor(t *testing.T) {
	tell(t, []tale{
		{
			name: "the exit code of a verifier does not count",
			story: story{
				options: harbor, agent: script("true"),
				files: tests("#!/bin/bash\ntest_status=1\necho 0 >/logs/verifier/reward.txt\nexit \"$test_status\"\n"),
			},
			want: want{reward: "0"},
			verify: func(t *testing.T, o outcome) {
				if code := o.Trial.VerifierExitCode; code == nil || *code != 1 {
					t.Errorf("the exit code is %v", code)
				}
				if o.Trial.TaskFormat != "harbor" {
					t.Errorf("the format is %q", o.Trial.TaskFormat)
				}
			},
		},
		{
			name:  "otherwise it does, and the message knows the way out",
			story: story{agent: script("true"), files: tests(reward1 + "exit 3\n")},
			want:  want{err: result.VerifierFailed, says: []string{"exit code 3", "the reward 1", "set format: harbor for its dataset in the job"}},
			verify: func(t *testing.T, o outcome) {
				if o.Trial.TaskFormat != "" {
					t.Errorf("the format is %q", o.Trial.TaskFormat)
				}
			},
		},
		{
			name:  "without a reward there is none, whatever the exit code",
			pure:  true,
			story: story{options: harbor, agent: script("true"), files: tests("exit 3\n")},
			want:  want{err: result.VerifierRewardMissing, says: []string{"ended with 3 but left no file /logs/verifier/reward.txt (nor reward.json)"}},
		},
		{
			name:  "a verifier runs after an agent that failed",
			story: story{options: harbor, agent: script("echo done >/tmp/answer; exit 9"), files: tests("[ -e /tmp/answer ] && " + reward1)},
			want:  want{err: result.AgentExecutionFailed, reward: "1"},
		},
		{
			name:  "and after one that took too long",
			story: story{options: harbor, agent: script("echo done >/tmp/answer; sleep 600"), toml: "agent.timeout_sec = 2", files: tests("[ -e /tmp/answer ] && " + reward1)},
			want:  want{err: result.AgentExecutionTimeout, reward: "1"},
		},
		{
			name:  "but not after an installation that failed",
			pure:  true,
			story: story{options: harbor, agent: agent.Agent{Install: "exit 1", Execute: "true"}},
			want:  want{err: result.AgentInstallFailed},
		},
		{
			name: "the solution is at /solution and at /oracle, and runs at /solution",
			story: story{
				options: harbor, agent: agent.Agent{Name: agent.Oracle},
				files: map[string]string{
					"solution/solve.sh": "#!/bin/bash\necho \"$0\" >/tmp/answer; cat /solution/part.txt /oracle/part.txt >>/tmp/answer\n",
					"solution/part.txt": "42\n",
					"tests/test.sh":     "[ \"$(cat /tmp/answer)\" = $'/solution/solve.sh\\n42\\n42' ] && " + reward1,
				},
			},
			want: want{reward: "1"},
		},
		{
			name: "files that .harborignore excludes are left out",
			story: story{
				options: harbor, agent: agent.Agent{Name: agent.Oracle},
				files: map[string]string{
					"solution/.harborignore": "notes/\n",
					"solution/notes/a":       "x",
					"solution/solve.sh":      "ls -A /solution >/tmp/answer\n",
					"tests/.harborignore":    "/*.log\n",
					"tests/a.log":            "x",
					"tests/data/a.log":       "x",
					"tests/test.sh":          "[ \"$(cat /tmp/answer; cd /tests; echo *; echo data/* .h*)\" = $'solve.sh\\ndata test.sh\\ndata/a.log .h*' ] && " + reward1,
				},
			},
			want: want{reward: "1"},
		},
		{
			name: "rewards have names",
			story: story{
				options: harbor, agent: script("true"),
				files: tests(`echo 0 >/logs/verifier/reward.txt; echo '{"style": 0.5, "reward": 0.75}' >/logs/verifier/reward.json` + "\n"),
			},
			want: want{reward: "0.75"},
			verify: func(t *testing.T, o outcome) {
				if r := o.Trial.Rewards; len(r) != 2 || r["style"] != 0.5 || r["reward"] != 0.75 {
					t.Errorf("the rewards are %v", r)
				}
			},
		},
		{
			name:  "in every format, but there reward.txt comes first",
			pure:  true,
			story: story{agent: script("true"), files: tests(reward1 + "echo '{\"a\": 0.5}' >/logs/verifier/reward.json\n")},
			want:  want{reward: "1"},
			verify: func(t *testing.T, o outcome) {
				if r := o.Trial.Rewards; len(r) != 1 || r["a"] != 0.5 {
					t.Errorf("the rewards are %v", r)
				}
			},
		},
		{
			name: "a planted reward.json is removed",
			story: story{
				options: harbor, agent: script("mkdir -p /logs/verifier; echo '{\"reward\": 1}' >/logs/verifier/reward.json"),
				files: tests("echo 0 >/logs/verifier/reward.txt\n"),
			},
			want: want{reward: "0"},
		},
		{
			name:  "a reward.json that is a link",
			story: story{options: harbor, agent: script("true"), files: tests("echo '{\"a\":1}' >/tmp/r; ln -s /tmp/r /logs/verifier/reward.json\n")},
			want:  want{err: result.VerifierRewardInvalid, says: []string{"reward.json could not be read", "symbolic link"}},
		},
		{
			name: "canary lines are for training, not for agents; everybody may write to the log directories",
			story: story{
				options: harbor, agent: script(`cat "$ROLLOUT_TASK_INSTRUCTION"; echo kept >/logs/artifacts/out.txt`),
				files: map[string]string{"instruction.md": "<!-- canary GUID 1 -->\n\nDo it.\n"},
			},
			want: want{reward: "1"},
			verify: func(t *testing.T, o outcome) {
				if got := o.file(t, "command/stdout.txt"); got != "Do it.\n" {
					t.Errorf("the agent was told %q", got)
				}
				if got := o.file(t, "logs/artifacts/out.txt"); got != "kept\n" {
					t.Errorf("it kept %q", got)
				}
			},
		},
		{
			name:  "scripts are run by what their first line names",
			needs: "other interpreters",
			story: story{
				options: harbor, agent: agent.Agent{Name: agent.Oracle},
				files: map[string]string{
					"solution/solve.sh": "#!/bin/sh\n[ -z \"$BASH_VERSION\" ] && echo sh >/tmp/answer\n",
					"tests/test.sh":     "#!/bin/cat /tests/one\n",
					"tests/one":         "shown\n",
				},
			},
			want: want{err: result.VerifierRewardMissing},
			verify: func(t *testing.T, o outcome) {
				if got := o.file(t, "logs/verifier/stdout.txt"); got != "shown\n#!/bin/cat /tests/one\n" {
					t.Errorf("cat was to run the tests, but printed %q", got)
				}
			},
		},
	})
}

func TestHarborTasksHaveNoDefaultLimits(t *testing.T) {
	t.Parallel()
	var got environment.Limits
	s := story{options: harbor, agent: script("true"), toml: "environment.memory = \"1G\"", hooks: seeCreate(func(o environment.CreateOptions) { got = o.Limits })}
	fakePlace.run(t, s).check(t, want{reward: "1"})
	if want := (environment.Limits{Memory: 1 << 30}); got != want {
		t.Errorf("the limits are %+v, want %+v", got, want)
	}
}

// Variables of the host that a task asks for are passed only if the job says so, and hidden.
func TestVariablesOfTheHost(t *testing.T) {
	const key = "sk-live-ABCdef0123456789"
	options := task.Options{PassEnv: []string{"KEY"}, Getenv: func(name string) (string, bool) {
		return map[string]string{"KEY": key, "OTHER": "theirs"}[name], name == "KEY" || name == "OTHER"
	}}
	toml := "environment.env.EVERY = \"every ${KEY}\"\nverifier.env.JUDGE = \"${KEY}\"\nverifier.env.EVERY = \"verifier\"\nsolution.env = {WAY = \"short\", OURS = \"task\"}\n"
	everywhere(t, func(t *testing.T, p place) {
		s := story{
			options: options, toml: toml, secrets: []string{key},
			agent: agent.Agent{Name: agent.Oracle},
			env:   map[string]string{"OURS": "job"},
			files: map[string]string{
				"solution/solve.sh": `echo "$EVERY|$JUDGE|$WAY|$OURS|$OTHER|$ROLLOUT_TASK_INSTRUCTION"; [ "${#EVERY}" = 30 ]` + "\n",
				"tests/test.sh":     `echo "$EVERY|$JUDGE|$WAY"; [ "${#JUDGE}" = 24 ] && ` + reward1,
			},
		}
		o := p.run(t, s)
		o.check(t, want{reward: "1"})
		if got := o.file(t, "command/stdout.txt"); got != "every ***||short|job||/tmp/instruction.md\n" {
			t.Errorf("the solution saw %q", got)
		}
		if got := o.file(t, "logs/verifier/stdout.txt"); got != "verifier|***|\n" {
			t.Errorf("the verifier saw %q", got)
		}
		for name, text := range o.files(t) {
			if strings.Contains(text, key) {
				t.Errorf("the key is in %s", name)
			}
		}
	})
	t.Run("what is not passed makes the task invalid", func(t *testing.T) {
		t.Parallel()
		s := story{options: options, toml: "verifier.env.A = \"${OTHER}\"", agent: script("true")}
		o := fakePlace.run(t, s)
		o.check(t, want{err: result.TaskInvalid, says: []string{`"verifier.env.A"`, "OTHER", "environment.pass_env: [OTHER]"}})
		if strings.Contains(o.Trial.Error.Message, "theirs") {
			t.Error("the value is in the message")
		}
	})
	t.Run("what only the solution lacks is the oracle's matter", func(t *testing.T) {
		t.Parallel()
		s := story{options: options, toml: "solution.env.A = \"${OTHER}\"", agent: script("true"), files: map[string]string{"solution/solve.sh": "true\n"}}
		fakePlace.run(t, s).check(t, want{reward: "1"})
		s.agent = agent.Agent{Name: agent.Oracle}
		fakePlace.run(t, s).check(t, want{err: result.TaskInvalid, says: []string{"the oracle cannot run the task", `"solution.env.A"`, "OTHER"}})
	})
}

// seeCreate returns hooks that pass the options of new environments to see.
func seeCreate(see func(environment.CreateOptions)) hooks {
	return hooks{before: func(_ context.Context, c call) error {
		if c.op == "create" {
			see(c.create)
		}
		return nil
	}}
}

func TestOracleErrorOfListedTaskNamesTasksFormat(t *testing.T) {
	t.Parallel()
	s := story{agent: script("true"), files: tests(reward1 + "exit 3\n")}
	sc := fakePlace.newScene(t, s)
	sc.dataset = config.TasksDataset
	sc.run(s, s.task(t, fakePlace), 1).check(t, want{err: result.VerifierFailed, says: []string{"set tasks_format: harbor in the job"}})
}
