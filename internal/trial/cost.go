package trial

import (
	"fmt"
	"strings"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/redact"
)

// costPath is where agents may leave what their model cost, below /logs: a number of US dollars. Only the agent knows.
const costPath = "agent/cost_usd.txt"

// maxCost is more than any trial costs, in US dollars.
const maxCost = 1e6

// parseCost reads a number of US dollars. The file is the agent's word: what is no amount is no cost.
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

// addModelCost counts what the agent says that its model cost.
func (x *execution) addModelCost(file rewardFile) {
	if !file.found {
		return
	}
	cost, err := parseCost(file, x.opts.Redactor)
	if err != nil {
		x.warn("%s/%s %v, so the model's cost is not known: write one number there, in US dollars", environment.LogsDir, costPath, err)
		return
	}
	x.trial.Costs.Model += cost
}
