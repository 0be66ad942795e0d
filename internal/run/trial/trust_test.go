package trial_test

import (
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/result"
)

func TestAgentsCannotGradeThemselves(t *testing.T) {
	plant := "echo 1 >/logs/verifier/reward.txt; "
	tell(t, []tale{
		{
			name:  "a planted reward does not count when the test script writes another",
			pure:  true,
			story: story{agent: script(plant), files: tests("echo 0 >/logs/verifier/reward.txt\n")},
			want:  want{reward: "0"},
		},
		{
			name:  "a planted reward does not count when the test script writes none",
			story: story{agent: script(plant), files: tests("ls /logs/verifier\n")},
			want:  want{err: result.VerifierRewardMissing},
			verify: func(t *testing.T, o outcome) {
				if o.file(t, "logs/verifier/stdout.txt") != "" || o.has("logs/verifier/reward.txt") {
					t.Error("what was planted is still there")
				}
			},
		},
		{
			name:  "a planted reward does not count when nothing is verified",
			pure:  true,
			story: story{agent: script(plant + "exit 3")},
			want:  want{err: result.AgentExecutionFailed},
		},
		{
			name: "planted tests are gone",
			story: story{
				agent: script("mkdir -p /tests/deep; echo 'echo 1 >/logs/verifier/reward.txt' >/tests/test.sh; touch /tests/deep/conftest.py /tests/.hidden"),
				files: tests("[ -e /tests/deep ] || [ -e /tests/.hidden ] || echo 0 >/logs/verifier/reward.txt\n"),
			},
			want: want{reward: "0"},
		},
		{
			name: "links planted at the tests' and the reward's place are replaced, not followed",
			story: story{
				agent: script("mkdir /tmp/a /tmp/b; touch /tmp/a/x /tmp/b/x; ln -s /tmp/a /tests; rm -r /logs/verifier; ln -s /tmp/b /logs/verifier"),
				files: tests("[ ! -L /tests ] && [ ! -L /logs/verifier ] && [ \"$(ls /tmp/a)$(ls /tmp/b)\" = xx ] && " + reward1),
			},
			want: want{reward: "1"},
		},
		{
			name: "a file where the log directory was does not spare an agent its verdict",
			story: story{
				agent: script("rm -r /logs; echo x >/logs"),
				files: tests("echo 0 >/logs/verifier/reward.txt\n"),
			},
			want: want{reward: "0"},
		},
		{
			name: "nor does a link",
			story: story{
				agent: script("mkdir /tmp/else; touch /tmp/else/x; rm -r /logs; ln -s /tmp/else /logs"),
				files: tests("[ \"$(ls /tmp/else)\" = x ] && echo 0 >/logs/verifier/reward.txt\n"),
			},
			want: want{reward: "0"},
		},
		{
			name: "a link to the system's directory is replaced, and the system unharmed",
			story: story{
				agent: script("ln -s /etc /tests"),
				files: tests("[ -e /etc/passwd ] && [ ! -e /etc/test.sh ] && " + reward1),
			},
			want: want{reward: "1"},
		},
		{
			name: "names that look like the reward's directory on disk do not shadow it",
			story: story{
				agent: script(`for d in Verifier VERIFIER 'verifier.' 'verifier '; do mkdir "/logs/$d"; echo 1 >"/logs/$d/reward.txt"; echo 1 >"/logs/$d/REWARD.TXT"; done`),
				files: tests("echo 0 >/logs/verifier/reward.txt\n"),
			},
			want: want{reward: "0"},
		},
		{
			name: "the agent sees neither tests nor solution",
			story: story{
				agent: script("ls -d /tests /oracle /rollout/../tests 2>/dev/null; true"),
				files: map[string]string{"solution/solve.sh": "true\n"},
			},
			want: want{reward: "1"},
			verify: func(t *testing.T, o outcome) {
				if got := o.file(t, "command/stdout.txt"); got != "" {
					t.Errorf("the agent saw %q", got)
				}
			},
		},
		{
			name: "the agent's variables are for its two scripts alone",
			story: story{
				agent: agent.Agent{
					Install: `[ "$TOKEN" = "a b'c" ]`,
					Execute: `[ "$TOKEN" = "a b'c" ] && [ "$ROLLOUT_TASK_INSTRUCTION" = /tmp/instruction.md ]`,
				},
				env:   map[string]string{"TOKEN": "a b'c", "ROLLOUT_TASK_INSTRUCTION": "/elsewhere"},
				files: tests("[ -z \"$TOKEN$ROLLOUT_TASK_INSTRUCTION\" ] && " + reward1),
			},
			want: want{reward: "1"},
		},
		{
			name:  "an agent that removes the logs' directory is verified all the same",
			story: story{agent: script("rm -rf /logs")},
			want:  want{reward: "1"},
		},
	})
}
