package trial_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/model/api/anthropic"
	"github.com/org/rollout-action/internal/model/api/chat"
	"github.com/org/rollout-action/internal/model/api/responses"
	"github.com/org/rollout-action/internal/model/gateway"
	"github.com/org/rollout-action/internal/model/scripted"
	"github.com/org/rollout-action/internal/run/shell"
)

// asked is a scripted model that records the bodies of requests.
type asked struct {
	script *scripted.Model
	mu     sync.Mutex
	bodies []string
}

func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	a.bodies = append(a.bodies, string(body))
	a.mu.Unlock()
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	return a.script.RoundTrip(r)
}

func (a *asked) last() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.bodies) == 0 {
		return ""
	}
	return a.bodies[len(a.bodies)-1]
}

// shellStory returns a story whose agent is Rollout's own loop.
func shellStory(t *testing.T, api model.API, budget agent.Budget, script scripted.Script) (story, *asked) {
	t.Helper()
	script.Rules = slices.Clone(script.Rules) // Check prepares them, and stories share scripts
	if err := script.Check(); err != nil {
		t.Fatal(err)
	}
	a := &asked{script: scripted.New(script)}
	price := &config.Price{Input: 1, Output: 10}
	m, err := gateway.New(gateway.Config{Name: "small", API: api, Upstream: "the-small-one", Key: realKey, Transport: a, Cost: config.Model{Price: price}.Cost})
	if err != nil {
		t.Fatal(err)
	}
	return story{
		agent:   agent.Agent{Preset: presets.Shell, Model: "small", Budget: budget},
		models:  map[string]*gateway.Model{"small": m},
		secrets: []string{realKey},
		toml:    "environment.network = \"none\"\n",
	}, a
}

// The task is solved only by the tool's commands, and only if the second sees the output of the
// first.
var solving = scripted.Script{
	Rules: []scripted.Rule{{Last: "the word is plum", Answers: []scripted.Answer{
		{}, {Text: "Now I write it.", Run: "echo plum >/tmp/answer.txt; echo written >&2; exit 3", Usage: scripted.Usage{Input: 2000, Cached: 900, Output: 30}},
	}}},
	Answers: []scripted.Answer{
		{Reasoning: "Where is it?", Text: "I look at the word.", Run: "printf 'the word is %s' plum", Usage: scripted.Usage{Input: 1000, Output: 20}},
		{Text: "never"},
		{Text: "It is plum.", Usage: scripted.Usage{Input: 3000, Output: 10}},
	},
}

func TestShellSolvesATaskInEachProtocol(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		for _, api := range append([]model.API{model.Scripted}, api.Names()...) {
			t.Run(string(api), func(t *testing.T) {
				s, a := shellStory(t, api, agent.Budget{}, solving)
				s.files = map[string]string{
					"instruction.md": "Write the word to /tmp/answer.txt.\n",
					"tests/test.sh":  "[ \"$(cat /tmp/answer.txt)\" = plum ] && echo 1 >/logs/verifier/reward.txt || echo 0 >/logs/verifier/reward.txt\n",
				}
				s.env = map[string]string{"OWN": "of the agent"}
				o := p.run(t, s)
				o.check(t, want{reward: "1"})
				use := o.Trial.Usage
				if use == nil || use.Turns != 3 || use.Calls != 3 || *use.InputTokens != 6000 || *use.OutputTokens != 60 {
					t.Fatalf("usage: %+v", use)
				}
				if cost := o.Trial.Costs.Model; cost != result.Dollars(0.0066) {
					t.Errorf("cost: %v", cost)
				}
				if o.Trial.StopCondition != "" || o.Trial.IsTruncated || len(o.Trial.Warnings) > 0 {
					t.Errorf("stop %q, truncated %t, warnings %q", o.Trial.StopCondition, o.Trial.IsTruncated, o.Trial.Warnings)
				}
				contains(t, "log", o.file(t, "command/stdout.txt"),
					"# turn 1\nI look at the word.\n$ printf 'the word is %s' plum\n", "the word is plum\n[exit code 0]\n# turn 2\n",
					"written\n[exit code 3]\n", "# turn 3\nIt is plum.\n")
				contains(t, "the last request", a.last(), "Write the word to /tmp/answer.txt.", "the word is plum", "written", "[exit code 3]")
				nowhere(t, o.dir, realKey)
				var atif struct {
					Steps []struct {
						Source string            `json:"source"`
						Calls  []json.RawMessage `json:"tool_calls"`
					} `json:"steps"`
				}
				if err := json.Unmarshal([]byte(o.file(t, result.ATIFFile)), &atif); err != nil {
					t.Error(err)
				}
				calls := 0
				for _, step := range atif.Steps {
					calls += len(step.Calls)
				}
				if calls != 2 {
					t.Errorf("the trajectory has %d calls of tools: %+v", calls, atif.Steps)
				}
			})
		}
	})
}

