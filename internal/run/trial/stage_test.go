package trial_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/model/scripted"
)

// inSteps returns the files of a task with steps, whose tests are given in the steps' order.
func inSteps(tests ...string) map[string]string {
	files := map[string]string{"instruction.md": "-", "tests/test.sh": "-"}
	for i, test := range tests {
		dir := "steps/" + stepNames[i]
		files[dir+"/instruction.md"] = "Do " + stepNames[i] + ".\n"
		files[dir+"/tests/test.sh"] = test
	}
	return files
}

var stepNames = []string{"first", "second", "third"}

// adding adds files to others.
func adding(files map[string]string, more ...string) map[string]string {
	for i := 0; i < len(more); i += 2 {
		files[more[i]] = more[i+1]
	}
	return files
}

const (
	twoSteps   = "[[steps]]\nname = \"first\"\n[[steps]]\nname = \"second\"\n"
	threeSteps = twoSteps + "[[steps]]\nname = \"third\"\n"
)

func gives(reward string) string { return "echo " + reward + " >/logs/verifier/reward.txt\n" }

// rewardsOfSteps returns the names and rewards of the steps that ran: "first 1, second -".
func rewardsOfSteps(o outcome) string {
	var all []string
	for _, s := range o.Trial.Steps {
		reward := "-"
		if s.Reward != nil {
			reward = fmt.Sprint(*s.Reward)
		}
		all = append(all, s.Name+" "+reward)
	}
	return strings.Join(all, ", ")
}

func ranSteps(want string) func(*testing.T, outcome) {
	return func(t *testing.T, o outcome) {
		t.Helper()
		if got := rewardsOfSteps(o); got != want {
			t.Errorf("the steps are %q, want %q", got, want)
		}
		if len(o.left) > 0 {
			t.Errorf("left: %+v", o.left)
		}
	}
}

