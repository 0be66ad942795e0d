package trial

import (
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial/reward"
)

// addModelCost adds the model's cost that the agent reports.
func (r *record) addModelCost(file reward.File) {
	if !file.Found {
		return
	}
	cost, err := reward.ParseCost(file, r.secrets)
	if err != nil {
		r.warn("%s/%s %v, so the model's cost is not known: write one number there, in US dollars", environment.LogsDir, reward.CostPath, err)
		return
	}
	r.trial.Costs.Model = r.trial.Costs.Model.Plus(result.Dollars(cost))
}

// noteEnvironmentCost adds the cost of an environment, if its provider reports one.
func (r *record) noteEnvironmentCost(env environment.Environment) {
	if cost := env.Cost(); cost > 0 {
		r.trial.Costs.Environment = r.trial.Costs.Environment.Plus(result.Dollars(cost))
	}
}
