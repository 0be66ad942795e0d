package prove

import (
	"fmt"

	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/task"
)

// tight is the share of a timeout from which on a machine that is busier may well exceed it, and brief the seconds below
// which nobody minds.
const (
	tight = 0.8
	brief = 5
)

// tightTimeouts finds timeouts that leave the solution, or the tests after it, no room. An agent is hardly faster.
func tightTimeouts(t *task.Task, runs Runs) []Finding {
	var out []Finding
	for _, limit := range []struct {
		what, key string
		sec       float64
		took      func(result.Durations) *float64
	}{
		{"the solution", "agent.timeout_sec", t.Config.Agent.TimeoutSec, func(d result.Durations) *float64 { return d.AgentExecutionSec }},
		{"tests/test.sh", "verifier.timeout_sec", t.Config.Verifier.TimeoutSec, func(d result.Durations) *float64 { return d.VerifierSec }},
	} {
		var longest float64
		for _, run := range runs.Oracle {
			if sec := limit.took(run.Durations); sec != nil && outcomeOf(run) == passes {
				longest = max(longest, *sec)
			}
		}
		if longest > tight*limit.sec && longest > brief {
			out = append(out, Finding{Rule: "tight-timeout", Severity: Warning, File: configFile,
				Message: fmt.Sprintf("%s took %.0f of the %g seconds of %s", limit.what, longest, limit.sec, limit.key),
				Hint:    "allow a few times as much: other machines are slower, and agents try more than one thing"})
		}
	}
	return out
}
