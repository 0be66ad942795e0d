package result

import "testing"

// A budget that ended the agent's access to its model is the stop condition of a trial that was
// verified nevertheless.
func TestOutputOfAStoppedAgent(t *testing.T) {
	reward := 1.0
	stopped := Trial{Reward: &reward, StopCondition: "max_turns", IsTruncated: true}
	if o := OutputOf(Plan{}, stopped, nil); o.StopCondition != "max_turns" || !o.IsTruncated || !o.IsCompleted {
		t.Errorf("stop condition %q, truncated %t, completed %t", o.StopCondition, o.IsTruncated, o.IsCompleted)
	}
	late := Trial{StopCondition: "max_turns", Error: &Error{Type: AgentExecutionTimeout}}
	if o := OutputOf(Plan{}, late, nil); o.StopCondition != string(AgentExecutionTimeout) || !o.IsTruncated {
		t.Errorf("stop condition %q, truncated %t", o.StopCondition, o.IsTruncated)
	}
}
