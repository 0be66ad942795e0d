package trial

import (
	"fmt"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/redact"
)

// costPath is the file below /logs in which agents may report their model's cost: a number of US
// dollars. Only the agent knows it.
const costPath = "agent/cost_usd.txt"

// maxCost limits the cost that an agent may report, in US dollars. No trial costs as much.
const maxCost = 1e6

// parseCost reads a number of US dollars. The agent wrote the file, so the number may be anything.
func parseCost(file rewardFile, secrets *redact.Redactor) (float64, error) {
	text, err := file.whole()
	if err != nil {
		return 0, err
	}
	cost, err := parseReward(strings.TrimPrefix(strings.TrimSpace(text), "$"), false, secrets)
	if err == nil && (cost < 0 || cost > maxCost) {
		err = fmt.Errorf("holds %g, which is no plausible amount", cost)
	}
	return cost, err
}

// addModelCost adds the model's cost that the agent reports.
func (r *record) addModelCost(file rewardFile) {
	if !file.found {
		return
	}
	cost, err := parseCost(file, r.secrets)
	if err != nil {
		r.warn("%s/%s %v, so the model's cost is not known: write one number there, in US dollars", environment.LogsDir, costPath, err)
		return
	}
	r.trial.Costs.Model = r.trial.Costs.Model.Plus(result.Dollars(cost))
}

// noteEnvironmentCost adds the cost of an environment, if its provider knows it.
func (r *record) noteEnvironmentCost(env environment.Environment) {
	if cost := env.Cost(); cost > 0 {
		r.trial.Costs.Environment = r.trial.Costs.Environment.Plus(result.Dollars(cost))
	}
}
