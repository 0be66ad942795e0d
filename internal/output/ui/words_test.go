package ui

import (
	"testing"

	"github.com/org/rollout-action/internal/core/event"
)

func TestPhaseNamesFitTheirColumn(t *testing.T) {
	for _, phase := range []event.Phase{event.EnvironmentSetup, event.AgentSetup, event.AgentExecution, event.Verifier, event.Collect, event.Teardown} {
		if shown := phaseName(phase); shown == "starting" || len(shown) > phaseWidth {
			t.Errorf("%s is shown as %q", phase, shown)
		}
	}
}
