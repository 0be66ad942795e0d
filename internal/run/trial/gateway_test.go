package trial_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api/anthropic"
	"github.com/org/rollout-action/internal/model/api/chat"
	"github.com/org/rollout-action/internal/model/gateway"
	"github.com/org/rollout-action/internal/model/scripted"
)

// realKey is the key of the model in these tests. No environment, file or header of an answer may
// contain it.
const realKey = "sk-the-real-key-8471"

// asking is a bash function that asks the model once, without any program but bash: it prints the
// answer's status and body.
const asking = `ask() { # TEXT
	local at=${OPENAI_BASE_URL#http://} body='{"model":"any","messages":[{"role":"user","content":"'"$1"'"}]}'
	exec 7<>"/dev/tcp/${at%%[:/]*}/$(port "$at")" || return
	printf 'POST /v1/chat/completions HTTP/1.0\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s' "$OPENAI_API_KEY" "${#body}" "$body" >&7
	cat <&7
	exec 7>&-
}
port() { local p=${1#*:}; echo "${p%%/*}"; }
`

// upstream is a scripted model that records its requests.
type upstream struct {
	script *scripted.Model
	mu     sync.Mutex
	keys   []string
}

func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	u.mu.Lock()
	u.keys = append(u.keys, r.Header.Get("Authorization"))
	u.mu.Unlock()
	return u.script.RoundTrip(r)
}

// modelStory returns a story whose agent has a model that answers by a script.
func modelStory(t *testing.T, execute string, budget agent.Budget, answers ...scripted.Answer) (story, *upstream) {
	t.Helper()
	script := scripted.Script{Answers: answers, Repeat: true}
	if err := script.Check(); err != nil {
		t.Fatal(err)
	}
	u := &upstream{script: scripted.New(script)}
	price := &config.Price{Input: 1, Output: 10}
	m, err := gateway.New(gateway.Config{
		Name: "small", API: chat.Name, Upstream: "the-small-one", Key: realKey, Transport: u,
		Cost: config.Model{Price: price}.Cost,
	})
	if err != nil {
		t.Fatal(err)
	}
	return story{
		agent:   agent.Agent{Model: "small", Execute: asking + execute, Budget: budget},
		models:  map[string]*gateway.Model{"small": m},
		secrets: []string{realKey},
		toml:    "environment.network = \"none\"\n",
	}, u
}

var oneAnswer = scripted.Answer{Text: "Forty-two.", Usage: scripted.Usage{Input: 1000, Cached: 10, Output: 100, Reasoning: 7}}

// inRealPlaces runs a test in places whose environments have a separate loopback device.
func inRealPlaces(t *testing.T, test func(t *testing.T, p place)) {
	t.Helper()
	inPlaces(t, realPlaces, test)
}

