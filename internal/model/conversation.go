package model

import (
	"encoding/json"
	"strings"

	"github.com/org/rollout-action/internal/model/meter"
)

// Message is one message of a conversation in a form that is the same for all protocols. Everything
// in it comes from the agent or the model and is hostile.
type Message struct {
	Role  string `json:"role"` // system, user, assistant or tool
	Parts []Part `json:"parts,omitempty"`
}

// Text returns the texts of the message, without reasoning, calls and results.
func (m Message) Text() string {
	var text strings.Builder
	for _, p := range m.Parts {
		if p.Type == PartText {
			text.WriteString(p.Text)
		}
	}
	return text.String()
}

// Part is a part of a message. Type decides which of the other fields are set.
type Part struct {
	Type PartType `json:"type"`
	// Text is the text, or the readable form of reasoning or of a tool's result.
	Text string `json:"text,omitempty"`
	// ID identifies a call of a tool, in the call and in its result.
	ID string `json:"id,omitempty"`
	// Name is the name of the tool that is called.
	Name string `json:"name,omitempty"`
	// Arguments are those of the call, as the model wrote them; as a JSON string if they are not
	// JSON.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Failed: the tool's result is an error.
	Failed bool `json:"failed,omitempty"`
	// Media is the type of content that is not kept: "image/png", or the protocol's name for it.
	Media string `json:"media,omitempty"`
}

// PartType is the type of a Part.
type PartType string

// The types of parts.
const (
	PartText      PartType = "text"
	PartReasoning PartType = "reasoning"
	PartCall      PartType = "tool_call"
	PartResult    PartType = "tool_result"
	PartMedia     PartType = "media"
)

// Tool is a tool that the agent offers to the model.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // a JSON Schema
}

// Conversation is the conversation in a request, which the model is to continue.
type Conversation struct {
	Messages []Message
	Tools    []Tool
}

// Answer is the model's answer, as far as it was received.
type Answer struct {
	Message Message
	// Model is the name that the upstream states; "" if it states none.
	Model string
	// Tokens are nil if they were not requested, or not stated correctly.
	Tokens *Tokens
	// ID is the upstream's identifier of the answer.
	ID string
	// Finish is the reason why the model stopped, as the protocol states it; "" if the answer was
	// cut off.
	Finish string
	Usage  Usage
	// Failed is the error that the upstream put into the stream; "" if there is none.
	Failed string
	// Choices are the further answers of a request that wants several, in the order of their
	// indexes.
	Choices []Message

	// Received is the number of bytes of output that came, if Message has not all of them yet.
	Received int64
}

// Empty reports whether the answer has no known usage and no output.
func (a Answer) Empty() bool { return !a.Usage.Known() && a.Size() == 0 }

// Size returns the number of bytes of the model's output.
func (a Answer) Size() int64 {
	n := int64(0)
	for _, m := range append([]Message{a.Message}, a.Choices...) {
		for _, p := range m.Parts {
			n += int64(len(p.Text) + len(p.Name) + len(p.Arguments))
		}
	}
	return max(n, a.Received)
}

// Usage counts tokens.
type Usage = meter.Usage
