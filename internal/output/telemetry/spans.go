package telemetry

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.39.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
)

// writer makes spans of trials.
type writer struct {
	Options
	plan   result.Plan
	tracer trace.Tracer
}

// span records a child span of that in ctx. inside, if not nil, is called with its context. name
// identifies the span in its trace.
func (w *writer) span(ctx context.Context, id trace.TraceID, name, shown string, from, to time.Time, kind trace.SpanKind, attributes []attribute.KeyValue, failed *failure, inside func(context.Context)) {
	if to.Before(from) {
		to = from
	}
	ctx, span := w.tracer.Start(withIDs(ctx, id, name), shown, trace.WithTimestamp(from), trace.WithSpanKind(kind), trace.WithAttributes(attributes...))
	if failed != nil {
		span.SetAttributes(semconv.ErrorTypeKey.String(failed.kind))
		message := ""
		if w.Contents { // it may quote what the agent wrote or what its model answered
			message = failed.message
		}
		span.SetStatus(codes.Error, message)
	}
	if inside != nil {
		inside(ctx)
	}
	span.End(trace.WithTimestamp(to))
}

// failure is the error type and message of a failed span.
type failure struct{ kind, message string }

// trial makes the spans of a trial, in a separate trace.
func (w *writer) trial(ctx context.Context, t result.Trial) {
	id := traceOf(w.plan, t)
	about := []attribute.KeyValue{
		attribute.String("rollout.job.name", w.plan.JobName),
		attribute.String("rollout.dataset.name", t.Dataset),
		attribute.String("rollout.task.name", t.Task),
		attribute.Int("rollout.attempt", t.Attempt),
		semconv.GenAIAgentName(t.Agent),
	}
	root := about
	if w.plan.Commit != nil {
		root = append(root, semconv.VCSRefHeadRevision(*w.plan.Commit))
	}
	if t.Reward != nil {
		root = append(root, attribute.Float64("rollout.reward", *t.Reward))
	}
	if cost, ok := t.Cost.Reported(); ok {
		root = append(root, costs(cost, t.Cost.AtLeast())...)
	}
	if t.StopCondition != "" {
		root = append(root, attribute.String("rollout.stop_condition", t.StopCondition))
	}
	if t.Confirmation {
		root = append(root, attribute.Bool("rollout.confirmation", true))
	}
	var failed *failure
	if t.Error != nil {
		failed = &failure{string(t.Error.Type), t.Error.Message}
	}
	w.span(ctx, id, "trial", "trial "+t.Dataset+"/"+t.Task, t.Timestamps.StartedAt, t.Timestamps.EndedAt, trace.SpanKindInternal, root, failed, func(ctx context.Context) {
		if t.Reused == nil && !t.Timestamps.StartedAt.Before(result.Stamp(w.Since)) { // else an earlier run has sent them
			w.phases(ctx, id, t, failed)
		}
		for _, run := range t.Agents {
			w.judge(ctx, id, t, run)
		}
	})
}

// judge makes the span of a judge that ran, with its calls.
func (w *writer) judge(ctx context.Context, id trace.TraceID, t result.Trial, run result.AgentRun) {
	if run.Role != result.RoleJudge || run.StartedAt == nil || run.StartedAt.Before(result.Stamp(w.Since)) {
		return
	}
	provider := providerOf(w.JudgeAPIs[run.Name])
	attributes := append([]attribute.KeyValue{
		semconv.GenAIOperationNameInvokeAgent, semconv.GenAIAgentName(run.Name), attribute.String("rollout.role", string(run.Role)), attribute.String("rollout.agent", run.Agent),
	}, used(run.Usage, provider)...)
	if run.Placement != "" {
		attributes = append(attributes, attribute.String("rollout.placement", run.Placement))
	}
	if run.Score != nil {
		attributes = append(attributes, attribute.Float64("rollout.score", *run.Score))
	}
	if cost, ok := run.Cost.Reported(); ok {
		attributes = append(attributes, costs(cost, run.Cost.AtLeast())...)
	}
	if run.StopCondition != "" {
		attributes = append(attributes, attribute.String("rollout.stop_condition", run.StopCondition))
	}
	if run.Reason != "" && w.Contents {
		attributes = append(attributes, attribute.String("rollout.reason", run.Reason))
	}
	var failed *failure
	if run.Error != nil {
		failed = &failure{string(run.Error.Type), run.Error.Message}
	}
	end := *run.StartedAt
	if run.Sec != nil {
		end = end.Add(seconds(*run.Sec))
	}
	name := "judge " + run.Name
	w.span(ctx, id, name, "invoke_agent "+run.Name, *run.StartedAt, end, trace.SpanKindInternal, attributes, failed, func(ctx context.Context) {
		if file := filepath.FromSlash(run.Trajectory); filepath.IsLocal(file) {
			w.calls(ctx, id, name+" ", "", filepath.Join(w.Dir, filepath.FromSlash(t.Dir()), file), provider)
		}
	})
}

