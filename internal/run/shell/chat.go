package shell

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// chat is a conversation in the Chat Completions API. Source:
// https://platform.openai.com/docs/api-reference/chat. Fields in which other providers send
// reasoning are sent back: some refuse tool calls without them.
type chat struct {
	model    string
	bare     bool
	messages []json.RawMessage
	answers  int
}

type chatRequest struct {
	Model         string            `json:"model"`
	Messages      []json.RawMessage `json:"messages"`
	Tools         []object          `json:"tools,omitempty"`
	Stream        bool              `json:"stream"`
	StreamOptions object            `json:"stream_options"`
}

func newChat(name string, bare bool) *chat {
	if bare {
		return &chat{model: name, bare: true}
	}
	return &chat{model: name, messages: []json.RawMessage{rawOf(object{"role": "system", "content": SystemPrompt})}}
}

func (*chat) headers() map[string]string { return nil }

func (c *chat) request() (string, any) {
	r := chatRequest{Model: c.model, Messages: c.messages, Stream: true, StreamOptions: object{"include_usage": true}}
	if !c.bare {
		r.Tools = []object{{"type": "function", "function": object{"name": ToolName, "description": ToolDescription, "parameters": schema()}}}
	}
	return "/v1/chat/completions", r
}

func (c *chat) user(text string) {
	c.messages = append(c.messages, rawOf(object{"role": "user", "content": text}))
}

func (c *chat) add(a answer) {
	c.answers++
	c.messages = append(c.messages, a.raw...)
}

func (c *chat) results(list []reply) {
	for _, r := range list {
		c.messages = append(c.messages, rawOf(object{"role": "tool", "tool_call_id": r.call.id, "content": r.text}))
	}
}

func (*chat) adapt(int, []byte) bool { return false }

func (c *chat) reader() reader {
	return &chatReader{turn: c.answers + 1, fields: map[string]*strings.Builder{}}
}

type chatReader struct {
	turn    int
	content strings.Builder
	refusal strings.Builder
	// fields holds the texts of reasoning by the names of their fields, details the parts of
	// providers that have several.
	fields  map[string]*strings.Builder
	details []*detail
	calls   []*chatCall
	why     string
	failed  string
	whole   bool
}

// chatCall is a tool call that arrives in pieces. more holds fields that are not in the API; the
// last value of each counts.
type chatCall struct {
	index     int64
	id, name  string
	arguments strings.Builder
	more      object
}

// detail is an element of reasoning_details.
type detail struct {
	key   string
	raw   json.RawMessage
	texts map[string]*strings.Builder
}

// reasoningFields lists the names under which providers send reasoning as text.
var reasoningFields = []string{"reasoning_content", "reasoning"}

func (r *chatReader) event(data []byte) {
	if bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]")) {
		r.whole = true
		return
	}
	e := gjson.ParseBytes(data)
	if failed := e.Get("error"); failed.Exists() && failed.Type != gjson.Null {
		r.failed = firstOf(failed.Get("message").String(), failed.String(), "error")
	}
	choice := e.Get("choices.0")
	r.message(choice.Get("delta"))
	if why := choice.Get("finish_reason").String(); why != "" {
		r.why = why
	}
}

func (r *chatReader) plain(all gjson.Result) {
	if failed := all.Get("error"); failed.IsObject() {
		r.failed = firstOf(failed.Get("message").String(), "error")
	}
	r.message(all.Get("choices.0.message"))
	r.why, r.whole = all.Get("choices.0.finish_reason").String(), true
}

// message reads a message, or a piece of one.
func (r *chatReader) message(m gjson.Result) {
	if text := m.Get("content"); text.Type == gjson.String {
		r.content.WriteString(text.Str)
	}
	r.refusal.WriteString(m.Get("refusal").String())
	for _, name := range reasoningFields {
		if text := m.Get(name); text.Type == gjson.String && text.Str != "" {
			if r.fields[name] == nil {
				r.fields[name] = &strings.Builder{}
			}
			r.fields[name].WriteString(text.Str)
		}
	}
	m.Get("reasoning_details").ForEach(func(_, one gjson.Result) bool {
		r.detail(one)
		return true
	})
	m.Get("tool_calls").ForEach(func(at, one gjson.Result) bool {
		r.call(at.Int(), one)
		return true
	})
}

