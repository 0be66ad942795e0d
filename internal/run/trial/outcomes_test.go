package trial_test

import (
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
)

// tale is a trial and its expected outcome.
type tale struct {
	name   string
	needs  string // a feature that some places lack: "named pipes" of a kernel
	pure   bool   // it is about the engine alone, so that the quickest place will do
	story  story
	want   want
	verify func(t *testing.T, o outcome) // further checks; may be nil
}

func tell(t *testing.T, tales []tale) {
	everywhere(t, func(t *testing.T, p place) {
		for _, tc := range tales {
			if tc.pure && p.name != places[0].name {
				continue
			}
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				if tc.needs != "" && !p.kernel {
					t.Skipf("%s has no %s", p.name, tc.needs)
				}
				o := p.run(t, tc.story)
				o.check(t, tc.want)
				if tc.verify != nil {
					tc.verify(t, o)
				}
			})
		}
	})
}

// tests returns a task with this test script.
func tests(script string) map[string]string { return map[string]string{"tests/test.sh": script} }

// verifyAnyway is verifier.on_agent_failure: run.
func verifyAnyway(job *config.Job) { job.Verifier.OnAgentFailure = config.RunVerifier }

const reward1 = "echo 1 >/logs/verifier/reward.txt\n"

func TestOutcomes(t *testing.T) {
	tell(t, []tale{
		{
			name: "the reward is what the test script wrote",
			story: story{
				agent: agent.Agent{
					Install: "echo installing; echo careful >&2; echo yes >/tmp/installed",
					Execute: `cat /tmp/installed; echo trouble >&2; cat "$ROLLOUT_TASK_INSTRUCTION" >/logs/agent/seen.txt`,
				},
				files: tests("echo looking; grep -q 'Do it' /logs/agent/seen.txt && echo 0.25 >/logs/verifier/reward.txt; echo odd >&2\n"),
			},
			want: want{reward: "0.25"},
			verify: func(t *testing.T, o outcome) {
				for name, text := range map[string]string{
					"setup/stdout.txt":         "installing\n",
					"setup/stderr.txt":         "careful\n",
					"command/stdout.txt":       "yes\n",
					"command/stderr.txt":       "trouble\n",
					"logs/verifier/stdout.txt": "looking\n",
					"logs/verifier/stderr.txt": "odd\n",
					"logs/verifier/reward.txt": "0.25\n",
					"logs/agent/seen.txt":      "Do it.\n",
				} {
					if got := o.file(t, name); got != text {
						t.Errorf("%s: %q, want %q", name, got, text)
					}
				}
				if o.Trial.Durations.VerifierSec == nil || o.Trial.Durations.AgentSetupSec == nil {
					t.Errorf("a phase that ran has no duration: %+v", o.Trial.Durations)
				}
			},
		},
		{
			name: "the oracle runs the solution",
			story: story{
				agent: agent.Agent{Name: agent.Oracle},
				files: map[string]string{
					"solution/solve.sh": "cat /oracle/part.txt >/tmp/answer\n",
					"solution/part.txt": "42",
					"tests/test.sh":     "[ \"$(cat /tmp/answer)\" = 42 ] && " + reward1,
				},
			},
			want: want{reward: "1"},
			verify: func(t *testing.T, o outcome) {
				if o.Trial.Timestamps.AgentSetupStartedAt != nil {
					t.Error("the oracle has nothing to install")
				}
			},
		},
		{
			name: "nop does nothing, and is verified",
			story: story{
				agent: agent.Agent{Name: agent.Nop},
				files: tests("[ -e /tmp/answer ] || echo 0 >/logs/verifier/reward.txt\n"),
			},
			want: want{reward: "0"},
			verify: func(t *testing.T, o outcome) {
				if o.Trial.Timestamps.AgentExecutionStartedAt != nil || o.has("command") {
					t.Error("nop has executed something")
				}
			},
		},
		{
			name:  "an installation that exits 3 fails the trial, and nothing else is run",
			story: story{agent: agent.Agent{Install: "echo half; exit 3", Execute: "true"}, job: verifyAnyway},
			want:  want{err: result.AgentInstallFailed, says: []string{"exit code 3", "setup/stdout.txt", "setup/stderr.txt"}},
			verify: func(t *testing.T, o outcome) {
				ts := o.Trial.Timestamps
				if ts.AgentExecutionStartedAt != nil || ts.VerifierStartedAt != nil || o.Trial.Durations.VerifierSec != nil {
					t.Errorf("phases that never began must have no times: %+v", ts)
				}
			},
		},
		{
			name:  "an installation that outlasts its timeout",
			story: story{agent: agent.Agent{Install: "sleep 1000", Execute: "true"}, toml: "agent.install_timeout_sec = 1\n"},
			want:  want{err: result.AgentInstallTimeout, says: []string{"timeout of 1 seconds", "agent.install_timeout_sec", "timeout_multiplier"}},
		},
		{
			name:  "an agent that exits 3 is not verified, but its logs are kept",
			story: story{agent: script("echo so far >/logs/agent/log.txt; exit 3")},
			want:  want{err: result.AgentExecutionFailed, says: []string{"exit code 3", "command/stdout.txt", "command/stderr.txt"}},
			verify: func(t *testing.T, o outcome) {
				if o.Trial.Timestamps.VerifierStartedAt != nil {
					t.Error("the verifier has run")
				}
				if got := o.file(t, "logs/agent/log.txt"); got != "so far\n" {
					t.Errorf("log.txt: %q", got)
				}
			},
		},
		{
			name:  "an agent that outlasts its timeout is not verified, but its logs and output are kept",
			story: story{agent: script("echo said; echo so far >/logs/agent/log.txt; sleep 1000"), toml: "agent.timeout_sec = 2.5\n"},
			want:  want{err: result.AgentExecutionTimeout, says: []string{"timeout of 2.5 seconds", "agent.timeout_sec", "timeout_multiplier"}},
			verify: func(t *testing.T, o outcome) {
				if got := o.file(t, "logs/agent/log.txt") + o.file(t, "command/stdout.txt"); got != "so far\nsaid\n" {
					t.Errorf("log.txt and stdout.txt: %q", got)
				}
			},
		},
		{
			name: "a solution that exits 4 is blamed by its name",
			pure: true,
			story: story{
				agent: agent.Agent{Name: agent.Oracle},
				files: map[string]string{"solution/solve.sh": "exit 4\n"},
			},
			want: want{err: result.AgentExecutionFailed, says: []string{"solution/solve.sh", "exit code 4"}},
		},
		{
			name:  "a failed agent is verified if the job says so, and both error and reward are kept",
			story: story{agent: script("touch /tmp/partly; exit 3"), files: tests("[ -e /tmp/partly ] && echo 0.5 >/logs/verifier/reward.txt\n"), job: verifyAnyway},
			want:  want{err: result.AgentExecutionFailed, reward: "0.5", says: []string{"exit code 3"}},
			verify: func(t *testing.T, o outcome) {
				if !o.Trial.Completed() || o.Trial.Failed() {
					t.Error("a trial with a reward is completed")
				}
			},
		},
		{
			name:  "a failed agent whose verifier fails too keeps its own error, and the other is a warning",
			pure:  true,
			story: story{agent: script("exit 3"), files: tests("exit 5\n"), job: verifyAnyway},
			want:  want{err: result.AgentExecutionFailed},
			verify: func(t *testing.T, o outcome) {
				if len(o.Trial.Warnings) != 1 {
					t.Fatalf("warnings: %q", o.Trial.Warnings)
				}
				contains(t, "warning", o.Trial.Warnings[0], "verifier_failed", "exit code 5")
			},
		},
		{
			name:  "a verifier that exits 1 without a reward",
			story: story{agent: script("true"), files: tests("echo wrong; exit 1\n")},
			want:  want{err: result.VerifierFailed, says: []string{"exit code 1", "logs/verifier/stdout.txt"}},
		},
		{
			name:  "a verifier that exits 1 with a reward, which does not count",
			story: story{agent: script("true"), files: tests("echo 0.5 >/logs/verifier/reward.txt; exit 1\n")},
			want:  want{err: result.VerifierFailed, says: []string{"exit code 1", "the reward 0.5", "does not count", "end with exit 0"}},
		},
		{
			name:  "a verifier that outlasts its timeout has no reward, whatever it wrote",
			story: story{agent: script("true"), files: tests(reward1 + "sleep 1000\n"), toml: "verifier.timeout_sec = 1\n"},
			want:  want{err: result.VerifierTimeout, says: []string{"timeout of 1 seconds", "verifier.timeout_sec in task.toml"}},
		},
		{
			name: "a verifier that outlasts the job's ceiling",
			pure: true,
			story: story{
				agent: script("true"), files: tests("sleep 1000\n"),
				job: func(job *config.Job) { job.Verifier.MaxTimeoutSec = 0.5; job.TimeoutMultiplier = 2 },
			},
			want: want{err: result.VerifierTimeout, says: []string{"timeout of 1 seconds", "verifier.max_timeout_sec in the job"}},
		},
		{
			name:  "a test script that writes no reward",
			story: story{agent: script("true"), files: tests("true\n")},
			want:  want{err: result.VerifierRewardMissing, says: []string{"/logs/verifier/reward.txt", "tests/test.sh", "writing a number"}},
		},
		{
			name:  "a test script with Windows line ends",
			story: story{agent: script("true"), files: map[string]string{"tests/test.sh": "true >/tmp/file\r\n"}}, // the fake's shell takes no notice of them
			want:  want{err: result.VerifierRewardMissing, says: []string{"left no file", "tests/test.sh has Windows line ends (CRLF)", "sed -i 's/\\r$//'"}},
		},
		{
			name:  "a test script with a byte order mark",
			story: story{agent: script("true"), files: map[string]string{"tests/test.sh": "\ufeff#!/bin/bash\ntrue\n"}},
			want:  want{err: result.VerifierRewardMissing, says: []string{"tests/test.sh begins with a byte order mark (BOM)"}},
		},
		{
			name:  "a reward that is not a number",
			story: story{agent: script("true"), files: tests("echo nan >/logs/verifier/reward.txt\n")},
			want:  want{err: result.VerifierRewardInvalid, says: []string{`"nan"`, "write one finite number"}},
			verify: func(t *testing.T, o outcome) {
				if got := o.file(t, "logs/verifier/reward.txt"); got != "nan\n" {
					t.Errorf("the file itself must be there to look at: %q", got)
				}
			},
		},
		{
			name:  "a reward that is a link",
			story: story{agent: script("true"), files: tests("echo 1 >/tmp/r; ln -s /tmp/r /logs/verifier/reward.txt\n")},
			want:  want{err: result.VerifierRewardInvalid, says: []string{"symbolic link to /tmp/r", "plain file"}},
		},
		{
			name:  "a reward that is a directory",
			pure:  true,
			story: story{agent: script("true"), files: tests("mkdir /logs/verifier/reward.txt\n")},
			want:  want{err: result.VerifierRewardMissing, says: []string{"left no file"}},
		},
		{
			name:  "without a verifier there is neither reward nor error",
			pure:  true,
			story: story{agent: script("echo hi >/logs/agent/log.txt"), job: func(job *config.Job) { job.Verifier.Disable = true }},
			verify: func(t *testing.T, o outcome) {
				if o.Trial.Timestamps.VerifierStartedAt != nil || o.Trial.Durations.VerifierSec != nil {
					t.Error("the verifier has times although it never ran")
				}
				if o.Trial.Completed() || o.Trial.Failed() {
					t.Error("the trial is neither completed nor failed")
				}
				if !o.has("logs/agent/log.txt") {
					t.Error("the logs are missing")
				}
			},
		},
		{
			name: "the instruction is where the job wants it, in directories that are made",
			story: story{
				agent: script(`[ "$ROLLOUT_TASK_INSTRUCTION" = /work/deep/dir/task.md ] && cat /work/deep/dir/task.md`),
				job:   func(job *config.Job) { job.InstructionPath = "/work/deep/dir/task.md" },
			},
			want: want{reward: "1"},
			verify: func(t *testing.T, o outcome) {
				if got := o.file(t, "command/stdout.txt"); got != "Do it.\n" {
					t.Errorf("the instruction: %q", got)
				}
			},
		},
	})
}
