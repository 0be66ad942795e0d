// Package asking is the contract between an agent that asks a model itself, such as shell, and the
// APIs. A conversation is kept in the form of its API, so nothing is lost that the API sent and
// wants back.
package asking

import (
	"encoding/json"

	"github.com/tidwall/gjson"
)

// Options are what the requests of a conversation have in common.
type Options struct {
	Model string
	// System is the system prompt; "": there is none.
	System string
	// Tool, if not nil, is offered to the model.
	Tool *Tool
}

// Tool is a tool that the model may call.
type Tool struct {
	Name, Description string
	Parameters        []Parameter
}

// Parameter is an argument of a tool.
type Parameter struct {
	Name, Type, Description string // Type is that of JSON Schema
	Required                bool
}

// Conversation is the list of messages so far, in the form of one API.
type Conversation interface {
	// Request returns the path below the base URL and the body of the request for the next answer.
	Request() (path string, body any)
	Reader() Reader
	// User appends a user message, Add an answer as it was received, Results the results of its
	// calls.
	User(text string)
	Add(a Answer)
	Results(list []Result)
	// Adapt reports whether the next request omits the feature that an error response complains of.
	Adapt(status int, body []byte) bool
}

// Reader reads one answer.
type Reader interface {
	Event(data []byte)      // of a stream
	Plain(all gjson.Result) // an answer that is no stream
	Ended() bool            // whether the last event came
	Answer() Answer
}

// Answer is one answer of the model.
type Answer struct {
	Text   string
	Calls  []Call
	Why    string // the reason of the end, in the words of the API; api.EndOf classifies it
	Failed string // the error that the provider put into the answer; "" if there is none
	// Raw is sent back with the next request: content blocks, items, parts or one message.
	Raw []json.RawMessage
}

// Call is a call of a tool.
type Call struct {
	ID, Name  string
	Arguments string // JSON, or invalid text from the model
}

// Result is the result of a call.
type Result struct {
	Call   Call
	Text   string
	Failed bool
}

// End classifies the reason why an answer ended.
type End int

// The reasons why a model stopped.
const (
	Stopped   End = iota
	Truncated     // at the maximum length of the answer
	Overflow      // at the maximum length of the conversation
)
