package telemetry_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/output/telemetry"
)

// collector is a server of OTLP over HTTP.
type collector struct {
	mu       sync.Mutex
	spans    []*otlp.Span
	resource map[string]any
	headers  http.Header
	path     string
	requests int
	largest  int
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = z
	}
	data, err := io.ReadAll(body)
	var request coltrace.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(data, &request)
	}
	if err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, fmt.Sprint("no OTLP: ", err), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	c.headers, c.path, c.largest = r.Header, r.URL.Path, max(c.largest, len(data))
	for _, rs := range request.GetResourceSpans() {
		c.resource = values(rs.GetResource().GetAttributes())
		for _, ss := range rs.GetScopeSpans() {
			c.spans = append(c.spans, ss.GetSpans()...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	answer, _ := proto.Marshal(&coltrace.ExportTraceServiceResponse{})
	_, _ = w.Write(answer)
}

func values(attributes []*common.KeyValue) map[string]any {
	out := map[string]any{}
	for _, a := range attributes {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			out[a.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			out[a.GetKey()] = v.IntValue
		case *common.AnyValue_DoubleValue:
			out[a.GetKey()] = v.DoubleValue
		case *common.AnyValue_BoolValue:
			out[a.GetKey()] = v.BoolValue
		case *common.AnyValue_ArrayValue:
			var list []string
			for _, e := range v.ArrayValue.GetValues() {
				list = append(list, e.GetStringValue())
			}
			out[a.GetKey()] = strings.Join(list, ",")
		}
	}
	return out
}

// start starts a collector, and names it in the environment.
func start(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	return c
}

var began = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

func at(sec int) *time.Time { return new(began.Add(time.Duration(sec) * time.Second)) }

// trial returns a trial that ran its phases, of ten seconds each.
func trial(task string, from int) result.Trial {
	return result.Trial{
		Key: result.Key{Agent: "my-agent", Dataset: "core", Task: task, Attempt: 1}, Reward: new(1.0), Cost: result.Dollars(0.25),
		Timestamps: result.Timestamps{
			StartedAt: *at(from), EnvironmentSetupStartedAt: at(from), EnvironmentSetupEndedAt: at(from + 10), AgentSetupStartedAt: at(from + 10), AgentSetupEndedAt: at(from + 20),
			AgentExecutionStartedAt: at(from + 20), AgentExecutionEndedAt: at(from + 30), VerifierStartedAt: at(from + 30), VerifierEndedAt: at(from + 40), EndedAt: *at(from + 41),
		},
		Usage: &result.Usage{Turns: 2, Calls: 2, InputTokens: new(int64(30)), Requested: "small"},
	}
}

// job writes a job's directory with trials, each with a recording of these calls.
func job(t *testing.T, trials []result.Trial, calls ...model.Turn) string {
	t.Helper()
	dir := t.TempDir()
	plan := result.Plan{JobName: "pr-14", StartedAt: began, Tasks: []result.PlannedTask{}, Metrics: []string{}}
	for _, trial := range trials {
		plan.Trials.Append(trial.Key)
		at := filepath.Join(dir, filepath.FromSlash(trial.Dir()))
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := result.WriteJSON(filepath.Join(at, result.ResultFile), trial); err != nil {
			t.Fatal(err)
		}
		if len(calls) == 0 {
			continue
		}
		var text strings.Builder
		recorder := model.NewRecorder(&text, 1<<20)
		for _, c := range calls {
			if err := recorder.Record(c); err != nil {
				t.Fatal(err)
			}
		}
		text.WriteString(`{"turn": 3, "requested_model": "cut o`) // a kill
		if err := result.WriteFile(filepath.Join(at, result.TrajectoryFile), []byte(text.String())); err != nil {
			t.Fatal(err)
		}
	}
	if err := result.WriteJSON(filepath.Join(dir, result.PlanFile), plan); err != nil {
		t.Fatal(err)
	}
	return dir
}

func say(role, text string) model.Message {
	return model.Message{Role: role, Parts: []model.Part{{Type: model.PartText, Text: text}}}
}

// turns returns two calls of a conversation: one with a tool, and one that fails.
func turns() []model.Turn {
	question := say("user", "What is in the SECRET file?")
	answer := model.Message{Role: "assistant", Parts: []model.Part{{Type: model.PartCall, ID: "c1", Name: "bash", Arguments: json.RawMessage(`{"command":"cat file"}`)}}}
	first := model.Turn{N: 1, Asked: "small", Began: *at(21), FirstByte: *at(22), Ended: *at(25), Cost: new(0.25), Conversation: model.Conversation{Messages: []model.Message{question}}}
	first.Answer.Model, first.Answer.Finish, first.Answer.Message = "small-2026", "tool_calls", answer
	first.Answer.Usage = model.Usage{Input: new(int64(30)), Output: new(int64(5)), Cached: new(int64(10))}
	result := model.Message{Role: "tool", Parts: []model.Part{{Type: model.PartResult, ID: "c1", Text: "the SECRET"}}}
	second := model.Turn{N: 2, Asked: "small", Began: *at(26), Ended: *at(29), Conversation: model.Conversation{Messages: []model.Message{question, answer, result}}, Failure: &model.Failure{Kind: "provider", Status: 529, Message: "overloaded by the SECRET"}}
	return []model.Turn{first, second}
}

func send(t *testing.T, o telemetry.Options) {
	t.Helper()
	if n, err := telemetry.Send(t.Context(), o); err != nil || n == 0 {
		t.Fatalf("%d spans, %v", n, err)
	}
}

func (c *collector) named(t *testing.T, name string) *otlp.Span {
	t.Helper()
	for _, s := range c.spans {
		if s.GetName() == name {
			return s
		}
	}
	t.Fatalf("no span %q among %d", name, len(c.spans))
	return nil
}

func TestSpansOfATrial(t *testing.T) {
	c := start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=widgets")
	t.Setenv("OTEL_SERVICE_NAME", "evals")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=ci")
	send(t, telemetry.Options{Dir: job(t, []result.Trial{trial("hello", 0)}, turns()...), Since: began, APIs: map[string]string{"my-agent": "anthropic"}})

	if c.path != "/v1/traces" || c.headers.Get("X-Team") != "widgets" || c.resource["service.name"] != "evals" || c.resource["deployment.environment.name"] != "ci" {
		t.Errorf("path %s, headers %v, resource %v", c.path, c.headers, c.resource)
	}
	root, agent := c.named(t, "trial core/hello"), c.named(t, "invoke_agent my-agent")
	for _, tc := range []struct {
		name   string
		parent *otlp.Span
		from   int
		to     int
		kind   otlp.Span_SpanKind
		has    map[string]any
	}{
		{"trial core/hello", nil, 0, 41, otlp.Span_SPAN_KIND_INTERNAL, map[string]any{
			"rollout.job.name": "pr-14", "rollout.task.name": "hello", "rollout.reward": 1.0, "rollout.cost_usd": 0.25, "rollout.attempt": int64(1), "gen_ai.agent.name": "my-agent",
		}},
		{"environment_setup", root, 0, 10, otlp.Span_SPAN_KIND_INTERNAL, nil},
		{"agent_setup", root, 10, 20, otlp.Span_SPAN_KIND_INTERNAL, nil},
		{"invoke_agent my-agent", root, 20, 30, otlp.Span_SPAN_KIND_INTERNAL, map[string]any{
			"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "my-agent", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "small", "gen_ai.usage.input_tokens": int64(30), "gen_ai.usage.output_tokens": nil,
		}},
		{"verifier", root, 30, 40, otlp.Span_SPAN_KIND_INTERNAL, nil},
		{"chat small", agent, 21, 25, otlp.Span_SPAN_KIND_CLIENT, map[string]any{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "small", "gen_ai.response.model": "small-2026",
			"gen_ai.response.finish_reasons": "tool_calls", "gen_ai.usage.input_tokens": int64(30), "gen_ai.usage.output_tokens": int64(5),
			"gen_ai.usage.cache_read.input_tokens": int64(10), "gen_ai.usage.cache_creation.input_tokens": nil, "rollout.cost_usd": 0.25, "rollout.time_to_first_byte_sec": 1.0,
		}},
	} {
		s := c.named(t, tc.name)
		if tc.parent != nil && string(s.GetParentSpanId()) != string(tc.parent.GetSpanId()) || tc.parent == nil && len(s.GetParentSpanId()) != 0 {
			t.Errorf("%s has another parent", tc.name)
		}
		if string(s.GetTraceId()) != string(root.GetTraceId()) || s.GetKind() != tc.kind || s.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR {
			t.Errorf("%s: %v", tc.name, s)
		}
		if s.GetStartTimeUnixNano() != uint64(at(tc.from).UnixNano()) || s.GetEndTimeUnixNano() != uint64(at(tc.to).UnixNano()) {
			t.Errorf("%s has other times: %v", tc.name, s)
		}
		got := values(s.GetAttributes())
		for name, want := range tc.has {
			if got[name] != want {
				t.Errorf("%s: %s is %v, want %v", tc.name, name, got[name], want)
			}
		}
	}
	if len(c.spans) != 7 {
		t.Errorf("%d spans, want 7: the line that was cut off is none", len(c.spans))
	}
	failed := c.spans[len(c.spans)-1]
	for _, s := range c.spans {
		if s.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR {
			failed = s
		}
	}
	if got := values(failed.GetAttributes()); failed.GetName() != "chat small" || got["error.type"] != "529" {
		t.Errorf("the failed call: %v", failed)
	}
	for _, s := range c.spans {
		if strings.Contains(s.String(), "SECRET") {
			t.Errorf("contents without having been asked for: %v", s)
		}
	}
}

// A trial of a task with steps has a span for each, with the calls of its agent.
func TestSpansOfSteps(t *testing.T) {
	c := start(t)
	one := trial("hello", 0)
	one.Timestamps.AgentExecutionStartedAt, one.Timestamps.AgentExecutionEndedAt, one.Timestamps.VerifierStartedAt, one.Timestamps.VerifierEndedAt = nil, nil, nil, nil
	one.Reward, one.Error = nil, &result.Error{Type: result.VerifierFailed, Message: "step extend: failed"}
	one.Steps = []result.StepRun{
		{Name: "build", Reward: new(1.0), StartedAt: *at(20), EndedAt: *at(30), SetupSec: new(2.0), AgentExecutionSec: new(5.0), Usage: &result.Usage{InputTokens: new(int64(30))}},
		{Name: "extend", StartedAt: *at(30), EndedAt: *at(40), AgentExecutionSec: new(5.0), Error: &result.Error{Type: result.VerifierFailed, Message: "failed"}},
	}
	dir := job(t, []result.Trial{one})
	calls := `{"turn": 1, "step": "build", "requested_model": "small", "began_at": "2026-11-20T09:00:23Z", "ended_at": "2026-11-20T09:00:24Z"}
{"turn": 2, "step": "extend", "requested_model": "large", "began_at": "2026-11-20T09:00:31Z", "ended_at": "2026-11-20T09:00:32Z"}
`
	if err := result.WriteFile(filepath.Join(dir, filepath.FromSlash(one.Dir()), result.TrajectoryFile), []byte(calls)); err != nil {
		t.Fatal(err)
	}
	send(t, telemetry.Options{Dir: dir, Since: began})
	build, extend := c.named(t, "step build"), c.named(t, "step extend")
	if got := values(build.GetAttributes()); got["rollout.step"] != "build" || got["rollout.reward"] != 1.0 || build.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR || build.GetStartTimeUnixNano() != uint64(at(20).UnixNano()) {
		t.Errorf("%v", build)
	}
	if extend.GetStatus().GetCode() != otlp.Status_STATUS_CODE_ERROR || c.named(t, "agent_setup").GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR {
		t.Errorf("%v", extend)
	}
	agents := map[string]string{} // the step of an agent's span, by its id
	for _, s := range c.spans {
		if s.GetName() != "invoke_agent my-agent" {
			continue
		}
		agents[string(s.GetSpanId())] = "extend"
		if string(s.GetParentSpanId()) == string(build.GetSpanId()) {
			agents[string(s.GetSpanId())] = "build"
			if s.GetStartTimeUnixNano() != uint64(at(22).UnixNano()) || values(s.GetAttributes())["gen_ai.usage.input_tokens"] != int64(30) {
				t.Errorf("%v", s)
			}
		}
	}
	for name, step := range map[string]string{"chat small": "build", "chat large": "extend"} {
		if got := agents[string(c.named(t, name).GetParentSpanId())]; got != step {
			t.Errorf("%s is of the step %q, want %q", name, got, step)
		}
	}
	if len(c.spans) != 9 {
		t.Errorf("%d spans, want 9", len(c.spans))
	}
}

// judged returns a trial with two judges: one that called its model, and one that failed. The
// second began later.
func judged(t *testing.T) (result.Trial, string) {
	tr := trial("hello", 0)
	tr.Agents = []result.AgentRun{
		{Name: "my-agent", Role: result.RolePolicy, Agent: "my-agent"},
		{
			Name: "quality", Role: result.RoleJudge, Agent: "call", StartedAt: at(40), Sec: new(5.0), Score: new(0.7), Cost: result.Dollars(0.5), Reason: "A SECRET reason",
			Usage: &result.Usage{Requested: "large", InputTokens: new(int64(7))}, Trajectory: "judges/quality/trajectory.jsonl",
		},
		{
			Name: "depth", Role: result.RoleJudge, Agent: "shell", Placement: "fresh", StartedAt: at(200), Sec: new(1.0), Error: &result.Error{Type: result.JudgeFailed, Message: "SECRET"},
			Trajectory: "../../../elsewhere.jsonl",
		},
		{Name: "skipped", Role: result.RoleJudge, Agent: "call", Skipped: true},
	}
	dir := job(t, []result.Trial{tr}, turns()...)
	below := filepath.Join(dir, filepath.FromSlash(tr.Dir()))
	text, err := os.ReadFile(filepath.Join(below, result.TrajectoryFile))
	if err == nil {
		err = os.MkdirAll(filepath.Join(below, "judges", "quality"), 0o755)
	}
	for _, copied := range []string{"judges/quality/trajectory.jsonl", "../../../elsewhere.jsonl"} {
		if err == nil {
			err = os.WriteFile(filepath.Join(below, copied), text, 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return tr, dir
}

func TestSpansOfJudges(t *testing.T) {
	c := start(t)
	_, dir := judged(t)
	apis := map[string]string{"quality": "google"}
	send(t, telemetry.Options{Dir: dir, Since: began, JudgeAPIs: apis})
	root, quality, depth := c.named(t, "trial core/hello"), c.named(t, "invoke_agent quality"), c.named(t, "invoke_agent depth")
	for name, want := range map[string]any{
		"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "quality", "gen_ai.provider.name": "gcp.gemini", "gen_ai.request.model": "large",
		"gen_ai.usage.input_tokens": int64(7), "rollout.role": "judge", "rollout.agent": "call", "rollout.score": 0.7, "rollout.cost_usd": 0.5, "rollout.reason": nil,
	} {
		if got := values(quality.GetAttributes())[name]; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if got := values(depth.GetAttributes()); got["error.type"] != "judge_failed" || got["rollout.placement"] != "fresh" || depth.GetStatus().GetCode() != otlp.Status_STATUS_CODE_ERROR {
		t.Errorf("the judge that failed: %v", depth)
	}
	calls, identifiers := 0, map[string]bool{}
	for _, s := range c.spans {
		if identifiers[string(s.GetSpanId())] {
			t.Errorf("two spans have the identifier of %s", s.GetName())
		}
		identifiers[string(s.GetSpanId())] = true
		if string(s.GetParentSpanId()) == string(quality.GetSpanId()) {
			calls++
		}
		if string(s.GetParentSpanId()) == string(depth.GetSpanId()) {
			t.Errorf("a file outside of the trial was read: %v", s)
		}
		if strings.Contains(s.String(), "SECRET") {
			t.Errorf("contents without having been asked for: %v", s)
		}
	}
	if calls != 2 || string(quality.GetParentSpanId()) != string(root.GetSpanId()) || quality.GetEndTimeUnixNano() != uint64(at(45).UnixNano()) {
		t.Errorf("%d calls, %v", calls, quality)
	}

	c.spans = nil
	send(t, telemetry.Options{Dir: dir, Since: *at(150), Contents: true})
	if len(c.spans) != 2 || c.named(t, "invoke_agent depth") == nil || c.named(t, "trial core/hello") == nil {
		t.Errorf("a resume that ran one judge sent %d spans", len(c.spans))
	}
}

func TestContentsAreSentIfAskedFor(t *testing.T) {
	c := start(t)
	send(t, telemetry.Options{Dir: job(t, []result.Trial{trial("hello", 0)}, turns()...), Since: began, Contents: true})
	var first, second map[string]any
	for _, s := range c.spans {
		if s.GetName() == "chat small" && s.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR {
			second = values(s.GetAttributes())
		} else if s.GetName() == "chat small" {
			first = values(s.GetAttributes())
		}
	}
	const question, call = `{"role":"user","parts":[{"type":"text","content":"What is in the SECRET file?"}]}`, `{"type":"tool_call","id":"c1","name":"bash","arguments":{"command":"cat file"}}`
	if first["gen_ai.input.messages"] != "["+question+"]" || first["gen_ai.output.messages"] != `[{"role":"assistant","parts":[`+call+`],"finish_reason":"tool_calls"}]` {
		t.Errorf("%v", first)
	}
	if got := fmt.Sprint(second["gen_ai.input.messages"]); !json.Valid([]byte(got)) || !strings.HasPrefix(got, "["+question+",") || !strings.Contains(got, `"type":"tool_call_response","id":"c1","response":"the SECRET"`) {
		t.Errorf("%v", second)
	}
}

// TestLongContentsAreBounded: the last messages are kept, and requests stay small.
func TestLongContentsAreBounded(t *testing.T) {
	c := start(t)
	var calls []model.Turn
	var messages []model.Message
	for n := range 12 {
		messages = append(messages, say("user", fmt.Sprintf("%d %s", n, strings.Repeat("x", 60_000))))
		calls = append(calls, model.Turn{N: n + 1, Asked: "small", Began: *at(21), Ended: *at(22), Conversation: model.Conversation{Messages: messages[:n+1]}})
	}
	send(t, telemetry.Options{Dir: job(t, []result.Trial{trial("hello", 0)}, calls...), Since: began, Contents: true})
	longest := 0
	for _, s := range c.spans {
		text, _ := values(s.GetAttributes())["gen_ai.input.messages"].(string)
		if text != "" && !json.Valid([]byte(text)) {
			t.Errorf("no JSON: %.100s", text)
		}
		longest = max(longest, len(text))
	}
	if longest > 300_000 || longest < 200_000 || c.requests < 2 || c.largest > 2<<20 {
		t.Errorf("longest text %d, %d requests, the largest of %d bytes", longest, c.requests, c.largest)
	}
}

func TestEachRunSendsItsOwnTrials(t *testing.T) {
	reused, again := trial("reused", 100), trial("again", 100)
	reused.Reused = &result.Reused{}
	dir := job(t, []result.Trial{trial("earlier", 0), reused, again})
	c := start(t)
	resumed := telemetry.Options{Dir: dir, Since: *at(100)}
	send(t, resumed)
	if len(c.spans) != 5 || c.named(t, "trial core/again") == nil {
		t.Errorf("%d spans", len(c.spans))
	}
	first := c.spans
	c.spans = nil
	send(t, resumed)
	for i, s := range c.spans {
		if string(s.GetSpanId()) != string(first[i].GetSpanId()) || string(s.GetTraceId()) != string(first[i].GetTraceId()) {
			t.Errorf("%s has another identifier when it is sent again", s.GetName())
		}
	}
	c.spans = nil
	send(t, telemetry.Options{Dir: dir, Since: began})
	seen := map[string]bool{}
	for _, s := range c.spans {
		seen[string(s.GetTraceId())] = true
		if seen[string(s.GetSpanId())] {
			t.Errorf("two spans have the identifier of %s", s.GetName())
		}
		seen[string(s.GetSpanId())] = true
	}
	if len(c.spans) != 10 {
		t.Errorf("%d spans", len(c.spans))
	}
}

func TestManySpansTakeFewRequests(t *testing.T) {
	c := start(t)
	var trials []result.Trial
	for i := range 300 {
		trials = append(trials, trial(fmt.Sprintf("t%03d", i), i))
	}
	send(t, telemetry.Options{Dir: job(t, trials), Since: began})
	if len(c.spans) != 1500 || c.requests != 3 {
		t.Errorf("%d spans in %d requests", len(c.spans), c.requests)
	}
}

func TestBadCollectorsAreErrors(t *testing.T) {
	dir := job(t, []result.Trial{trial("hello", 0)})
	for name, handler := range map[string]http.HandlerFunc{
		"it hangs":   func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() },
		"it refuses": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) },
		"it is down": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "later", http.StatusServiceUnavailable) },
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(handler)
			defer server.Close()
			t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", server.URL+"/traces")
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			if n, err := telemetry.Send(ctx, telemetry.Options{Dir: dir, Since: began}); n != 0 || err == nil {
				t.Errorf("%d spans, %v", n, err)
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
		redact := func(s string) string { return strings.ReplaceAll(s, "127.0.0.1", "***") }
		_, err := telemetry.Send(t.Context(), telemetry.Options{Dir: dir, Since: began, Redact: redact})
		if err == nil || strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%v", err)
		}
	})
}