func TestAnAgentWithoutANetworkReachesItsModel(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		s, u := modelStory(t, `env >/logs/agent/env.txt; cat /proc/*/environ /proc/*/cmdline 2>/dev/null >/logs/agent/processes.txt
ask "what is it?" | tee /logs/agent/answer.txt`, agent.Budget{}, oneAnswer)
		s.env = map[string]string{"OPENAI_API_KEY": "of the agent", "OTHER": "kept"}
		o := p.run(t, s)
		o.check(t, want{reward: "1"})
		answer := readLog(t, o, "agent/answer.txt")
		contains(t, "answer", answer, "200 OK", "Forty-two.", "the-small-one")
		contains(t, "variables", readLog(t, o, "agent/env.txt"), "ROLLOUT_MODEL_API=openai-chat", "ROLLOUT_MODEL_NAME=the-small-one", "OTHER=kept")
		if len(u.keys) != 1 || u.keys[0] != "Bearer "+realKey {
			t.Errorf("the provider got the keys %q", u.keys)
		}
		nowhere(t, o.dir, realKey)
		if text, err := json.Marshal(o.Trial); err != nil || strings.Contains(string(text), realKey) {
			t.Errorf("%v: the result has the key: %s", err, text)
		}
		use := o.Trial.Usage
		if use == nil || use.Turns != 1 || use.Calls != 1 || *use.InputTokens != 1000 || *use.CachedTokens != 10 || *use.OutputTokens != 100 || *use.ReasoningTokens != 7 {
			t.Errorf("usage: %+v", use)
		}
		if cost := o.Trial.Costs.Model; cost != result.Dollars(0.002) {
			t.Errorf("cost: %v", cost)
		}
		lines := strings.Split(strings.TrimSpace(readFile(t, filepath.Join(o.dir, result.TrajectoryFile))), "\n")
		if len(lines) != 1 || !strings.Contains(lines[0], "what is it?") || !strings.Contains(lines[0], "Forty-two.") {
			t.Errorf("trajectory: %q", lines)
		}
		var atif struct {
			Version string `json:"schema_version"`
			ID      string `json:"trajectory_id"`
			Steps   []struct {
				Source  string `json:"source"`
				Message string `json:"message"`
			} `json:"steps"`
		}
		if err := json.Unmarshal([]byte(readFile(t, filepath.Join(o.dir, result.ATIFFile))), &atif); err != nil {
			t.Error(err)
		}
		if atif.Version != "ATIF-v1.8" || atif.ID != "scripted/tests/puzzle__1" || len(atif.Steps) != 2 || atif.Steps[1].Source != "agent" || atif.Steps[1].Message != "Forty-two." {
			t.Errorf("trajectory: %+v", atif)
		}
	})
}

// Agents are told when another server than that of the API's author answers, because it may lack
// parts of the API.
func TestAgentsKnowOfOtherServers(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		for base, other := range map[string]bool{"": false, "https://api.anthropic.com/v1": false, "https://llm.example.com/anthropic": true} {
			s, u := modelStory(t, "env >/logs/agent/env.txt", agent.Budget{}, oneAnswer)
			m, err := gateway.New(gateway.Config{Name: "small", API: anthropic.Name, Upstream: "big", BaseURL: base, Transport: u})
			if err != nil {
				t.Fatal(err)
			}
			s.models = map[string]*gateway.Model{"small": m}
			o := p.run(t, s)
			o.check(t, want{reward: "1"})
			if is := strings.Contains(readLog(t, o, "agent/env.txt"), "ROLLOUT_MODEL_THIRD_PARTY=1\n"); is != other {
				t.Errorf("%q: the agent knows of another server: %t", base, is)
			}
		}
	})
}

// nowhere checks that no file below dir contains a text.
func nowhere(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), text) {
			t.Errorf("%s has the key", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func readLog(t *testing.T, o outcome, name string) string {
	t.Helper()
	return readFile(t, filepath.Join(o.dir, result.LogsDir, filepath.FromSlash(name)))
}

// An agent whose budget is used up did not fail: its work is verified, whatever its exit code. Each
// answer has 1000 tokens of input and 100 of output, and costs $0.002.
func TestEachBudgetEndsTheAgent(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		for stop, one := range map[string]struct {
			budget agent.Budget
			turns  int
		}{
			"max_turns":         {agent.Budget{MaxTurns: 2}, 2},
			"max_input_tokens":  {agent.Budget{MaxInputTokens: 2001}, 3},
			"max_output_tokens": {agent.Budget{MaxOutputTokens: 100}, 1},
			"max_total_tokens":  {agent.Budget{MaxTotalTokens: 2200}, 2},
			"max_cost_usd":      {agent.Budget{MaxCostUSD: new(0.0041)}, 3},
		} {
			t.Run(stop, func(t *testing.T) {
				const calls = 5
				s, u := modelStory(t, fmt.Sprintf(`for ((i = 0; i < %d; i++)); do ask "again"; done >/logs/agent/answers.txt; echo 42 >/tmp/left; exit 3`, calls), one.budget, oneAnswer)
				s.files = map[string]string{"tests/test.sh": "cat /tmp/left && echo 1 >/logs/verifier/reward.txt\n"}
				o := p.run(t, s)
				o.check(t, want{reward: "1"})
				if tr := o.Trial; tr.StopCondition != stop || !tr.IsTruncated || tr.Usage.Turns != int64(one.turns) || tr.Usage.Refused != int64(calls-one.turns) || tr.Usage.Failed != 0 {
					t.Errorf("stop %q, truncated %t, usage %+v", tr.StopCondition, tr.IsTruncated, tr.Usage)
				}
				if cost := o.Trial.Costs.Model; cost != result.Dollars(0.002*float64(one.turns)) {
					t.Errorf("cost: %v", cost)
				}
				answers := readLog(t, o, "agent/answers.txt")
				if got, refused := strings.Count(answers, "200 OK"), strings.Count(answers, "400 Bad Request"); got != one.turns || refused != calls-one.turns ||
					strings.Count(answers, "rollout stopped: "+stop) != refused || len(u.keys) != one.turns {
					t.Errorf("%d answers, %d refusals, %d calls of the provider:\n%s", got, refused, len(u.keys), answers)
				}
			})
		}
	})
}