// phases makes the spans of a trial's phases. The last one that began has the trial's error, if
// there is one.
func (w *writer) phases(ctx context.Context, id trace.TraceID, t result.Trial, failed *failure) {
	type phase struct {
		name       string
		from, till *time.Time
		agent      bool
	}
	at := t.Timestamps
	all := []phase{
		{"environment_setup", at.EnvironmentSetupStartedAt, at.EnvironmentSetupEndedAt, false},
		{"agent_setup", at.AgentSetupStartedAt, at.AgentSetupEndedAt, true},
		{"invoke_agent " + t.Agent, at.AgentExecutionStartedAt, at.AgentExecutionEndedAt, true},
		{"verifier", at.VerifierStartedAt, at.VerifierEndedAt, false},
	}
	last := -1
	for i, p := range all {
		if p.from != nil {
			last = i
		}
	}
	defer w.steps(ctx, id, t)
	for i, p := range all {
		if p.from == nil || p.agent && t.Reverified != nil { // then another job ran the agent
			continue
		}
		to := at.EndedAt
		if p.till != nil {
			to = *p.till
		}
		var of *failure
		if i == last && t.Reward == nil && len(t.Steps) == 0 {
			of = failed
		}
		if i != 2 {
			w.span(ctx, id, p.name, p.name, *p.from, to, trace.SpanKindInternal, nil, of, nil)
			continue
		}
		w.span(ctx, id, "invoke_agent", p.name, *p.from, to, trace.SpanKindInternal, w.agent(t), of, func(ctx context.Context) {
			w.calls(ctx, id, "", "", w.trajectory(t), providerOf(w.APIs[t.Agent]))
		})
	}
}

// trajectory returns the file with the calls of a trial's agent.
func (w *writer) trajectory(t result.Trial) string {
	return filepath.Join(w.Dir, filepath.FromSlash(t.Dir()), result.TrajectoryFile)
}

// steps makes the spans of the steps of a trial, with their agents' calls.
func (w *writer) steps(ctx context.Context, id trace.TraceID, t result.Trial) {
	for _, s := range t.Steps {
		var failed *failure
		if s.Error != nil {
			failed = &failure{string(s.Error.Type), s.Error.Message}
		}
		about := []attribute.KeyValue{attribute.String("rollout.step", s.Name)}
		if s.Reward != nil {
			about = append(about, attribute.Float64("rollout.reward", *s.Reward))
		}
		name := "step " + s.Name
		w.span(ctx, id, name, name, s.StartedAt, s.EndedAt, trace.SpanKindInternal, about, failed, func(ctx context.Context) {
			if t.Reverified != nil || s.AgentExecutionSec == nil {
				return
			}
			from := s.StartedAt
			if s.SetupSec != nil {
				from = from.Add(seconds(*s.SetupSec))
			}
			agent := append([]attribute.KeyValue{semconv.GenAIOperationNameInvokeAgent, semconv.GenAIAgentName(t.Agent)}, used(s.Usage, providerOf(w.APIs[t.Agent]))...)
			w.span(ctx, id, name+" invoke_agent", "invoke_agent "+t.Agent, from, from.Add(seconds(*s.AgentExecutionSec)), trace.SpanKindInternal, agent, nil, func(ctx context.Context) {
				w.calls(ctx, id, name+" ", s.Name, w.trajectory(t), providerOf(w.APIs[t.Agent]))
			})
		})
	}
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// agent returns the attributes of an agent's execution.
func (w *writer) agent(t result.Trial) []attribute.KeyValue {
	out := []attribute.KeyValue{semconv.GenAIOperationNameInvokeAgent, semconv.GenAIAgentName(t.Agent)}
	return append(out, used(t.Usage, providerOf(w.APIs[t.Agent]))...)
}

// used returns the attributes of what an agent used of its model. u may be nil.
func used(u *result.Usage, provider []attribute.KeyValue) []attribute.KeyValue {
	if u == nil {
		return nil
	}
	out := slices.Clone(provider)
	if u.Requested != "" {
		out = append(out, semconv.GenAIRequestModel(u.Requested))
	}
	return append(out, tokens(u.InputTokens, u.OutputTokens, u.CachedTokens, u.CacheWriteTokens)...)
}

// providerOf returns the name that the conventions have for the provider of a model with an API;
// nil if it is not known.
func providerOf(name string) []attribute.KeyValue {
	if name == "" {
		return nil
	}
	return []attribute.KeyValue{semconv.GenAIProviderNameKey.String(api.Author(model.API(name)))}
}

// tokens returns the attributes of those counts that are known. The conventions' release for the
// two of caches is newer than the constants of semconv.
func tokens(input, output, cached, cacheWrite *int64) []attribute.KeyValue {
	var out []attribute.KeyValue
	for _, n := range []struct {
		key   attribute.Key
		count *int64
	}{
		{semconv.GenAIUsageInputTokensKey, input},
		{semconv.GenAIUsageOutputTokensKey, output},
		{"gen_ai.usage.cache_read.input_tokens", cached},
		{"gen_ai.usage.cache_creation.input_tokens", cacheWrite},
	} {
		if n.count != nil {
			out = append(out, n.key.Int64(*n.count))
		}
	}
	return out
}

// calls makes a span for each call that is recorded in a file, for a step of the task if there is
// one. before makes their names differ from those of other files.
func (w *writer) calls(ctx context.Context, id trace.TraceID, before, step, file string, provider []attribute.KeyValue) {
	f, err := nofollow.Open(file)
	if err != nil {
		return // there is no gateway, or nothing is recorded
	}
	defer func() { _ = f.Close() }()
	lines := bounded.NewDecoder(f)
	talk := conversation{}
	for n := 1; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("%schat %d", before, n)
		if w.Contents {
			var line model.RecordedTurn
			if lines.Decode(&line) != nil {
				return // the end, or a line that was cut off by a kill
			}
			if step != "" && line.Step != step {
				continue
			}
			talk.add(line)
			w.call(ctx, id, name, line, provider, talk.attributes(line))
			continue
		}
		var line bare
		if lines.Decode(&line) != nil {
			return
		}
		if step != "" && line.Step != step {
			continue
		}
		w.call(ctx, id, name, line.turn(), provider, nil)
	}
}

