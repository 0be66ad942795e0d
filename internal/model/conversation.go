package model

import (
	"encoding/json"
	"strings"
)

// Message is one message of a conversation in a form that is the same for all protocols. Everything in it comes from the agent or the
// model and is hostile.
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
	// Arguments are those of the call: what the model wrote, which may be no JSON, as a JSON string then.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Failed: the tool's result is an error.
	Failed bool `json:"failed,omitempty"`
	// Media is the type of content that is not kept: "image/png", or the name that the protocol has for it.
	Media string `json:"media,omitempty"`
}

// PartType says what a Part is.
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

// Conversation is what a request asks the model to continue.
type Conversation struct {
	Messages []Message
	Tools    []Tool
}

// Answer is what the model answered, as far as it came.
type Answer struct {
	Message Message
	// Model is the name that the upstream states; "" if it states none.
	Model string
	// Tokens are nil if they were not asked for, or not stated as they should be.
	Tokens *Tokens
	// ID is the upstream's identifier of the answer.
	ID string
	// Finish is why the model stopped, in the words of the protocol; "" if the answer was cut off.
	Finish string
	Usage  Usage
	// Failed is the error that the upstream put into the stream; "" if there is none.
	Failed string
}

// Truncated reports whether the model stopped because its output became too long.
func (a Answer) Truncated() bool {
	switch a.Finish {
	case "max_tokens", "length", "MAX_TOKENS", "max_output_tokens":
		return true
	}
	return false
}

// Usage counts tokens. nil is unknown, which is not 0.
type Usage struct {
	Input      *int64 `json:"input_tokens"`       // all input, with what was read from or written to a cache
	Cached     *int64 `json:"cached_tokens"`      // the part of Input that was read from a cache
	CacheWrite *int64 `json:"cache_write_tokens"` // the part of Input that was written to a cache
	Output     *int64 `json:"output_tokens"`      // all output, with reasoning
	Reasoning  *int64 `json:"reasoning_tokens"`   // the part of Output that is reasoning
	// CacheWriteHour is the part of CacheWrite that is kept for an hour, which costs more.
	CacheWriteHour *int64 `json:"cache_write_1h_tokens,omitempty"`
	// CostUSD is the price that the provider itself states.
	CostUSD *float64 `json:"cost_usd,omitempty"`
}

// Known reports whether anything is known.
func (u Usage) Known() bool { return u.Input != nil || u.Output != nil }

// Total returns input and output, or 0 if they are unknown.
func (u Usage) Total() int64 { return value(u.Input) + value(u.Output) }

// Plus returns the sum. A count that is unknown on one side only is that of the other, so the sum is a lower bound.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		Input: sum(u.Input, v.Input), Cached: sum(u.Cached, v.Cached), CacheWrite: sum(u.CacheWrite, v.CacheWrite),
		Output: sum(u.Output, v.Output), Reasoning: sum(u.Reasoning, v.Reasoning),
		CacheWriteHour: sum(u.CacheWriteHour, v.CacheWriteHour), CostUSD: sum(u.CostUSD, v.CostUSD),
	}
}

func sum[T int64 | float64](a, b *T) *T {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return new(*a + *b)
}

func value[T int64 | float64](p *T) T {
	if p == nil {
		return 0
	}
	return *p
}