// Commands have the environment of an execute script, without the gateway's variables.
func TestShellRunsCommandsAsExecuteRuns(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		s, a := shellStory(t, anthropic.Name, agent.Budget{}, scripted.Script{Answers: []scripted.Answer{
			{Run: `pwd; id -un; echo "own=$OWN of=$OF_TASK"; cat "$ROLLOUT_TASK_INSTRUCTION"; env; cat /proc/[0-9]*/environ 2>/dev/null`}, {Text: "done"},
		}})
		s.env = map[string]string{"OWN": "agent"}
		s.toml += "environment.workdir = \"/srv\"\nenvironment.env.OF_TASK = \"task\"\n"
		if p.users(t) {
			s.toml += "agent.user = \"nobody\"\n"
		}
		o := p.run(t, s)
		o.check(t, want{reward: "1"})
		log := o.file(t, "command/stdout.txt")
		contains(t, "log", log, "\n/srv\n", "own=agent of=task", "Do it.")
		if p.users(t) {
			contains(t, "log", log, "\nnobody\n")
		}
		for _, secret := range []string{"ROLLOUT_MODEL", "rollout-", "ANTHROPIC"} {
			if strings.Contains(strings.ReplaceAll(log, "rollout-exec-", ""), secret) {
				t.Errorf("%q is in the environment: %s", secret, log)
			}
		}
		contains(t, "the last request", a.last(), "own=agent")
	})
}

func TestShellEndsWithItsBudget(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		for _, api := range api.Names() {
			t.Run(string(api), func(t *testing.T) {
				s, a := shellStory(t, api, agent.Budget{MaxTurns: 2}, scripted.Script{Repeat: true, Answers: []scripted.Answer{{Run: "echo again"}}})
				o := p.run(t, s)
				o.check(t, want{reward: "1"})
				if tr := o.Trial; tr.StopCondition != "max_turns" || !tr.IsTruncated || tr.Usage.Turns != 2 || tr.Usage.Refused != 1 || len(a.bodies) != 2 {
					t.Errorf("stop %q, truncated %t, %d requests, usage %+v", tr.StopCondition, tr.IsTruncated, len(a.bodies), tr.Usage)
				}
			})
		}
	})
}

func TestShellFailureNamesItsCause(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		for name, one := range map[string]struct {
			answer scripted.Answer
			want   want
			stop   string
		}{
			"an error of the provider": {
				scripted.Answer{Error: &scripted.Error{Status: 400, Message: "the model is on fire"}}, want{err: result.ModelFailed, says: []string{"small", "400", "on fire", "after 1 turns"}}, "",
			},
			"a conversation that is too long": {
				scripted.Answer{Error: &scripted.Error{Status: 400, Message: "maximum context length is 10 tokens"}}, want{reward: "1"}, "context_length",
			},
			"no answer but empty ones": {
				scripted.Answer{Usage: scripted.Usage{Output: 1}}, want{err: result.ModelEmptyResponse, says: []string{"5 answers", "empty"}}, "",
			},
		} {
			t.Run(name, func(t *testing.T) {
				s, _ := shellStory(t, chat.Name, agent.Budget{}, scripted.Script{Repeat: true, Answers: []scripted.Answer{{Run: "echo begin"}, one.answer}})
				o := p.run(t, s)
				o.check(t, one.want)
				if o.Trial.StopCondition != one.stop || o.Trial.IsTruncated != (one.stop != "") {
					t.Errorf("stop condition %q, truncated %t", o.Trial.StopCondition, o.Trial.IsTruncated)
				}
			})
		}
	})
}

// leaving is a command that leaves a process behind, which no other finds: it adds to the file as
// long as it runs.
const leaving = `( ( exec setsid env -i /bin/bash -c 'while :; do echo >>/tmp/alive; sleep 0.05; done' ) >/dev/null 2>&1 & ); until [ -s /tmp/alive ]; do sleep 0.05; done; echo left`

// living is a test.sh whose reward is 1 if that process runs.
const living = `size=$(stat -c %s /tmp/alive); r=0
for i in {1..30}; do sleep 0.1; [ "$(stat -c %s /tmp/alive)" = "$size" ] || { r=1; break; }; done
echo $r >/logs/verifier/reward.txt
`

func TestShellLeavesWhatItStarted(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		s, _ := shellStory(t, chat.Name, agent.Budget{}, scripted.Script{Answers: []scripted.Answer{{Run: leaving}, {Text: "It serves."}}})
		s.files = map[string]string{"tests/test.sh": living}
		p.run(t, s).check(t, want{reward: "1"})
	})
}

