package trial_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
)

// fresh is verifier: {environment: fresh} with artifacts.
func fresh(artifacts ...string) func(*config.Job) {
	return func(job *config.Job) {
		job.Verifier.Environment, job.Artifacts = config.VerifierFresh, artifacts
	}
}

// Tests in another environment than the agent's see the artifacts, and nothing else of it.
func TestTestsInAnotherEnvironment(t *testing.T) {
	hasVerifier := func(t *testing.T, o outcome) {
		t.Helper()
		e := o.Trial.Environment
		if e.Verifier == nil || e.Verifier.ID == "" || e.Verifier.ID == e.ID || e.Verifier.Image == "" {
			t.Errorf("the environments are %+v and %+v", e, e.Verifier)
		}
		if len(o.left) > 0 {
			t.Errorf("left: %+v", o.left)
		}
	}
	tell(t, []tale{
		{
			name: "the outcome is carried over, and nothing else",
			story: story{
				options: harbor, toml: "artifacts = [\"/app/out\"]\nverifier.environment_mode = \"separate\"",
				agent: script(`mkdir -p /app/out/deep; echo 42 >/app/out/deep/answer; chmod 700 /app/out/deep/answer; ln -s deep/answer /app/out/link
					echo x >/app/other; echo y >/tmp/other; echo said >/logs/agent/said.txt; echo made >/logs/artifacts/made.txt; echo 1 >/logs/verifier/reward.txt`),
				files: tests(`[ "$(cat /app/out/link)" = 42 ] && [ -x /app/out/deep/answer ] && [ "$(cat /logs/artifacts/made.txt)" = made ] || exit 1
					[ ! -e /app/other ] && [ ! -e /tmp/other ] && [ ! -e /logs/agent/said.txt ] && [ ! -e /logs/verifier/reward.txt ] || exit 2
					echo 0.75 >/logs/verifier/reward.txt; echo seen` + "\n"),
			},
			want: want{reward: "0.75"},
			verify: func(t *testing.T, o outcome) {
				hasVerifier(t, o)
				for name, want := range map[string]string{
					"logs/agent/said.txt": "said", "logs/verifier/reward.txt": "0.75", "artifacts/app/out/deep/answer": "42", result.VerifierDir + "/" + result.StdoutFile: "seen",
				} {
					if got, err := os.ReadFile(filepath.Join(o.dir, name)); err != nil || strings.TrimSpace(string(got)) != want {
						t.Errorf("%s: %q, %v", name, got, err)
					}
				}
			},
		},
		{
			name: "a job asks for a fresh environment for every task",
			story: story{
				job: fresh("/app"), agent: script("mkdir /app; echo 42 >/app/answer; echo 42 >/tmp/answer"),
				files: tests("[ \"$(cat /app/answer)\" = 42 ] && [ ! -e /tmp/answer ] && " + reward1),
			},
			want: want{reward: "1"}, verify: hasVerifier,
		},
		{
			name: "and so may a task in a word",
			story: story{
				toml: "[verifier]\nenvironment = \"fresh\"\nartifacts = [\"/app/answer\"]", agent: script("mkdir /app; echo 42 >/app/answer; echo >/app/more"),
				files: tests("[ \"$(cat /app/answer)\" = 42 ] && [ ! -e /app/more ] && " + reward1),
			},
			want: want{reward: "1"}, verify: hasVerifier,
		},
		{
			name: "a part of the outcome is no outcome",
			story: story{
				job: fresh("/app"), agent: script("mkdir /app; echo 42 >/app/answer; truncate -s 2G /app/large"),
				files: tests(reward1),
			},
			needs: "kernel",
			want:  want{err: result.AgentExecutionFailed, says: []string{"/app could not be carried over whole"}},
			verify: func(t *testing.T, o outcome) {
				if e := o.Trial.Environment; e.Verifier != nil || len(o.left) > 0 {
					t.Errorf("the environments: %+v; left: %+v", e, o.left)
				}
			},
		},
		{
			name:  "GPUs are refused where environments have none",
			pure:  true,
			story: story{agent: script("true"), toml: "environment.gpus = 2\nenvironment.gpu_types = [\"H100\"]\n"},
			want:  want{err: result.EnvironmentResourceAllocationFailed, says: []string{"the task needs 2 GPUs, and environments of the provider fake have none"}},
		},
		{
			name:  "without artifacts the tests could only fail",
			pure:  true,
			story: story{job: fresh(), agent: script("true")},
			want:  want{err: result.TaskInvalid, says: []string{"nothing is carried over", "artifacts: [/app]"}},
		},
		{
			name: "the tests' environment has variables, a directory and a user",
			story: story{
				options: harbor, agent: script("[ \"$SIDE\" = agent ] && echo 42 >/logs/artifacts/answer"),
				toml: "[environment]\ndocker_image = \"{{image}}\"\nenv = {SIDE = \"agent\"}\n[verifier]\nenv = {WANT = \"42\"}\n" +
					"[verifier.environment]\nworkdir = \"/usr\"\nenv = {SIDE = \"tests\"}\n",
				files: tests("[ \"$SIDE$PWD\" = tests/usr ] && [ \"$(cat /logs/artifacts/answer)\" = $WANT ] && " + reward1),
			},
			want: want{reward: "1"}, verify: hasVerifier,
		},
		{
			name: "state is collected before the artifacts; a command that fails is a warning",
			story: story{
				options: harbor, toml: "artifacts = [\"/state\"]\nverifier.environment_mode = \"separate\"\n" +
					"[[verifier.collect]]\ncommand = \"mkdir /state; cp /tmp/answer /state\"\n[[verifier.collect]]\ncommand = \"echo odd >&2; exit 3\"\n",
				agent: script("echo 42 >/tmp/answer"),
				files: tests("[ \"$(cat /state/answer)\" = 42 ] && " + reward1),
			},
			want: want{reward: "1"},
			verify: func(t *testing.T, o outcome) {
				if w := strings.Join(o.Trial.Warnings, "\n"); !strings.Contains(w, `verifier.collect: "echo odd >&2; exit 3" ended with exit code 3: odd`) {
					t.Errorf("the warnings are %s", w)
				}
			},
		},
		{
			name:  "state is collected once, also if nothing is carried over",
			pure:  true,
			story: story{agent: script("true"), toml: "[verifier]\nenvironment = \"fresh\"\n[[verifier.collect]]\ncommand = \"exit 3\"\n"},
			want:  want{reward: "1"},
			verify: func(t *testing.T, o outcome) {
				if w := strings.Join(o.Trial.Warnings, "\n"); strings.Count(w, "verifier.collect") != 1 {
					t.Errorf("the warnings are %s", w)
				}
			},
		},
		{
			name: "tests run after an agent that failed, as elsewhere",
			story: story{
				options: harbor, toml: "verifier.environment_mode = \"separate\"", agent: script("echo 42 >/logs/artifacts/answer; exit 9"),
				files: tests("[ \"$(cat /logs/artifacts/answer)\" = 42 ] && " + reward1),
			},
			want: want{err: result.AgentExecutionFailed, reward: "1"}, verify: hasVerifier,
		},
		{
			name: "an agent that planted programs and left processes has no influence",
			story: story{
				job: fresh("/app"),
				agent: script(`mkdir /app; echo wrong >/app/answer
					for dir in /bin /usr/bin /usr/local/bin; do printf '#!/bin/sh\nexit 0\n' >$dir/grep; chmod +x $dir/grep; done
					(while sleep 0.1; do mkdir -p /logs/verifier; echo 1 >/logs/verifier/reward.txt; done) >/dev/null 2>&1 &`),
				files: tests("grep -q right /app/answer && " + reward1 + "[ -e /logs/verifier/reward.txt ] || echo 0 >/logs/verifier/reward.txt\n"),
			},
			needs: "kernel",
			want:  want{reward: "0"}, verify: hasVerifier,
		},
		{
			name: "the agent's environment is kept, not that of the tests",
			story: story{
				leaves: true, agent: script("mkdir /app; echo 42 >/app/answer"), files: tests("echo 0 >/logs/verifier/reward.txt\n"),
				job: func(job *config.Job) {
					fresh("/app")(job)
					job.Environment.PreserveEnv = config.PreserveOnFailure
				},
			},
			want: want{reward: "0"},
			verify: func(t *testing.T, o outcome) {
				if e := o.Trial.Environment; !e.Preserved || len(o.left) != 1 || o.left[0].ID != e.ID || !o.left[0].Kept {
					t.Errorf("preserved: %t; left: %+v; the agent's is %s", e.Preserved, o.left, e.ID)
				}
			},
		},
		{
			name: "and removed if the trial passes",
			story: story{
				agent: script("mkdir /app; echo 42 >/app/answer"),
				job: func(job *config.Job) {
					fresh("/app")(job)
					job.Environment.PreserveEnv = config.PreserveOnFailure
				},
			},
			want: want{reward: "1"}, verify: hasVerifier,
		},
		{
			name:  "the oracle",
			story: story{job: fresh("/app"), agent: agent.Agent{Name: agent.Oracle}, files: map[string]string{"solution/solve.sh": "mkdir /app; echo 42 >/app/answer\n", "tests/test.sh": "[ -e /app/answer ] && " + reward1}},
			want:  want{reward: "1"}, verify: hasVerifier,
		},
	})
}