// The steps of a task run one after the other in one environment, each with its instruction, agent
// and tests, and their rewards combine.
func TestSteps(t *testing.T) {
	oracle := agent.Agent{Name: agent.Oracle}
	tell(t, []tale{
		{
			name: "the reward is the mean",
			story: story{
				agent: script(`cat "$ROLLOUT_TASK_INSTRUCTION" >>/tmp/seen; cat "$ROLLOUT_TASK_INSTRUCTION"; cp /tmp/seen /logs/agent/seen.txt`), toml: twoSteps,
				files: inSteps("[ \"$(cat /tmp/seen)\" = 'Do first.' ] && "+gives("1"), "grep -q 'Do first' /tmp/seen && grep -q 'Do second' /tmp/seen && "+gives("0.5")),
			},
			want: want{reward: "0.75"},
			verify: func(t *testing.T, o outcome) {
				ranSteps("first 1, second 0.5")(t, o)
				for name, text := range map[string]string{
					"steps/first/command/stdout.txt": "Do first.\n", "steps/second/command/stdout.txt": "Do second.\n",
					"steps/first/logs/agent/seen.txt": "Do first.\n", "steps/second/logs/verifier/reward.txt": "0.5\n",
				} {
					if got := o.file(t, name); got != text {
						t.Errorf("%s: %q, want %q", name, got, text)
					}
				}
				if o.Trial.Rewards != nil {
					t.Errorf("the rewards are %v", o.Trial.Rewards)
				}
			},
		},
		{
			name: "the reward is that of the last step", pure: true,
			story: story{agent: script("true"), toml: "multi_step_reward_strategy = \"final\"\n" + twoSteps, files: inSteps(gives("1"), gives("0.5"))},
			want:  want{reward: "0.5"}, verify: ranSteps("first 1, second 0.5"),
		},
		{
			name:  "each step has its solution, or that of the task",
			story: story{options: harbor, agent: oracle, toml: twoSteps, files: adding(inSteps("[ -e /tmp/one ] && "+gives("1"), "[ -e /tmp/shared ] && "+gives("1")), "steps/first/solution/solve.sh", "echo >/tmp/one", "solution/solve.sh", "[ -e /tmp/one ] && echo >/tmp/shared")},
			want:  want{reward: "1"}, verify: ranSteps("first 1, second 1"),
		},
		{
			name: "tests of the task and of the step are together, and gone before the next agent",
			story: story{
				agent: script("ls /tests /logs/verifier /logs/agent >/tmp/seen 2>/dev/null; echo x >/logs/agent/x"), toml: twoSteps,
				files: adding(inSteps("[ -e /tests/help ] && [ -e /tests/own ] && "+gives("1"), "-"), "tests/help", "", "steps/first/tests/own", "",
					"tests/test.sh", "! grep -q '[a-z]' /tmp/seen.only 2>/dev/null && ! grep -qE 'help|own|reward|x' /tmp/seen && [ ! -e /tests/own ] && "+gives("1")),
			},
			want: want{reward: "1"}, verify: ranSteps("first 1, second 1"),
		},
		{
			name: "a step's files are put into the working directory, and its setup runs there",
			story: story{
				agent: script("true"), toml: "environment.workdir = \"/tmp\"\n" + twoSteps,
				files: adding(inSteps("[ ! -e /tmp/given ] && "+gives("1"), "[ \"$(cat /tmp/made)\" = seed ] && "+gives("1")),
					"steps/second/workdir/given", "seed\n", "steps/second/workdir/setup.sh", "echo setting up; cp given made"),
			},
			want: want{reward: "1"},
			verify: func(t *testing.T, o outcome) {
				if got := o.file(t, "steps/second/setup/stdout.txt"); got != "setting up\n" {
					t.Errorf("the setup said %q", got)
				}
			},
		},
		{
			name: "a setup that fails after the agent's work ends the trial", pure: true,
			story:  story{agent: script("true"), toml: twoSteps, files: adding(inSteps(gives("1"), gives("1")), "steps/second/workdir/setup.sh", "exit 7")},
			want:   want{err: result.AgentExecutionFailed, says: []string{"step second: steps/second/workdir/setup.sh ended with exit code 7 after the agent's work", "steps/second/setup/stdout.txt"}},
			verify: ranSteps("first 1, second -"),
		},
		{
			name: "in format harbor the steps before count", pure: true,
			story:  story{options: harbor, agent: script("true"), toml: twoSteps, files: adding(inSteps(gives("1"), gives("1")), "steps/second/workdir/setup.sh", "exit 7")},
			want:   want{err: result.AgentExecutionFailed, reward: "1"},
			verify: ranSteps("first 1, second -"),
		},
		{
			name: "a healthcheck of a step is awaited", pure: true,
			story: story{
				agent: script("true"), toml: twoSteps + "healthcheck = {command = \"[ -e /tmp/up ]\", interval_sec = 0.01, retries = 1}\n",
				files: adding(inSteps(gives("1"), gives("1")), "steps/second/workdir/setup.sh", "echo >/tmp/up"),
			},
			want: want{reward: "1"},
		},
		{
			name:  "too low a reward is the end",
			story: story{agent: script("true"), toml: "[[steps]]\nname = \"first\"\nmin_reward = 0.6\n[[steps]]\nname = \"second\"\n", files: inSteps(gives("0.5"), gives("1"))},
			want:  want{reward: "0.5"},
			verify: func(t *testing.T, o outcome) {
				ranSteps("first 0.5")(t, o)
				if got := o.Trial.Steps[0].Unmet; got != "reward is 0.5, and must be at least 0.6" {
					t.Errorf("unmet: %q", got)
				}
			},
		},
		{
			name: "rewards by name have a mean each, and a least one", pure: true,
			story: story{
				options: harbor, agent: script("true"), toml: "[[steps]]\nname = \"first\"\nmin_reward = {a = 1}\n[[steps]]\nname = \"second\"\nmin_reward = {b = 1}\n[[steps]]\nname = \"third\"\n",
				files: inSteps(`echo '{"a": 1, "reward": 1}' >/logs/verifier/reward.json`, `echo '{"a": 0.5}' >/logs/verifier/reward.json`, gives("1")),
			},
			want: want{reward: "0.5"},
			verify: func(t *testing.T, o outcome) {
				ranSteps("first 1, second 0.5")(t, o)
				if got := fmt.Sprint(o.Trial.Rewards); got != "map[a:0.75 reward:0.5]" || o.Trial.Steps[1].Unmet != "there is no b, which must be at least 1" {
					t.Errorf("rewards %s, %+v", got, o.Trial.Steps)
				}
			},
		},
		{
			name: "an agent that fails ends the trial, unless its tests run all the same", pure: true,
			story: story{agent: script("exit 3"), toml: twoSteps, files: inSteps(gives("1"), gives("1"))},
			want:  want{err: result.AgentExecutionFailed, says: []string{"step first: the agent's execute script ended with exit code 3", "steps/first/command/stdout.txt"}}, verify: ranSteps("first -"),
		},
		{
			name: "in format harbor a step that is out of time is verified, and the next one begins",
			story: story{
				options: harbor, agent: script("[ -e /tmp/was ] || { echo >/tmp/was; sleep 1000; }"), toml: "[[steps]]\nname = \"first\"\nagent.timeout_sec = 1\n[[steps]]\nname = \"second\"\n",
				files: inSteps(gives("0"), gives("1")),
			},
			want: want{err: result.AgentExecutionTimeout, reward: "0.5", says: []string{"step first: "}}, verify: ranSteps("first 0, second 1"),
		},
		{
			name: "a step without a reward leaves the trial without one", pure: true,
			story: story{agent: script("true"), toml: twoSteps, files: inSteps(gives("1"), "true")},
			want:  want{err: result.VerifierRewardMissing, says: []string{"step second: "}}, verify: ranSteps("first 1, second -"),
		},
		{
			name: "without a verifier all steps run", pure: true,
			story: story{
				agent: script("true"), toml: "[[steps]]\nname = \"first\"\nmin_reward = 1\n[[steps]]\nname = \"second\"\n", files: inSteps(gives("1"), gives("1")),
				job: func(job *config.Job) { job.Verifier.Disable = true },
			},
			verify: ranSteps("first -, second -"),
		},
		{
			name: "each step keeps its artifacts", pure: true,
			story: story{
				agent: script("echo $RANDOM >>/tmp/all; cp /tmp/all /tmp/own"), toml: "artifacts = [\"/tmp/all\"]\n[[steps]]\nname = \"first\"\n[[steps]]\nname = \"second\"\nartifacts = [\"/tmp/own\"]\n",
				files: inSteps(gives("1"), gives("1")),
			},
			want: want{reward: "1"},
			verify: func(t *testing.T, o outcome) {
				if n, m := strings.Count(o.file(t, "steps/first/artifacts/tmp/all"), "\n"), strings.Count(o.file(t, "steps/second/artifacts/tmp/own"), "\n"); n != 1 || m != 2 {
					t.Errorf("the artifacts have %d and %d lines", n, m)
				}
				if s := o.Trial.Steps; len(s[0].Artifacts) != 1 || len(s[1].Artifacts) != 2 || s[1].Artifacts[1].Path != "steps/second/artifacts/tmp/own" || len(o.Trial.Artifacts) != 2 {
					t.Errorf("the artifacts are %+v", s)
				}
			},
		},
		{
			name: "a step's tests run in an environment apart, and the agent's goes on",
			story: story{
				options: harbor, agent: script("echo x >>/tmp/state; cp /tmp/state /logs/artifacts/state"), toml: "[[steps]]\nname = \"first\"\nverifier.environment_mode = \"separate\"\n[[steps]]\nname = \"second\"\n",
				files: inSteps("[ ! -e /tmp/state ] && [ \"$(wc -l </logs/artifacts/state)\" -eq 1 ] && "+gives("1"), "[ \"$(wc -l </tmp/state)\" -eq 2 ] && "+gives("1")),
			},
			want: want{reward: "1"},
			verify: func(t *testing.T, o outcome) {
				ranSteps("first 1, second 1")(t, o)
				if s := o.Trial.Steps; s[0].Verifier == nil || s[1].Verifier != nil || s[0].Verifier.ID == o.Trial.Environment.ID {
					t.Errorf("the verifiers are %+v", s)
				}
			},
		},
	})
}

