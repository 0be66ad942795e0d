package trial_test

import (
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/result"
)

// still scores 1 if no process writes to /tmp/grow any more, although one did.
const still = `
before=$(wc -c </tmp/grow) || exit 9
sleep 0.7
[ "$(wc -c </tmp/grow)" = "$before" ] && echo 1 >/logs/verifier/reward.txt || echo 0 >/logs/verifier/reward.txt
`

// grow is a command that writes to /tmp/grow for ever.
const grow = `bash -c 'while :; do echo x >>/tmp/grow; sleep 0.02; done'`

func TestBackgroundProcessesOfAgents(t *testing.T) {
	tell(t, []tale{
		{
			name: "after a timeout nothing of the agent's writes while the verifier looks, however detached it was",
			story: story{
				agent: script(grow + " &\n setsid nohup " + grow + " >/dev/null 2>&1 &\n (env -i setsid " + grow + " >/dev/null 2>&1 &)\n sleep 1000\n"),
				files: tests(still), job: verifyAnyway, toml: "agent.timeout_sec = 5\n",
			},
			want: want{err: result.AgentExecutionTimeout, reward: "1"},
		},
		{
			name: "what a timed-out verifier started is dead too, and what the agent started is not its business",
			story: story{
				agent: script("true"),
				files: tests("setsid nohup " + grow + " >/dev/null 2>&1 &\n sleep 1000\n"), toml: "verifier.timeout_sec = 2\n",
			},
			want: want{err: result.VerifierTimeout},
		},
		{
			name: "a server that the agent left in the background can be reached by the verifier",
			story: story{
				agent: script(`
(while :; do if [ -e /tmp/question ]; then echo "you said $(cat /tmp/question)" >/tmp/answer.new; mv /tmp/answer.new /tmp/answer; rm /tmp/question; fi; sleep 0.02; done) >/dev/null 2>&1 &
echo started`),
				files: tests(`
echo hello >/tmp/question.new; mv /tmp/question.new /tmp/question
until [ -e /tmp/answer ]; do sleep 0.2; done
[ "$(cat /tmp/answer)" = "you said hello" ] && echo 1 >/logs/verifier/reward.txt
`),
			},
			want: want{reward: "1"},
		},
		{
			name:  "a server behind a named pipe answers the verifier",
			needs: "named pipes",
			story: story{
				agent: agent.Agent{Execute: `
mkfifo /tmp/in /tmp/out
setsid nohup bash -c 'while :; do read -r line </tmp/in && echo "you said $line" >/tmp/out; done' >/dev/null 2>&1 &`},
				files: tests(`
echo hello >/tmp/in
read -r answer </tmp/out
[ "$answer" = "you said hello" ] && echo 1 >/logs/verifier/reward.txt
`),
			},
			want: want{reward: "1"},
		},
		{
			name:  "an agent that fails keeps what it started, too",
			story: story{agent: script(grow + " >/dev/null 2>&1 &\n sleep 0.2; exit 3"), files: tests(still), job: verifyAnyway},
			want:  want{err: result.AgentExecutionFailed, reward: "0"},
		},
		{
			name:  "a background process that holds the output open does not hold up the trial",
			story: story{agent: script("echo ready; sleep 1000 &"), files: tests(reward1)},
			want:  want{reward: "1"},
			verify: func(t *testing.T, o outcome) {
				if got := o.file(t, "command/stdout.txt"); got != "ready\n" {
					t.Errorf("stdout.txt: %q", got)
				}
			},
		},
		{
			name:  "a log file that goes on growing does not lose the reward",
			story: story{agent: script("(while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done) >/logs/agent/grow.txt 2>&1 & sleep 0.3")},
			want:  want{reward: "1"},
		},
	})
}