// An image of tests/Dockerfile has the tests, and solutions are not in it.
func TestTestsOfAnImage(t *testing.T) {
	inPlaces(t, realPlaces, func(t *testing.T, p place) {
		o := p.run(t, story{
			options: harbor, toml: "environment.docker_image = \"{{image}}\"\nverifier.environment_mode = \"separate\"\nartifacts = [\"/app\"]", agent: script("mkdir /app; echo 42 >/app/answer"),
			files: map[string]string{
				"tests/Dockerfile": "FROM {{image}}\nCOPY check.sh /tests/test.sh\nRUN echo 42 >/wanted\n",
				"tests/check.sh":   "#!/bin/bash\ncmp /wanted /app/answer && " + reward1,
				"tests/test.sh":    "echo 0 >/logs/verifier/reward.txt\n", // which the image does not have
			},
		})
		o.check(t, want{reward: "1"})
	})
}

// A trial whose tests' environment cannot begin has no reward, and leaves nothing.
func TestNoEnvironmentForTheTests(t *testing.T) {
	inPlaces(t, []place{fakePlace}, func(t *testing.T, p place) {
		o := p.run(t, story{
			options: harbor, agent: script("true"),
			toml: "environment.docker_image = \"{{image}}\"\n[verifier.environment]\ndocker_image = \"missing:1\"\n",
		})
		o.check(t, want{err: result.EnvironmentImagePullFailed})
		if len(o.left) > 0 {
			t.Errorf("left: %+v", o.left)
		}
	})
}

// A cancelled trial ends whichever environment it is in.
func TestCancelWhileTestsRunElsewhere(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		o := p.run(t, story{
			ctx: ctx, job: fresh("/app"), agent: script("mkdir /app"), files: tests("sleep 600\n"),
			emit: func(e event.Event) {
				if e.Kind == event.PhaseStarted && e.Phase == event.Verifier {
					time.AfterFunc(time.Second, cancel) // in the middle of the move, or of the tests
				}
			},
		})
		o.check(t, want{err: result.Cancelled})
		if len(o.left) > 0 {
			t.Errorf("left: %+v", o.left)
		}
	})
}
