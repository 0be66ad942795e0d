package trial_test

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
)

// entering returns a task whose image has this script as its ENTRYPOINT, and more lines in its
// Dockerfile.
func entering(script string, more ...string) map[string]string {
	return with(dockerfile("FROM {{image}}\nCOPY nonce entry.sh /\nENTRYPOINT [\"bash\", \"/entry.sh\"]\n"+strings.Join(more, "")),
		"environment/entry.sh", script)
}

// The same task gets the same reward in every place that runs ENTRYPOINTs.
func TestEntrypoints(t *testing.T) {
	inPlaces(t, realPlaces, func(t *testing.T, p place) {
		// It prepares files, and starts a service that agent and verifier use.
		const prepares = `sleep 0.3; mkdir -p /world; cp "$GIVEN" /world/instruction; echo $((6*7)) >/world/answer
(while :; do if [ -e /world/question ]; then mv /world/question /world/reply.new; mv /world/reply.new /world/reply; fi; sleep 0.02; done) &
exec "$@"
`
		const ask = `ask() { echo "$1" >/world/question.new; mv /world/question.new /world/question; until [ -e /world/reply ]; do sleep 0.02; done; cat /world/reply; rm /world/reply; }; `
		for _, tc := range []struct {
			name   string
			story  story
			want   want
			slow   bool
			verify func(t *testing.T, o outcome)
		}{
			{
				name: "a world that the ENTRYPOINT prepares",
				story: story{
					files: with(entering(prepares, "ENV GIVEN=/tmp/instruction.md\n"), "tests/test.sh", ask+`[ "$(cat /world/answer) $(ask test)" = "42 test" ] && `+reward1),
					agent: agent.Agent{Install: "cat /world/answer", Execute: ask + "cat /world/instruction; ask agent"},
				},
				want: want{reward: "1"},
				verify: func(t *testing.T, o outcome) {
					if got := o.file(t, "setup/stdout.txt") + o.file(t, "command/stdout.txt"); got != "42\nDo it.\nagent\n" {
						t.Errorf("the agent saw %q", got)
					}
				},
			},
			{
				name: "its service outlives the agent's timeout",
				story: story{
					files: with(entering(prepares, "ENV GIVEN=/tmp/instruction.md\n"), "tests/test.sh", ask+`[ "$(ask test)" = test ] && `+reward1),
					toml:  "agent.timeout_sec = 1\n",
					agent: script("sleep 300"),
					job:   func(job *config.Job) { job.Verifier.OnAgentFailure = config.RunVerifier },
				},
				want: want{err: result.AgentExecutionTimeout, reward: "1"},
			},
			{
				name: "the agent begins when the image's HEALTHCHECK has succeeded",
				story: story{
					files: entering("until [ -e /go ]; do sleep 0.02; done; touch /ready; exec \"$@\"\n",
						"HEALTHCHECK CMD echo x >>/checks; [ $(wc -l </checks) -lt 3 ] || touch /go; test -e /ready\n"),
					agent: script("test -e /ready"),
				},
				want: want{reward: "1"},
			},
			{
				name: "an image that is not healthy makes no trial",
				story: story{
					files: entering("exec \"$@\"\n", "HEALTHCHECK --interval=100ms --retries=2 CMD echo no luck; exit 4\n"),
					agent: script("true"),
				},
				want: want{err: result.EnvironmentStartFailed, says: []string{"the image's HEALTHCHECK ended with exit code 4"}, detail: []string{"no luck\n"}},
			},
			{
				name: "a HEALTHCHECK is not waited for longer than a build",
				story: story{
					files: entering("exec \"$@\"\n", "HEALTHCHECK CMD exit 4\n"), toml: "environment.build_timeout_sec = 15\n",
					agent: script("true"),
				},
				want: want{err: result.EnvironmentStartFailed, says: []string{"HEALTHCHECK did not succeed within 15 seconds", "environment.build_timeout_sec"}},
				slow: true,
			},
			{
				name: "an ENTRYPOINT that never runs its arguments is warned of",
				story: story{
					files: entering("until [ -e /end ]; do sleep 0.02; done\n"),
					agent: script("true"),
				},
				want: want{reward: "1"},
				slow: true,
				verify: func(t *testing.T, o outcome) {
					contains(t, "warnings", strings.Join(o.Trial.Warnings, "\n"), "ENTRYPOINT did not run the command", `exec "$@"`, "HEALTHCHECK")
				},
			},
			{
				name:  "an ENTRYPOINT that exits while the agent works",
				story: story{files: entering("\"$@\" & until [ -e /end ]; do sleep 0.02; done; exit 7\n"), agent: script("touch /end; sleep 300")},
				want:  want{err: result.EnvironmentLost, says: []string{"exit code 7"}},
			},
			{
				name: "on an agent's layer it is run again",
				story: story{
					files: with(entering("echo x >>/runs; exec \"$@\"\n", "HEALTHCHECK CMD test -e /runs\n"), "tests/test.sh", "until [ $(wc -l </runs) -ge 2 ]; do sleep 0.02; done; "+reward1),
					agent: agent.Agent{Name: "scripted", Install: "true", Execute: "cat /runs", CacheInstall: new(true)},
				},
				want: want{reward: "1"},
			},
		} {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				if tc.slow && testing.Short() {
					t.Skip("it takes long")
				}
				o := p.run(t, tc.story)
				t.Cleanup(func() { forgetIn(t, p, o) })
				o.check(t, tc.want)
				if tc.verify != nil {
					tc.verify(t, o)
				}
			})
		}
	})
}
