package reward

import (
	"fmt"
	"strings"

	"github.com/org/rollout-action/internal/lib/redact"
)

// CostPath is the file below /logs in which agents may report their model's cost: a number of US
// dollars. There is no other source.
const CostPath = "agent/cost_usd.txt"

// maxCost limits the cost that an agent may report, in US dollars. No trial costs as much.
const maxCost = 1e6

// ParseCost reads a number of US dollars. The agent wrote the file, so the number may be anything.
func ParseCost(file File, secrets *redact.Redactor) (float64, error) {
	text, err := file.Whole()
	if err != nil {
		return 0, err
	}
	cost, err := parseReward(strings.TrimPrefix(strings.TrimSpace(text), "$"), false, secrets)
	if err == nil && (cost < 0 || cost > maxCost) {
		err = fmt.Errorf("holds %g, which is no plausible amount", cost)
	}
	return cost, err
}
