package stages

import (
	"cmp"
	"fmt"

	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/gateway"
	"github.com/org/rollout-action/internal/model/replay"
	"github.com/org/rollout-action/internal/model/scripted"
)

// OpenModels returns the models of the job that its agents use, by name. record: exchanges are
// recorded as record_to says.
func (l *Loaded) OpenModels(record bool) (map[string]*gateway.Model, error) {
	out := map[string]*gateway.Model{}
	hide := redact.New(l.Secrets)
	for name, secrets := range l.Models {
		m := l.Job.Models[name]
		c := gateway.Config{
			Name: name, API: model.API(m.API), Upstream: m.Model, BaseURL: m.BaseURL, Key: secrets.Key, Headers: secrets.Headers,
			Sampling: m.Sampling, MaxConcurrent: m.MaxConcurrent,
			Cost: m.Cost, Unpriced: m.Unpriced, Hide: hide.String, Record: model.Record(m.Record), Tokens: m.RecordTokens,
		}
		err := error(nil)
		switch {
		case c.API == model.Scripted:
			c.Transport = scripted.New(l.Scripts[name])
		case m.Replay != "":
			c.Transport, err = replay.Open(l.RecordDirs[name], hide.Bytes)
		case m.RecordTo != "" && record:
			c.Transport, err = replay.NewRecorder(l.RecordDirs[name], gateway.NewTransport(), hide.Bytes)
		}
		if err != nil {
			return nil, fmt.Errorf("model %s: %s: %w", name, cmp.Or(m.Replay, m.RecordTo), err)
		}
		one, err := gateway.New(c)
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", name, err)
		}
		out[name] = one
	}
	return out, nil
}