// Views name the step that runs, and no step before the first and after the last.
func TestEventsNameTheStep(t *testing.T) {
	t.Parallel()
	var got []string
	s := story{agent: script("true"), toml: twoSteps, files: inSteps(gives("1"), gives("1"))}
	s.emit = func(e event.Event) {
		if e.Kind == event.PhaseStarted {
			line := string(e.Phase)
			if e.Step != nil {
				line += fmt.Sprintf(" %d/%d %s", e.Step.Number, e.Step.Of, e.Step.Name)
			}
			got = append(got, line)
		}
	}
	o := fakePlace.run(t, s)
	ranSteps("first 1, second 1")(t, o)
	want := []string{
		"environment_setup",
		"environment_setup 1/2 first", "agent_execution 1/2 first", "verifier 1/2 first", "collect 1/2 first",
		"environment_setup 2/2 second", "agent_execution 2/2 second", "verifier 2/2 second", "collect 2/2 second",
		"teardown",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// A trial that is cancelled in its second step has no reward, and leaves nothing.
func TestCancelInASecondStep(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		runs := 0
		o := p.run(t, story{
			agent: script("[ -e /tmp/was ] && sleep 1000; echo >/tmp/was"), toml: threeSteps, files: inSteps(gives("1"), gives("1"), gives("1")), ctx: ctx,
			emit: func(e event.Event) {
				if e.Kind == event.PhaseStarted && e.Phase == event.AgentExecution {
					if runs++; runs == 2 {
						cancel()
					}
				}
			},
		})
		o.check(t, want{err: result.Cancelled, says: []string{"step second: the job was cancelled during agent execution"}})
		ranSteps("first 1, second -")(t, o)
	})
}