// call reads a call, or a piece of one. A new id begins a new call: some servers give all calls the
// same index.
func (r *chatReader) call(at int64, piece gjson.Result) {
	if index := piece.Get("index"); index.Exists() {
		at = index.Int()
	}
	id := piece.Get("id").String()
	var c *chatCall
	for _, known := range r.calls {
		if known.index == at && (id == "" || known.id == "" || known.id == id) {
			c = known
		}
	}
	if c == nil {
		if len(r.calls) >= maxParts {
			return
		}
		c = &chatCall{index: at, more: object{}}
		r.calls = append(r.calls, c)
	}
	c.id, c.name = firstOf(c.id, id), firstOf(c.name, piece.Get("function.name").String())
	switch arguments := piece.Get("function.arguments"); {
	case arguments.IsObject(): // of servers that do not write it as a text
		c.arguments.WriteString(arguments.Raw)
	default:
		c.arguments.WriteString(arguments.String())
	}
	piece.ForEach(func(key, value gjson.Result) bool {
		switch name := key.String(); name {
		case "index", "id", "type", "function":
		default:
			if len(c.more) < maxParts {
				c.more[name] = copied(value)
			}
		}
		return true
	})
}

// detail reads an element of reasoning_details, or a piece of one: texts of the same index and type
// follow each other.
func (r *chatReader) detail(piece gjson.Result) {
	key := piece.Get("index").Raw + " " + piece.Get("type").Str
	var d *detail
	if n := len(r.details); n > 0 && r.details[n-1].key == key && piece.Get("index").Exists() {
		d = r.details[n-1]
	} else {
		if len(r.details) >= maxParts {
			return
		}
		d = &detail{key: key, raw: json.RawMessage("{}"), texts: map[string]*strings.Builder{}}
		r.details = append(r.details, d)
	}
	piece.ForEach(func(key, value gjson.Result) bool {
		switch name := key.String(); {
		case (name == "text" || name == "summary" || name == "data") && value.Type == gjson.String:
			if d.texts[name] == nil {
				d.texts[name] = &strings.Builder{}
			}
			d.texts[name].WriteString(value.Str)
		case value.Type != gjson.Null && len(d.raw) < maxError:
			d.raw = set(d.raw, gjsonKey(name), value.Raw)
		}
		return true
	})
}

// gjsonKey returns a key as a path of sjson. Keys with special characters are of no API and are
// changed.
func gjsonKey(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
}

// ended reports whether the answer is complete. Some servers send no [DONE].
func (r *chatReader) ended() bool { return r.whole || r.why != "" }

func (r *chatReader) answer() answer {
	a := answer{text: r.content.String(), why: r.why, end: endOf(r.why), failed: r.failed}
	message := object{"role": "assistant", "content": nil}
	if a.text != "" {
		message["content"] = a.text
	} else if a.text = r.refusal.String(); a.text != "" {
		message["refusal"] = a.text
	}
	for name, text := range r.fields {
		message[name] = text.String()
	}
	var details []json.RawMessage
	for _, d := range r.details {
		raw := d.raw
		for name, text := range d.texts {
			raw = set(raw, name, string(rawOf(text.String())))
		}
		details = append(details, raw)
	}
	if len(details) > 0 {
		message["reasoning_details"] = details
	}
	var calls []object
	for i, c := range r.calls {
		id := firstOf(c.id, fmt.Sprintf("call_%d_%d", r.turn, i+1)) // some servers give none
		one := object{"id": id, "type": "function", "function": object{"name": safeName(c.name), "arguments": orEmpty(c.arguments.String())}}
		for name, value := range c.more {
			one[name] = value
		}
		calls = append(calls, one)
		a.calls = append(a.calls, call{id: id, name: c.name, arguments: c.arguments.String()})
	}
	if len(calls) > 0 {
		message["tool_calls"] = calls
	} else if a.text == "" {
		return a // the API takes no message without content
	}
	a.raw = []json.RawMessage{rawOf(message)}
	return a
}
