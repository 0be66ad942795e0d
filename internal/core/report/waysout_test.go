package report

import (
	"testing"

	"github.com/org/rollout-action/internal/core/gate"
)

func TestWaysOutLeadPromisesWhatIsThere(t *testing.T) {
	fail := gate.WayOut{Name: gate.WayFail}
	for want, ways := range map[string][]gate.WayOut{
		"What would decide it (trials and costs are estimates from this job):":  {{Name: "against", Trials: 3, CostUSD: new(0.1)}, fail},
		"What would decide it (numbers of trials are estimates from this job):": {{Name: "against", Trials: 3}, fail},
		"What would decide it:":     {{Name: "tasks"}, fail},
		"What would make it count:": {fail},
	} {
		if got := WaysOutLead(ways); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
