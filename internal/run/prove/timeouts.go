package prove

import (
	"fmt"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
)

// A run that takes more than tightShare of its timeout may exceed it on a busier machine. Runs of
// at most minSeconds do not count.
const (
	tightShare = 0.8
	minSeconds = 5
)

// tightTimeouts finds timeouts that the solution, or the tests after it, nearly used up. An agent
// is rarely faster.
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
		if longest > tightShare*limit.sec && longest > minSeconds {
			out = append(out, Finding{Rule: ruleTightTimeout, Severity: Warning, File: configFile,
				Message: fmt.Sprintf("%s took %.0f of the %g seconds of %s", limit.what, longest, limit.sec, limit.key),
				Hint:    "allow several times as much: other machines are slower, and agents try more than one thing"})
		}
	}
	return out
}
