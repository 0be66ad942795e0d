package shell

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model"
)

// conversation is the list of messages so far, in the form of one API.
type conversation interface {
	// request returns the path below the base URL and the body of the request for the next answer.
	request() (path string, body any)
	headers() map[string]string
	reader() reader
	// user appends a user message, add an answer as it was received, results the results of its
	// calls.
	user(text string)
	add(a answer)
	results(list []reply)
	// adapt reports whether the next request omits the feature that an error response complains of.
	adapt(status int, body []byte) bool
}

// reader reads one answer.
type reader interface {
	event(data []byte)      // of a stream
	plain(all gjson.Result) // an answer that is no stream
	ended() bool            // whether the last event came
	answer() answer
}

// answer is one answer of the model.
type answer struct {
	text   string
	calls  []call
	end    end
	why    string // the reason of the end, in the words of the API
	failed string // the error that the provider put into the answer; "" if there is none
	// raw is sent back with the next request: content blocks, items, parts or one message.
	raw []json.RawMessage
}

// call is a call of a tool.
type call struct {
	id, name  string
	arguments string // JSON, or invalid text from the model
}

// end classifies the reason why an answer ended.
type end int

const (
	endStop     end = iota
	endLength       // of the answer
	endOverflow     // of the conversation
)

// endOf returns the end for the reason that an API gives.
func endOf(why string) end {
	if why == "model_context_window_exceeded" {
		return endOverflow
	}
	if (model.Answer{Finish: why}).Truncated() {
		return endLength
	}
	return endStop
}

// newConversation returns an empty conversation. A bare one offers no tools and has no prompt of
// the system.
func newConversation(api model.API, name string, bare bool) conversation {
	if begin := conversations[api]; begin != nil {
		return begin(name, bare)
	}
	return newChat(name, bare)
}

// conversations is the table of the APIs. All others, as scripted, are asked as OpenAIChat.
var conversations = map[model.API]func(name string, bare bool) conversation{
	model.Anthropic:       func(name string, bare bool) conversation { return &anthropic{model: name, bare: bare} },
	model.OpenAIChat:      func(name string, bare bool) conversation { return newChat(name, bare) },
	model.OpenAIResponses: func(name string, bare bool) conversation { return &responses{model: name, bare: bare} },
	model.Google:          func(name string, bare bool) conversation { return &google{model: name, bare: bare} },
}

// object is a JSON object whose keys are sorted.
type object = map[string]any

// schema describes the arguments of the tool as JSON Schema.
func schema() object {
	return object{
		"type": "object",
		"properties": object{
			"command":     object{"type": "string", "description": commandText},
			"timeout_sec": object{"type": "integer", "description": timeoutText},
		},
		"required": []string{"command"},
	}
}

// isObject reports whether a text is a JSON object.
func isObject(text string) bool {
	return model.ValidJSON([]byte(text)) && gjson.Parse(text).IsObject()
}

// orEmpty returns arguments in the form in which they are sent back: an object. APIs refuse others.
func orEmpty(arguments string) string {
	if isObject(arguments) {
		return arguments
	}
	return "{}"
}

// safeName returns a tool's name in the form in which it is sent back. Models invent names that no
// tool can have, and APIs refuse conversations with them.
func safeName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	return firstOf(name[:min(len(name), 64)], "unknown")
}

// rawOf returns a value as JSON. v is made of maps, slices, texts and numbers.
func rawOf(v any) json.RawMessage {
	text, err := encode(v)
	if err != nil {
		return json.RawMessage("null") // cannot happen
	}
	return json.RawMessage(strings.TrimSuffix(string(text), "\n"))
}

// copied returns a copy of JSON that shares no memory with an event.
func copied(v gjson.Result) json.RawMessage { return json.RawMessage(strings.Clone(v.Raw)) }

func firstOf(texts ...string) string { return cmp.Or(texts...) }

// maxParts limits the parts of an answer.
const maxParts = 4096