// Tools that the provider runs reach the web although the network is none. A warning names those
// that were removed.
func TestRemovedToolsAreNamed(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		for network, removed := range map[string]bool{"none": true, "public": false} {
			s, u := modelStory(t, `eval "$(declare -f ask | sed 's/{"model"/{"web_search_options":{},"model"/')"; ask go >/dev/null`, agent.Budget{}, oneAnswer)
			s.toml = fmt.Sprintf("environment.network = %q\n", network)
			o := p.run(t, s)
			o.check(t, want{reward: "1"})
			warnings := strings.Join(o.Trial.Warnings, "\n")
			if is := strings.Contains(warnings, `tools that the provider of the model runs were removed from requests, because the network is restricted: ["web_search_options"]`); is != removed || len(u.keys) != 1 {
				t.Errorf("network %s: %d calls, warnings %q", network, len(u.keys), warnings)
			}
		}
	})
}

// The cost that a provider states takes precedence over a price. An unknown cost is null, with a
// warning.
func TestCostOfModelCalls(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		for name, one := range map[string]struct {
			price    *config.Price
			stated   string // of an answer's usage
			cost     string
			unpriced int64
		}{
			"a price":                         {&config.Price{Input: 1, Output: 10}, "", "0.004", 0},
			"a price and the provider's word": {&config.Price{Input: 1, Output: 10}, `,"cost":0.25`, "0.5", 0},
			"the provider's word":             {nil, `,"cost":0.25`, "0.5", 0},
			"neither":                         {nil, "", "null", 2},
		} {
			t.Run(name, func(t *testing.T) {
				s, _ := modelStory(t, `ask one; ask two`, agent.Budget{}, oneAnswer)
				m, err := gateway.New(gateway.Config{
					Name: "small", API: chat.Name, Upstream: "big", BaseURL: "https://llm.example.com/v1", Cost: config.Model{Price: one.price, BaseURL: "https://llm.example.com/v1", Model: "big"}.Cost,
					Transport: roundTrip(func(q *http.Request) (*http.Response, error) {
						body := `{"model":"big","choices":[{"message":{"content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":100` + one.stated + `}}`
						return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: q}, nil
					}),
				})
				if err != nil {
					t.Fatal(err)
				}
				s.models = map[string]*gateway.Model{"small": m}
				o := p.run(t, s)
				o.check(t, want{reward: "1"})
				if cost, err := json.Marshal(o.Trial.Costs.Model); err != nil || string(cost) != one.cost || o.Trial.Usage.Unpriced != one.unpriced {
					t.Errorf("cost %s (%v), usage %+v; want %s and %d calls whose cost is not known", cost, err, o.Trial.Usage, one.cost, one.unpriced)
				}
				if warned := strings.Contains(strings.Join(o.Trial.Warnings, "\n"), "the cost of 2 of 2 calls of the model small is not known: set its price in models"); warned != (one.unpriced > 0) {
					t.Errorf("warnings: %q", o.Trial.Warnings)
				}
			})
		}
	})
}

