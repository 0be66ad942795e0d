package record

import (
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial/reward"
)

// AddModelCost adds the model's cost that the agent reports.
func (r *Record) AddModelCost(file reward.File) {
	if !file.Found {
		return
	}
	cost, err := reward.ParseCost(file, r.Secrets)
	if err != nil {
		r.Warn("%s/%s %v, so the model's cost is not known: write one number there, in US dollars", environment.LogsDir, reward.CostPath, err)
		return
	}
	r.Trial.Costs.Model = r.Trial.Costs.Model.Plus(result.Dollars(cost))
}

// NoteEnvironmentCost adds the cost of an environment, if its provider reports one.
func (r *Record) NoteEnvironmentCost(env environment.Environment) {
	if cost := env.Cost(); cost > 0 {
		r.Trial.Costs.Environment = r.Trial.Costs.Environment.Plus(result.Dollars(cost))
	}
}
