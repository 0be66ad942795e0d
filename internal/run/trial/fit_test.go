package trial

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/core/task"
)

// Otherwise Linux would not start the program, and the failure would be the agent's.
func TestInstructionsThatAreTooLongForAnArgument(t *testing.T) {
	of := func(preset string) agent.Agent {
		p, ok := presets.Get(preset)
		if !ok {
			t.Fatalf("there is no preset %s", preset)
		}
		return agent.Agent{Name: "a", Preset: preset, Execute: p.Execute(nil)}
	}
	own := of("cline")
	own.Execute = "cline <\"$ROLLOUT_TASK_INSTRUCTION\""
	for _, tc := range []struct {
		agent agent.Agent
		size  int
		fits  bool
	}{
		{of("cline"), presets.MaxArgument, true},
		{of("cline"), presets.MaxArgument + 1, false},
		{of("claude-code"), presets.MaxArgument + 1, true},
		{own, presets.MaxArgument + 1, true},
		{agent.Agent{Name: "script", Execute: "true"}, presets.MaxArgument + 1, true},
		{agent.Agent{Name: agent.Oracle}, presets.MaxArgument + 1, true},
	} {
		tk := &task.Task{FS: fstest.MapFS{"instruction.md": {Data: []byte(strings.Repeat("x", tc.size))}}}
		why := Unfit(tc.agent, tk)
		if (why == "") != tc.fits || !tc.fits && !strings.Contains(why, "takes it as one argument") {
			t.Errorf("%s and %d bytes: %q", tc.agent.Name, tc.size, why)
		}
	}
}
