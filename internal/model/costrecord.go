package model

import (
	"encoding/json"
	"io"
)

// CostRecorder writes the numbers of turns as lines of JSON, without texts of the agent, the model
// or the provider. It is not safe for concurrent use; Options.Keep is called for one turn at a
// time.
type CostRecorder struct{ w io.Writer }

// NewCostRecorder returns a CostRecorder that writes to w.
func NewCostRecorder(w io.Writer) *CostRecorder { return &CostRecorder{w} }

// RecordedCost is a line that a CostRecorder writes. Its keys are those of RecordedTurn.
type RecordedCost struct {
	Turn    int             `json:"turn"`
	Usage   Usage           `json:"usage"`
	Cost    *float64        `json:"cost"`
	AtLeast bool            `json:"cost_at_least,omitempty"`
	Failure *RecordedFailed `json:"failure,omitempty"`
}

// RecordedFailed is the failure of a recorded call.
type RecordedFailed struct {
	Kind FailureKind `json:"kind"`
}

// Record writes a turn.
func (r *CostRecorder) Record(t Turn) error {
	line := RecordedCost{Turn: t.N, Usage: t.Answer.Usage, Cost: t.Cost, AtLeast: t.AtLeast}
	line.Usage.Contradiction = ""
	if t.Failure != nil {
		line.Failure = &RecordedFailed{t.Failure.Kind}
	}
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = r.w.Write(append(text, '\n'))
	return err
}