// When its time is over, all processes of the agent are dead before the verifier runs, including
// those left by earlier commands.
func TestShellEndsWithItsTime(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		for name, second := range map[string]scripted.Answer{
			"in a command": {Run: "sleep 1000"}, "in the model": {Text: "late", Delay: 1000},
		} {
			t.Run(name, func(t *testing.T) {
				s, _ := shellStory(t, chat.Name, agent.Budget{}, scripted.Script{Answers: []scripted.Answer{{Run: leaving}, second}})
				s.files = map[string]string{"tests/test.sh": living}
				s.toml += "agent.timeout_sec = 15\n"
				s.job = func(j *config.Job) { j.Verifier.OnAgentFailure = config.RunVerifier }
				o := p.run(t, s)
				o.check(t, want{err: result.AgentExecutionTimeout, reward: "0", says: []string{"15 seconds"}})
				contains(t, "log", o.file(t, "command/stdout.txt"), "left\n[exit code 0]\n")
			})
		}
	})
}

// An agent that ends the process by which Rollout ends the others, and then takes too long, is not
// verified.
func TestShellThatCannotBeEndedIsNotVerified(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		s, _ := shellStory(t, chat.Name, agent.Budget{}, scripted.Script{Answers: []scripted.Answer{
			{Run: `for p in /proc/[0-9]*; do p=${p#/proc/}; case $p in 1|$$|$PPID) ;; *) kill -9 $p;; esac; done; echo killed`}, {Text: "late", Delay: 1000},
		}})
		s.toml += "agent.timeout_sec = 15\n"
		s.job = func(j *config.Job) { j.Verifier.OnAgentFailure = config.RunVerifier }
		o := p.run(t, s)
		o.check(t, want{err: result.AgentExecutionTimeout})
		contains(t, "warnings", strings.Join(o.Trial.Warnings, "\n"), "the verifier does not run")
	})
}

func TestShellEndsCommandsThatTakeTooLong(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		s, a := shellStory(t, anthropic.Name, agent.Budget{}, scripted.Script{Answers: []scripted.Answer{
			{Run: leaving},
			{Calls: []scripted.Call{{Name: "bash", Arguments: map[string]any{"command": "echo begun; sleep 1000", "timeout_sec": 1}}}},
			{Run: "echo next"}, {Text: "done"},
		}})
		s.files = map[string]string{"tests/test.sh": living} // the process of an earlier command lives on
		o := p.run(t, s)
		o.check(t, want{reward: "1"})
		contains(t, "the last request", a.last(), "begun\\n[the command was ended after 1 seconds, with all that it had started]", "next\\n[exit code 0]")
	})
}

func TestShellEndsWhenTheJobIsCancelled(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		for name, answer := range map[string]scripted.Answer{"in a command": {Run: "echo; sleep 1000"}, "in the model": {Text: "late", Delay: 1000}} {
			t.Run(name, func(t *testing.T) {
				s, a := shellStory(t, chat.Name, agent.Budget{}, scripted.Script{Answers: []scripted.Answer{answer}})
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				s.ctx = ctx
				go func() {
					for a.last() == "" {
						time.Sleep(10 * time.Millisecond)
					}
					cancel()
				}()
				p.run(t, s).check(t, want{err: result.Cancelled})
			})
		}
	})
}

// Output may be anything, and any amount.
func TestHostileOutputOfShell(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		// Docker 20.10 reads for two seconds after a command has ended, and a busy machine reads
		// slowly.
		s, a := shellStory(t, responses.Name, agent.Budget{}, scripted.Script{Answers: []scripted.Answer{
			{Run: `printf 'a\000b\377\033]0;t\007'; head -c 500000 /dev/zero | tr '\000' x; printf 'the end'`}, {Run: "if"}, {Run: "kill -9 $$"}, {Text: "done"},
		}})
		o := p.run(t, s)
		o.check(t, want{reward: "1"})
		last := a.last()
		if len(last) > 40<<10 || strings.Contains(last, `\u0000`) || !json.Valid([]byte(last)) {
			t.Errorf("the request has %d bytes: %q", len(last), last[:min(len(last), 4000)])
		}
		contains(t, "the last request", last, "bytes are left out here]", "the end\\n[exit code 0]", "syntax error", "[exit code 2]", "[exit code 137]")
	})
}

func TestTheVersionOfThePresetIsThatOfTheLoop(t *testing.T) {
	if p, ok := presets.Get(presets.Shell); !ok || p.Version != shell.Version {
		t.Errorf("the preset has version %q, the loop %q", p.Version, shell.Version)
	}
}

// No loopback device is needed.
func TestShellOnAProviderWithoutAWayToModels(t *testing.T) {
	s, _ := shellStory(t, anthropic.Name, agent.Budget{}, scripted.Script{Answers: []scripted.Answer{{Run: "echo plum >/tmp/answer.txt"}, {Text: "done"}}})
	s.toml = ""
	s.files = map[string]string{"tests/test.sh": "cat /tmp/answer.txt && echo 1 >/logs/verifier/reward.txt\n"}
	fakePlace.run(t, s).check(t, want{reward: "1"})
}
