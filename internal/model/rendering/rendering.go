// Package rendering has the answers of a scripted model before an API writes them.
package rendering

import (
	"encoding/json"

	"github.com/org/rollout-action/internal/model"
)

// Answer is an answer of a model to a request.
type Answer struct {
	Request      []byte // the body
	Conversation model.Conversation
	ID           string // unique
	Model        string
	Text         string
	Reasoning    string
	Calls        []Call
	Truncated    bool // the answer reached the maximum length of its output
	Usage        Usage
}

// Call is a call of a tool.
type Call struct {
	ID, Name  string
	Arguments json.RawMessage
}

// Usage counts tokens.
type Usage struct {
	Input      int // with Cached and CacheWrite
	Cached     int
	CacheWrite int
	Output     int // with Reasoning
	Reasoning  int
}

// Error is an error of a provider.
type Error struct {
	Status  int // of HTTP
	Message string
	// Overflow: the conversation is longer than the model can read.
	Overflow bool
}
