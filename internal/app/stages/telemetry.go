package stages

import (
	"context"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/output/telemetry"
)

// maxSending bounds how long a job waits at its end for a collector of spans. A cancelled job has
// almost no time.
const (
	maxSending          = 10 * time.Second
	maxSendingCancelled = 500 * time.Millisecond
)

// sendSpans sends the spans of the trials that ran, if the environment names a collector
// (OTEL_EXPORTER_OTLP_ENDPOINT). A failure is only a warning, because the job's results do not
// depend on it.
func (o *Opened) sendSpans(ctx context.Context) {
	h := o.Host
	if o.began.IsZero() || o.Tree.Plan.ProvesTasks {
		return // no trial was run, or those of no agent
	}
	wanted, contents, problem := telemetry.Wanted(h.Getenv)
	if problem != "" {
		host.Warnf(h.Output, "%s", host.Clean(problem))
	}
	if !wanted {
		return
	}
	limit := maxSending
	if ctx.Err() != nil {
		limit = maxSendingCancelled
	}
	sending, cancel := context.WithTimeout(h.Hard, limit)
	defer cancel()
	apis := map[string]string{}
	for _, a := range o.Job.Agents {
		if m, ok := o.Job.Models[a.Model]; ok && a.Model != "" {
			apis[a.Name] = m.API
		}
	}
	judges := map[string]string{}
	for _, s := range o.Own() {
		for _, j := range slices.Concat(s.Judges, s.GroupJudges) {
			api := o.Job.Models[j.Agent.Model].API
			if other, ok := judges[j.Name]; ok && other != api { // judges of two tasks with the same name
				api = ""
			}
			judges[j.Name] = api
		}
	}
	sent, err := telemetry.Send(sending, telemetry.Options{
		Dir: h.Path(o.Dir()), Since: o.began, APIs: apis, JudgeAPIs: judges, Contents: contents, Redact: redact.New(o.Secrets).String,
	})
	if err != nil {
		host.Warnf(h.Output, "OpenTelemetry: %d spans were sent, then: %s", sent, host.Clean(err.Error()))
	}
}
