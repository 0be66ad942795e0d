package app

import (
	"fmt"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/scripted"
)

// models returns the models of the job that its agents use, by name.
func (l *loaded) models() (map[string]*model.Model, error) {
	out := map[string]*model.Model{}
	for name, secrets := range l.Models {
		m := l.Job.Models[name]
		c := model.Config{
			Name: name, API: model.API(m.API), Upstream: m.Model, BaseURL: m.BaseURL, Key: secrets.Key, Headers: secrets.Headers,
			Sampling: m.Sampling, MaxConcurrent: m.MaxConcurrent,
			Cost: m.Cost,
		}
		if c.API == model.Scripted {
			c.Transport = scripted.New(l.Scripts[name])
		}
		one, err := model.New(c)
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", name, err)
		}
		out[name] = one
	}
	return out, nil
}
