package telemetry

import (
	"context"
	"crypto/sha256"
	"fmt"

	"go.opentelemetry.io/otel/trace"

	"github.com/org/rollout-action/internal/core/result"
)

// ids takes the identifiers of spans from the context, see withIDs. They are derived from the
// trial, so a result that is sent again has the same ones and collectors store it once.
type ids struct{}

type idsKey struct{}

type identity struct {
	trace trace.TraceID
	span  trace.SpanID
}

// NewIDs implements sdk.IDGenerator.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, _ := ctx.Value(idsKey{}).(identity)
	return id.trace, id.span
}

// NewSpanID implements sdk.IDGenerator.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	id, _ := ctx.Value(idsKey{}).(identity)
	return id.span
}

// traceOf returns the identifier of a trial's trace. A trial that is run again has another one,
// because it began at another time.
func traceOf(plan result.Plan, t result.Trial) trace.TraceID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %q %q %q %d %d", plan.JobName, plan.StartedAt.UnixNano(), t.Agent, t.Dataset, t.Task, t.Attempt, t.Timestamps.StartedAt.UnixNano()))
	return trace.TraceID(sum[:16])
}

// withIDs returns a context with the identifiers of the span that is called name in its trace.
func withIDs(ctx context.Context, id trace.TraceID, name string) context.Context {
	sum := sha256.Sum256(append(id[:], name...))
	return context.WithValue(ctx, idsKey{}, identity{id, trace.SpanID(sum[:8])})
}