// A provider that answers as another model is named, and one that states no usage is not said to
// lack a price.
func TestWarningsNameTheirCause(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		for name, one := range map[string]struct{ body, warned, not string }{
			"another model":   {`{"model":"dear","choices":[{"message":{"content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":100}}`, `the model small was asked for as "big", but its provider answered as ["dear"]`, "set its price"},
			"another edition": {`{"model":"big-2026-01-01","choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`, "", "answered as"},
			"no usage":        {`{"model":"big","choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`, "did not state them", "set its price"},
		} {
			t.Run(name, func(t *testing.T) {
				s, _ := modelStory(t, `ask one`, agent.Budget{}, oneAnswer)
				m, err := gateway.New(gateway.Config{
					Name: "small", API: chat.Name, Upstream: "big", BaseURL: "https://llm.example.com/v1",
					Cost: config.Model{Price: &config.Price{Input: 1, Output: 10}, BaseURL: "https://llm.example.com/v1", Model: "big"}.Cost,
					Transport: roundTrip(func(q *http.Request) (*http.Response, error) {
						return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(one.body)), Request: q}, nil
					}),
				})
				if err != nil {
					t.Fatal(err)
				}
				s.models = map[string]*gateway.Model{"small": m}
				o := p.run(t, s)
				o.check(t, want{reward: "1"})
				if warnings := strings.Join(o.Trial.Warnings, "\n"); !strings.Contains(warnings, one.warned) || strings.Contains(warnings, one.not) {
					t.Errorf("warnings: %q", o.Trial.Warnings)
				}
			})
		}
	})
}