// bare is a recorded call without its messages, which may be large.
type bare struct {
	Step      string         `json:"step"`
	Asked     string         `json:"requested_model"`
	Answered  string         `json:"answered_model"`
	Finish    string         `json:"finish_reason"`
	Usage     model.Usage    `json:"usage"`
	Cost      *float64       `json:"cost"`
	AtLeast   bool           `json:"cost_at_least"`
	Began     time.Time      `json:"began_at"`
	FirstByte *time.Time     `json:"first_byte_at"`
	Ended     time.Time      `json:"ended_at"`
	Waiting   float64        `json:"waiting_sec"`
	Failure   *model.Failure `json:"failure"`
}

func (b bare) turn() model.RecordedTurn {
	return model.RecordedTurn{
		Asked: b.Asked, Answered: b.Answered, Finish: b.Finish, Usage: b.Usage, Cost: b.Cost, AtLeast: b.AtLeast, Began: b.Began, FirstByte: b.FirstByte, Ended: b.Ended,
		Waiting: b.Waiting, Failure: b.Failure,
	}
}

// call makes the span of a call. name identifies it in its trace.
func (w *writer) call(ctx context.Context, id trace.TraceID, name string, line model.RecordedTurn, provider, contents []attribute.KeyValue) {
	attributes := slices.Concat([]attribute.KeyValue{semconv.GenAIOperationNameChat, semconv.GenAIRequestModel(line.Asked)}, contents, provider)
	if line.Answered != "" {
		attributes = append(attributes, semconv.GenAIResponseModel(line.Answered))
	}
	if line.Finish != "" {
		attributes = append(attributes, semconv.GenAIResponseFinishReasons(line.Finish))
	}
	attributes = append(attributes, tokens(line.Usage.Input, line.Usage.Output, line.Usage.Cached, line.Usage.CacheWrite)...)
	if line.Cost != nil {
		attributes = append(attributes, costs(*line.Cost, line.AtLeast)...)
	}
	if line.FirstByte != nil {
		attributes = append(attributes, attribute.Float64("rollout.time_to_first_byte_sec", line.FirstByte.Sub(line.Began).Seconds()))
	}
	if line.Waiting > 0 {
		attributes = append(attributes, attribute.Float64("rollout.waiting_sec", line.Waiting))
	}
	var failed *failure
	if f := line.Failure; f != nil {
		failed = &failure{string(f.Kind), f.Message}
		if f.Status > 0 {
			failed.kind = fmt.Sprint(f.Status)
		}
	}
	w.span(ctx, id, name, "chat "+line.Asked, line.Began, line.Ended, trace.SpanKindClient, attributes, failed, nil)
}

// costs returns the attributes of a cost in US dollars.
func costs(usd float64, atLeast bool) []attribute.KeyValue {
	out := []attribute.KeyValue{attribute.Float64("rollout.cost_usd", usd)}
	if atLeast {
		out = append(out, attribute.Bool("rollout.cost_at_least", true))
	}
	return out
}
