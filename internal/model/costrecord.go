package model

import (
	"encoding/json"
	"io"
)

// CostRecorder writes the numbers of turns as lines of JSON, without texts of the agent, the model
// or the provider. It is not safe for concurrent use; Options.Keep is called for one turn at a
// time.
type CostRecorder struct {
	w           io.Writer
	step        string
	turns, last int // as in Recorder
}

// NewCostRecorder returns a CostRecorder that writes to w.
func NewCostRecorder(w io.Writer) *CostRecorder { return &CostRecorder{w: w} }

// Begin is as Recorder.Begin.
func (r *CostRecorder) Begin(step string) { r.step, r.turns = step, r.last }

// RecordedCost is a line that a CostRecorder writes. Its keys are those of RecordedTurn.
type RecordedCost struct {
	Turn    int             `json:"turn"`
	Step    string          `json:"step,omitempty"`
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
	line := RecordedCost{Turn: r.turns + t.N, Step: r.step, Usage: t.Answer.Usage, Cost: t.Cost, AtLeast: t.AtLeast}
	r.last = max(r.last, line.Turn)
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