// A key that a provider streams in pieces reaches the agent, but it is in no file of the trial.
func TestAKeyInPiecesIsNotRecorded(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		s, _ := modelStory(t, `eval "$(declare -f ask | sed 's/{"model"/{"stream":true,"model"/')"; ask go >/dev/null`, agent.Budget{}, oneAnswer)
		m, err := gateway.New(gateway.Config{Name: "small", API: chat.Name, Upstream: "big", Key: realKey, Transport: roundTrip(func(q *http.Request) (*http.Response, error) {
			var body strings.Builder
			for _, piece := range []string{"it is ", realKey[:5], realKey[5:12], realKey[12:], ", is it?"} {
				fmt.Fprintf(&body, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", piece)
			}
			body.WriteString("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(body.String())), Request: q,
			}, nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		s.models = map[string]*gateway.Model{"small": m}
		o := p.run(t, s)
		o.check(t, want{reward: "1"})
		for _, name := range []string{result.TrajectoryFile, result.ATIFFile} {
			contains(t, name, readFile(t, filepath.Join(o.dir, name)), "it is ***, is it?")
		}
		nowhere(t, o.dir, realKey)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Processes that an agent leaves behind must not spend money when its phase is over.
func TestTheTokenEndsWithTheAgent(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		s, u := modelStory(t, `ask first >/dev/null
( until [ -e /tmp/verified ]; do sleep 0.1; done; ( ask late >/tmp/late.txt ); touch /tmp/asked ) >/dev/null 2>&1 &`, agent.Budget{}, oneAnswer)
		s.files = map[string]string{"tests/test.sh": `touch /tmp/verified; until [ -e /tmp/asked ]; do sleep 0.1; done
cp /tmp/late.txt /logs/verifier/; env >/logs/verifier/env.txt; echo 1 >/logs/verifier/reward.txt`}
		o := p.run(t, s)
		o.check(t, want{reward: "1"})
		if late := readLog(t, o, "verifier/late.txt"); !strings.Contains(late, "409 Conflict") || strings.Contains(late, "Forty") {
			t.Errorf("the late request got %q", late)
		}
		if strings.Contains(readLog(t, o, "verifier/env.txt"), "ROLLOUT_MODEL_KEY") {
			t.Error("the verifier has the token")
		}
		if len(u.keys) != 1 {
			t.Errorf("%d requests reached the provider", len(u.keys))
		}
	})
}

func TestModelFailureNamesItsCause(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		for name, one := range map[string]struct {
			answer scripted.Answer
			want   want
			stop   string
		}{
			"an error of the provider": {
				scripted.Answer{Error: &scripted.Error{Status: 500, Message: "the model is on fire"}}, want{err: result.ModelFailed, says: []string{"small", "500", "on fire", "exit code 3"}}, "",
			},
			"a rate limit that lasts longer than a request may wait": {
				scripted.Answer{Error: &scripted.Error{Status: 429, Message: "slow down", RetryAfter: 300}},
				want{err: result.ModelFailed, says: []string{"small refused because of its rate limit with HTTP status 429: slow down", "exit code 3"}}, "",
			},
			"a conversation that is too long": {
				scripted.Answer{Error: &scripted.Error{Status: 400, Message: "maximum context length is 10 tokens"}}, want{reward: "1"}, "context_length",
			},
		} {
			t.Run(name, func(t *testing.T) {
				s, _ := modelStory(t, `ask go; exit 3`, agent.Budget{}, one.answer)
				o := p.run(t, s)
				o.check(t, one.want)
				if o.Trial.StopCondition != one.stop {
					t.Errorf("stop condition %q", o.Trial.StopCondition)
				}
			})
		}
		t.Run("a rate limit that outlasts the agent", func(t *testing.T) {
			s, _ := modelStory(t, `ask go; exit 3`, agent.Budget{}, scripted.Answer{Error: &scripted.Error{Status: 429, Message: "slow down", RetryAfter: 200}})
			s.toml += "agent.timeout_sec = 10\n" // the gateway waits for longer
			p.run(t, s).check(t, want{err: result.ModelFailed, says: []string{"small refused because of its rate limit with HTTP status 429: slow down (the request has waited for", "timeout of 10 seconds"}})
		})
		t.Run("an agent that ends with 0 all the same", func(t *testing.T) {
			s, _ := modelStory(t, `ask go; exit 0`, agent.Budget{}, scripted.Answer{Error: &scripted.Error{Status: 500, Message: "the model is on fire"}})
			o := p.run(t, s)
			o.check(t, want{reward: "1"})
			contains(t, "warnings", strings.Join(o.Trial.Warnings, "\n"), "the model small failed last with HTTP status 500: the model is on fire; the agent ended with exit code 0 all the same")
			s, _ = modelStory(t, `ask go; exit 0`, agent.Budget{}, scripted.Answer{Error: &scripted.Error{Status: 400, Message: "maximum context length is 10 tokens"}})
			o = p.run(t, s)
			o.check(t, want{reward: "1"})
			if o.Trial.StopCondition != "context_length" || !o.Trial.IsTruncated {
				t.Errorf("stop condition %q, truncated %v", o.Trial.StopCondition, o.Trial.IsTruncated)
			}
		})
		t.Run("answers that break off", func(t *testing.T) {
			s, u := modelStory(t, `eval "$(declare -f ask | sed 's/{"model"/{"stream":true,"model"/')"; for i in {1..30}; do ask go; done; exit 0`, agent.Budget{}, scripted.Answer{Text: "I begin.", Cut: true})
			o := p.run(t, s)
			o.check(t, want{err: result.ModelFailed, says: []string{"ten answers in a row broke off or were empty", "the model small failed last"}})
			if len(u.keys) != 10 || o.Trial.Usage.Refused != 20 {
				t.Errorf("%d calls, usage %+v", len(u.keys), o.Trial.Usage)
			}
		})
		t.Run("no call", func(t *testing.T) {
			s, _ := modelStory(t, `true`, agent.Budget{}, oneAnswer)
			o := p.run(t, s)
			o.check(t, want{reward: "1"})
			contains(t, "warnings", strings.Join(o.Trial.Warnings, "\n"), "made no call")
		})
		t.Run("another API", func(t *testing.T) {
			s, _ := modelStory(t, `eval "$(declare -f ask | sed s,chat/completions,messages,)"; ask go; exit 3`, agent.Budget{}, oneAnswer)
			o := p.run(t, s)
			o.check(t, want{err: result.AgentExecutionFailed})
			contains(t, "warnings", strings.Join(o.Trial.Warnings, "\n"), "/v1/messages", "another API")
		})
		t.Run("nobody there", func(t *testing.T) {
			s, _ := modelStory(t, `ask go; exit 3`, agent.Budget{}, oneAnswer)
			m, err := gateway.New(gateway.Config{Name: "small", API: chat.Name, BaseURL: "http://127.0.0.1:1"})
			if err != nil {
				t.Fatal(err)
			}
			s.models["small"] = m
			p.run(t, s).check(t, want{err: result.ModelUnreachable, says: []string{"could not be reached"}})
		})
	})
}

// The relay, or the port, is not the only way: a provider without a loopback device says so before
// the agent runs.
func TestAProviderThatCannotLeadToAModel(t *testing.T) {
	s, _ := modelStory(t, `true`, agent.Budget{}, oneAnswer)
	s.toml = ""
	fakePlace.run(t, s).check(t, want{err: result.GatewayFailed, says: []string{"fake", "use docker or sandbox"}})
}

// A gateway that fails before the agent begins is Rollout's fault alone, so the trial starts over.
func TestAGatewayThatFailsBeforeTheAgentIsMadeAgain(t *testing.T) {
	listen := func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
	for name, one := range map[string]struct {
		failures int                          // of the first tries
		err      error                        // which they return
		file     func(t *testing.T, d string) // creates a file in the trial's directory
		want     want
		retries  []string
	}{
		"once":              {failures: 1, err: broken(environment.KindExec, false), want: want{reward: "1"}, retries: []string{"trial"}},
		"an unknown error":  {failures: 1, err: errors.New("no idea"), want: want{reward: "1"}, retries: []string{"trial"}},
		"for a moment":      {failures: 1, err: broken(environment.KindStart, true), want: want{reward: "1"}, retries: []string{"listen"}},
		"always":            {failures: 9, err: broken(environment.KindExec, false), want: want{err: result.GatewayFailed, says: []string{"could not get access to the model small", "coughed"}}, retries: []string{"trial"}},
		"no record":         {file: blocked, want: want{err: result.GatewayFailed, says: []string{result.TrajectoryFile}}, retries: []string{"trial"}},
		"agent never began": {failures: -1, want: want{reward: "1"}, retries: []string{"trial"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := modelStory(t, `true`, agent.Budget{}, oneAnswer)
			s.toml = ""
			var listens, agents atomic.Int64
			s.hooks = hooks{
				listen: func(context.Context) (net.Listener, error) {
					if int(listens.Add(1)) <= one.failures {
						return nil, one.err
					}
					return listen()
				},
				before: func(_ context.Context, c call) error {
					if c.op == "exec" && c.script == "execute.sh" && agents.Add(1) == 1 && one.failures < 0 {
						return &environment.Error{Kind: environment.KindLost, Err: fmt.Errorf("%w: gone", environment.ErrNotBegun)}
					}
					return nil
				},
			}
			sc := fakePlace.newScene(t, s)
			if one.file != nil {
				sc.prepare = func(dir string) { one.file(t, dir) }
			}
			o := sc.run(s, s.task(t, fakePlace), 1)
			o.check(t, one.want)
			checkRetries(t, o, one.retries...)
			if began := agents.Load() > 0; began != (one.want.reward != "") {
				t.Errorf("the agent began: %t", began)
			}
			if o.Trial.Error != nil && !o.Trial.Error.Type.Infrastructure() {
				t.Errorf("%s is not the infrastructure's", o.Trial.Error.Type)
			}
			calls := 0
			for _, warning := range o.Trial.Warnings {
				calls += strings.Count(warning, "made no call")
			}
			if want := min(1, int(agents.Load())); calls != want {
				t.Errorf("%d warnings about calls, want %d: %q", calls, want, o.Trial.Warnings)
			}
		})
	}
}

// blocked makes a directory where the record is to be.
func blocked(t *testing.T, dir string) {
	if err := os.Mkdir(filepath.Join(dir, result.TrajectoryFile), 0o755); err != nil {
		t.Error(err)
	}
}

func TestRecordSettingSelectsTheKeptPartsOfCalls(t *testing.T) {
	checked := want{reward: "1"}
	const asked, said = "a private question", "a private answer"
	for kind, kept := range map[model.Record]struct{ lines, contents int }{model.RecordMessages: {2, 1}, model.RecordUsage: {2, 0}, model.RecordNone: {0, 0}} {
		t.Run(string(kind), func(t *testing.T) {
			inRealPlaces(t, func(t *testing.T, p place) {
				s, _ := modelStory(t, `ask "`+asked+`" >/dev/null; ask "`+asked+`" >/dev/null`, agent.Budget{},
					scripted.Answer{Text: said, Usage: scripted.Usage{Input: 10, Output: 5}})
				s.models["small"].Record = kind
				o := p.run(t, s)
				o.check(t, checked)
				if u := o.Trial.Usage; u == nil || u.Turns != 2 || *u.InputTokens != 20 || *u.OutputTokens != 10 {
					t.Errorf("usage: %+v", u)
				}
				text, err := os.ReadFile(filepath.Join(o.dir, result.TrajectoryFile))
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
				if n := strings.Count(string(text), "\n"); n != kept.lines || strings.Count(string(text), `"input_tokens":10`) != kept.lines {
					t.Errorf("the record has %d lines: %s", n, text)
				}
				if strings.Count(string(text), asked) != kept.contents || strings.Contains(string(text), said) != (kept.contents > 0) {
					t.Errorf("the record is %s", text)
				}
				numbers, err := os.ReadFile(filepath.Join(o.dir, result.CallCostsFile))
				if (err == nil) != (kind == model.RecordNone) || kind == model.RecordNone && strings.Count(string(numbers), `"input_tokens":10`) != 2 || strings.Contains(string(numbers), "private") {
					t.Errorf("%s: %v: %s", result.CallCostsFile, err, numbers)
				}
				if _, err := os.Stat(filepath.Join(o.dir, result.ATIFFile)); (err == nil) != (kept.contents > 0) {
					t.Errorf("%s: %v", result.ATIFFile, err)
				}
			})
		})
	}
}

// An agent that uses a different key is refused, and the trial says why it had no model.
func TestRequestsWithAnotherKeyAreWarnings(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		s := judgedStory(t, map[string]scripted.Script{"grader": saying("never")})
		s.agent = agent.Agent{Model: "grader", Execute: `exec 3<>"/dev/tcp/$(echo "$ROLLOUT_MODEL_URL" | sed 's#http://##; s#/v1##; s#:#/#')"
printf 'POST /v1/chat/completions HTTP/1.1\r\nHost: m\r\nConnection: close\r\nAuthorization: Bearer sk-own\r\nContent-Length: 2\r\n\r\n{}' >&3; cat <&3 || true`} // the refusal may end the connection
		o := p.run(t, s)
		o.check(t, want{reward: "1"})
		contains(t, "warnings", strings.Join(o.Trial.Warnings, "\n"), "the agent made no call of its model: 1 request came with another key")
	})
}

// Requests with another key are counted, too, if others were right.
func TestAnAgentWithTwoKeys(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		s := judgedStory(t, map[string]scripted.Script{"grader": saying("yes")})
		s.agent = agent.Agent{Model: "grader", Execute: `for key in sk-own "$ROLLOUT_MODEL_KEY" sk-own; do
exec 3<>"/dev/tcp/$(echo "$ROLLOUT_MODEL_URL" | sed 's#http://##; s#/v1##; s#:#/#')"
printf 'POST /v1/chat/completions HTTP/1.1\r\nHost: m\r\nConnection: close\r\nAuthorization: Bearer %s\r\nContent-Length: 54\r\n\r\n{"model":"x","messages":[{"role":"user","content":1}]}' "$key" >&3; cat <&3; done`}
		o := p.run(t, s)
		warnings := strings.Join(o.Trial.Warnings, "\n")
		contains(t, "warnings", warnings, "2 requests of the agent came with another key than ROLLOUT_MODEL_KEY")
		if strings.Contains(warnings, "made no call") || o.Trial.Usage == nil || o.Trial.Usage.Calls != 1 {
			t.Errorf("%+v: %s", o.Trial.Usage, warnings)
		}
	})
}
