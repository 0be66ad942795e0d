package result

import (
	"fmt"
	"slices"
	"time"
)

// Stop describes why a run started no more trials although some were left.
type Stop struct {
	Reason StopReason `json:"reason"`
	At     time.Time  `json:"at"`
	// Why is the reason as a clause with numbers and names of trials. It is hostile, as names are.
	Why       string `json:"why"`
	Skipped   int    `json:"skipped"`             // trials that were not started
	Cancelled int    `json:"cancelled,omitempty"` // trials that ran and were ended
	// Shard is set in a merged job: the part that stopped.
	Shard *Shard `json:"shard,omitempty"`
}

// StopReason is the kind of a Stop.
type StopReason string

// The reasons of stops.
const (
	StopFailFast       StopReason = "fail_fast"       // a trial did not pass, and the run was to stop then
	StopBudgetCost     StopReason = "budget_cost"     // the trials have cost as much as the job may
	StopBudgetDuration StopReason = "budget_duration" // the job has run as long as it may
)

// checkStops returns an error for stops that no run writes.
func (p Plan) checkStops() error {
	if len(p.Stopped) > MaxShards {
		return fmt.Errorf("it stopped %d times", len(p.Stopped))
	}
	for _, s := range p.Stopped {
		if !slices.Contains([]StopReason{StopFailFast, StopBudgetCost, StopBudgetDuration}, s.Reason) || s.Skipped < 0 || s.Cancelled < 0 {
			return fmt.Errorf("it stopped for the reason %q", s.Reason)
		}
	}
	return nil
}
