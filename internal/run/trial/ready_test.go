package trial_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
)

func TestUsersAndWorkingDirectories(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		if p.users != nil && !p.users(t) {
			t.Skipf("%s has no users but root here", p.name)
		}
		s := story{
			toml: "agent.user = \"nobody\"\nverifier.user = 1234\nenvironment.workdir = \"/usr\"\nenvironment.healthcheck = {command = \"pwd >/tmp/checked; id -u >>/tmp/checked\"}\n",
			agent: agent.Agent{
				Install: "id -u; pwd",
				Execute: `id -u; pwd; cat /tmp/checked; cat "$ROLLOUT_TASK_INSTRUCTION"; echo mine >/logs/agent/mine.txt && ! touch /rollout/x 2>/dev/null`,
			},
			files: map[string]string{
				"tests/test.sh":     "id -u; pwd; cat /tests/deep/data && " + reward1,
				"tests/deep/data":   "data\n",
				"solution/solve.sh": "true\n",
			},
		}
		puzzle := s.task(t, p)
		// As checked out with the umask 077.
		for name, mode := range map[string]os.FileMode{"tests/test.sh": 0o600, "tests/deep/data": 0o600, "tests/deep": 0o700, "tests": 0o700} {
			if err := os.Chmod(filepath.Join(puzzle.Dir, name), mode); err != nil {
				t.Fatal(err)
			}
		}
		o := p.newScene(t, s).run(s, puzzle, 1)
		o.check(t, want{reward: "1"})
		for name, text := range map[string]string{
			"setup/stdout.txt":         "0\n/usr\n",
			"command/stdout.txt":       "65534\n/usr\n/usr\n0\nDo it.\n",
			"logs/verifier/stdout.txt": "1234\n/usr\ndata\n",
			"logs/agent/mine.txt":      "mine\n",
		} {
			if got := o.file(t, name); got != text {
				t.Errorf("%s: %q, want %q", name, got, text)
			}
		}
	})
}

func TestMissingUsersAndDirectories(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		for _, tc := range []struct {
			name, toml string
			says       []string
		}{
			{"an agent's user", "agent.user = \"no-such-user\"", []string{"agent.user in task.toml, no-such-user", "name a user who is in the image"}},
			{"a verifier's user, in a directory that is there", "verifier.user = \"no-such-user\"\nenvironment.workdir = \"/usr\"", []string{"verifier.user in task.toml, no-such-user"}},
			{"a directory", "environment.workdir = \"/no/such/directory\"", []string{"environment.workdir in task.toml, /no/such/directory", "its user may enter"}},
			{"a directory, for a user who is there", "agent.user = \"root\"\nenvironment.workdir = \"/no/such/directory\"", []string{"/no/such/directory", "root may enter"}},
		} {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				o := p.run(t, story{toml: tc.toml, agent: script("true")})
				o.check(t, want{err: result.TaskInvalid, says: tc.says})
				if o.Trial.Timestamps.AgentExecutionStartedAt != nil {
					t.Error("the agent has begun all the same")
				}
			})
		}
	})
}

func TestHealthchecks(t *testing.T) {
	tell(t, []tale{
		{
			name: "the agent begins when the environment is healthy",
			story: story{
				toml:  "environment.healthcheck = {command = \"echo x >>/tmp/checks; [ $(wc -l </tmp/checks) -ge 3 ]\", interval_sec = 0}\n",
				agent: agent.Agent{Install: "wc -l </tmp/checks", Execute: "true"},
			},
			want: want{reward: "1"},
			verify: func(t *testing.T, o outcome) {
				if got := o.file(t, "setup/stdout.txt"); strings.TrimSpace(got) != "3" {
					t.Errorf("%q checks were made before the installation", got)
				}
			},
		},
		{
			name: "one that is never healthy is given up",
			story: story{
				toml:    "environment.healthcheck = {command = \"echo no luck with $KEY; echo bad >&2; exit 4\", interval_sec = 0, retries = 2}\nenvironment.env.KEY = \"sk-live-ABCdef0123456789\"\n",
				secrets: []string{"sk-live-ABCdef0123456789"},
				agent:   script("true"),
			},
			want: want{
				err:    result.EnvironmentStartFailed,
				says:   []string{"check 2 of environment.healthcheck in task.toml ended with exit code 4", "error.txt"},
				detail: []string{"no luck with ***\n", "bad\n"},
			},
			verify: func(t *testing.T, o outcome) {
				if o.Trial.Timestamps.VerifierStartedAt != nil || !o.has("logs") || len(o.Trial.Retries) > 0 {
					t.Errorf("verified, without logs, or tried again: %+v", o.Trial)
				}
			},
		},
		{
			name:  "one that hangs is ended",
			story: story{toml: "environment.healthcheck = {command = \"sleep 600\", timeout_sec = 0.5, retries = 1}\n", agent: script("true")},
			want:  want{err: result.EnvironmentStartFailed, says: []string{"check 1 of environment.healthcheck in task.toml ended with a timeout of 500ms"}},
		},
		{
			name: "the job's multiplier stretches it",
			pure: true,
			story: story{
				toml: "environment.healthcheck = {command = \"sleep 600\", timeout_sec = 2, retries = 1}\n", agent: script("true"),
				job: func(job *config.Job) { job.TimeoutMultiplier = 0.125 },
			},
			want: want{err: result.EnvironmentStartFailed, says: []string{"a timeout of 250ms"}},
		},
		{
			name:  "much output is cut in the middle",
			pure:  true,
			story: story{toml: "environment.healthcheck = {command = \"printf begin; printf %020000d 7; echo end; exit 1\", retries = 1}\n", agent: script("true")},
			want:  want{err: result.EnvironmentStartFailed, detail: []string{"begin0000", "0000\n[11817 bytes are left out here]\n0000", "0007end\n"}},
			verify: func(t *testing.T, o outcome) {
				if len(o.Detail) > 10_000 {
					t.Errorf("the detail has %d bytes", len(o.Detail))
				}
			},
		},
	})
}

func TestCancelDuringHealthcheck(t *testing.T) {
	for _, tc := range []struct{ name, command string }{
		{"that hangs", "echo begun; sleep 600"},
		{"that fails", "exit 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, p place) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var checks atomic.Int64
				s := story{
					toml:  "environment.healthcheck = {command = \"" + tc.command + "\", interval_sec = 0, start_period_sec = 86400, start_interval_sec = 0}\n",
					agent: script("true"), ctx: ctx,
					hooks: hooks{before: func(_ context.Context, c call) error {
						if c.op == "exec" && (checks.Add(1) == 3 || tc.name == "that hangs") {
							cancel()
						}
						return nil
					}},
				}
				o := p.run(t, s)
				o.check(t, want{err: result.Cancelled, says: []string{"during environment setup"}})
				for _, e := range o.events {
					if e.Phase == event.AgentSetup || e.Phase == event.AgentExecution {
						t.Errorf("%v began", e.Phase)
					}
				}
			})
		})
	}
}
