package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.39.0"

	"github.com/org/rollout-action/internal/core/result"
)

// Options describe the job to Send.
type Options struct {
	Dir string // of the job
	// Since is when this run of the job began. Trials that began earlier were sent by an earlier
	// run.
	Since time.Time
	// APIs has the API of each agent's model, and JudgeAPIs that of each judge's.
	APIs, JudgeAPIs map[string]string
	// Contents adds the messages of conversations.
	Contents bool
	// Redact removes secrets from errors of the exporter.
	Redact func(string) string
}

// Wanted reports whether the environment asks for spans, and whether for contents. problem is a
// sentence about settings that do not work; then nothing is wanted.
// Source: OpenTelemetry specification, "Environment Variable Specification" and "Protocol
// Exporter".
func Wanted(getenv func(string) (string, bool)) (wanted, contents bool, problem string) {
	value := func(name string) string {
		v, _ := getenv(name)
		return strings.TrimSpace(v)
	}
	switch {
	case value("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && value("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "",
		strings.EqualFold(value("OTEL_SDK_DISABLED"), "true"), // which the SDK leaves to programs
		value("OTEL_TRACES_EXPORTER") == "none":
		return false, false, ""
	}
	protocol := value("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = value("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	if protocol != "" && protocol != "http/protobuf" {
		return false, false, fmt.Sprintf("OTEL_EXPORTER_OTLP_PROTOCOL is %q, and Rollout has only http/protobuf: no spans are sent", protocol)
	}
	switch strings.ToLower(value("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")) {
	case "true", "1", "span_only", "span_and_event":
		contents = true
	}
	return true, contents, ""
}

// Send sends the spans of the trials that ran since Options.Since, and returns how many there were.
// It ends with ctx. The exporter is configured by the variables OTEL_* of the process. Errors are
// messages for users and concern only the spans.
func Send(ctx context.Context, o Options) (sent int, err error) {
	defer func() {
		if err != nil && o.Redact != nil {
			err = fmt.Errorf("%s", o.Redact(err.Error())) //nolint:err113 // the text is redacted, so the error is not wrapped
		}
	}()
	plan, err := result.ReadPlan(o.Dir)
	if err != nil {
		return 0, fmt.Errorf("read the job: %w", err)
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return 0, fmt.Errorf("connect to the collector: %w", err)
	}
	defer stop(exporter)
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(semconv.ServiceName("rollout")), resource.WithFromEnv())
	if err != nil && about == nil {
		return 0, fmt.Errorf("read OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	out := &batches{ctx: ctx, exporter: exporter}
	provider := sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithSpanProcessor(out), sdk.WithIDGenerator(ids{}))
	w := writer{Options: o, plan: plan, tracer: provider.Tracer("github.com/org/rollout-action")}
	err = w.each(ctx, func(t result.Trial) bool {
		w.trial(ctx, t)
		return out.err == nil && ctx.Err() == nil
	})
	out.flush()
	if out.err != nil {
		return out.sent, fmt.Errorf("send spans: %w", out.err)
	}
	return out.sent, cmp.Or(err, ctx.Err())
}

// stop ends the exporter without waiting.
func stop(e *otlptrace.Exporter) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = e.Shutdown(ctx)
}

// each calls do for the trials of the job that began, or were judged, since Options.Since, until it
// returns false. Results are read one at a time.
func (w *writer) each(ctx context.Context, do func(result.Trial) bool) error {
	for _, key := range w.plan.Own().All() {
		if ctx.Err() != nil {
			return fmt.Errorf("read the job's results: %w", ctx.Err())
		}
		trials, _ := result.ReadTrials(w.Dir, []result.Key{key}) // what cannot be read is reported elsewhere
		for _, t := range trials {
			if w.ran(t) && !do(t) {
				return nil
			}
		}
	}
	confirmations, _ := result.ReadConfirmations(w.Dir, w.plan)
	for _, t := range confirmations {
		if w.ran(t) && !do(t) {
			return nil
		}
	}
	return nil
}

// ran reports whether a trial, or one of its judges, began since Options.Since.
func (w *writer) ran(t result.Trial) bool {
	since := result.Stamp(w.Since)
	return t.Reused == nil && !t.Timestamps.StartedAt.Before(since) ||
		slices.ContainsFunc(t.Agents, func(run result.AgentRun) bool { return run.StartedAt != nil && !run.StartedAt.Before(since) })
}

// batches sends ended spans, many at a time. The first error ends it.
type batches struct {
	ctx      context.Context //nolint:containedctx // span processors get that of the span
	exporter sdk.SpanExporter
	spans    []sdk.ReadOnlySpan
	bytes    int
	sent     int
	err      error
}

// Limits of a request, far below the 4 MiB and more that collectors accept.
const (
	maxSpans = 512
	maxBytes = 1 << 20 // of contents
)

// OnStart implements sdk.SpanProcessor.
func (*batches) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements sdk.SpanProcessor.
func (b *batches) OnEnd(s sdk.ReadOnlySpan) {
	if b.err != nil || !s.SpanContext().IsSampled() {
		return
	}
	b.spans = append(b.spans, s)
	for _, a := range s.Attributes() {
		if a.Value.Type() == attribute.STRING {
			b.bytes += len(a.Value.AsString())
		}
	}
	if len(b.spans) >= maxSpans || b.bytes >= maxBytes {
		b.flush()
	}
}

func (b *batches) flush() {
	if b.err != nil || len(b.spans) == 0 {
		return
	}
	if b.err = b.exporter.ExportSpans(b.ctx, b.spans); b.err == nil {
		b.sent += len(b.spans)
	}
	b.spans, b.bytes = nil, 0
}

// Shutdown implements sdk.SpanProcessor.
func (*batches) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdk.SpanProcessor.
func (*batches) ForceFlush(context.Context) error { return nil }