func TestWanted(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, tc := range []struct {
		name             string
		env              map[string]string
		wanted, contents bool
		problem          string
	}{
		{"nothing is set", nil, false, false, ""},
		{"an endpoint", map[string]string{endpoint: "http://c:4318"}, true, false, ""},
		{"an endpoint of traces", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}, true, false, ""},
		{"the SDK is disabled", map[string]string{endpoint: "http://c", "OTEL_SDK_DISABLED": "TRUE"}, false, false, ""},
		{"no traces", map[string]string{endpoint: "http://c", "OTEL_TRACES_EXPORTER": "none"}, false, false, ""},
		{"contents", map[string]string{endpoint: "http://c", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}, true, true, ""},
		{"contents of events alone", map[string]string{endpoint: "http://c", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "EVENT_ONLY"}, true, false, ""},
		{"the only protocol", map[string]string{endpoint: "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, true, false, ""},
		{"another protocol", map[string]string{endpoint: "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false, false, "only http/protobuf"},
		{"that of traces counts", map[string]string{endpoint: "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, true, false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wanted, contents, problem := telemetry.Wanted(func(name string) (string, bool) { v, ok := tc.env[name]; return v, ok })
			if wanted != tc.wanted || contents != tc.contents || !strings.Contains(problem, tc.problem) || problem != "" && tc.problem == "" {
				t.Errorf("%v, %v, %q", wanted, contents, problem)
			}
		})
	}
}