// A trial that is cancelled between two steps is not one of the first step alone.
func TestCancelBetweenSteps(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o := fakePlace.run(t, story{
		agent: script("true"), toml: twoSteps, files: inSteps(gives("1"), gives("1")), ctx: ctx,
		emit: func(e event.Event) {
			if e.Kind == event.PhaseStarted && e.Phase == event.Collect { // the tests of the first step have ended
				cancel()
			}
		},
	})
	o.check(t, want{err: result.Cancelled, says: []string{"the job was cancelled during agent execution"}})
	ranSteps("first 1")(t, o)
}

// Each step has a session of its model with its whole budget. Tokens, costs and calls are sums, and
// the calls of all steps are one trajectory.
func TestStepsWithAModel(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		s, _ := modelStory(t, `ask "$(cat "$ROLLOUT_TASK_INSTRUCTION" | tr -d '\n')" >/logs/agent/answer.txt; ask more >/logs/agent/more.txt`, agent.Budget{MaxTurns: 1}, oneAnswer)
		s.toml, s.files = s.toml+twoSteps, inSteps(gives("1"), gives("0"))
		o := p.run(t, s)
		o.check(t, want{reward: "0.5"})
		ranSteps("first 1, second 0")(t, o)
		for _, step := range o.Trial.Steps {
			contains(t, "answer", o.file(t, "steps/"+step.Name+"/logs/agent/answer.txt"), "200 OK", "Forty-two.")
			if step.Usage == nil || step.Usage.Turns != 1 || *step.Usage.OutputTokens != 100 || step.Cost != result.Dollars(0.002) || step.StopCondition != "max_turns" {
				t.Errorf("the step %s used %+v, cost %v, stopped by %q", step.Name, step.Usage, step.Cost, step.StopCondition)
			}
		}
		if u := o.Trial.Usage; u == nil || u.Turns != 2 || *u.InputTokens != 2000 || *u.OutputTokens != 200 || o.Trial.Costs.Model != result.Dollars(0.004) {
			t.Errorf("together: %+v, %v", u, o.Trial.Costs.Model)
		}
		var atif struct {
			Steps []struct {
				Message string         `json:"message"`
				Extra   map[string]any `json:"extra"`
			} `json:"steps"`
		}
		if err := json.Unmarshal([]byte(o.file(t, result.ATIFFile)), &atif); err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, s := range atif.Steps {
			said = append(said, s.Message)
		}
		if got := strings.Join(said, "|"); got != "The step first begins.|Do first.|Forty-two.|The step second begins.|Do second.|Forty-two." {
			t.Errorf("the trajectory is %s", got)
		}
	})
}

// Judges see what the agent and the tests printed in all steps.
func TestJudgesSeeAllSteps(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		s := judgedStory(t, map[string]scripted.Script{"grader": saying("```json\n{\"score\": 7, \"reason\": \"It is short.\"}\n```")}, judgeOf(t, judge.Spec{Name: "quality", Agent: judge.Call, Model: "grader"}))
		s.agent = script(`echo "I read: $(cat "$ROLLOUT_TASK_INSTRUCTION")"`)
		s.toml, s.files = twoSteps, inSteps("echo first tested; "+gives("1"), "echo second tested; "+gives("0"))
		o := p.run(t, s)
		ranSteps("first 1, second 0")(t, o)
		contains(t, "what the agent printed", o.file(t, result.JudgeInputsDir+"/transcript.md"), "step first:", "I read: Do first.", "step second:", "I read: Do second.")
		contains(t, "what the tests printed", o.file(t, result.JudgeInputsDir+"/tests-stdout.txt"), "step first:\nfirst tested\n", "step second:\nsecond tested\n")
	})
}

// A judge in a fresh environment has its artifacts as the last step left them.
func TestAFreshJudgeHasTheArtifactsOfTheLastStep(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		j := judgeOf(t, judge.Spec{Name: "quality", Placement: judge.InFresh, Artifacts: []string{"/srv/app"}})
		s := judgedStory(t, map[string]scripted.Script{"grader": {Answers: []scripted.Answer{{Run: "cat /srv/app/state"}, {Text: `{"score": 10, "reason": "ok"}`}}}}, j)
		s.agent.Execute = "mkdir -p /srv/app; echo x >>/srv/app/state"
		s.toml, s.files = twoSteps, inSteps(gives("1"), gives("1"))
		o := p.run(t, s)
		o.check(t, want{reward: "1"})
		contains(t, "the output of the judge", o.file(t, "judges/quality/command/stdout.txt"), "x\nx\n")
	})
}
