package chat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model/api/internal/apijson"
	"github.com/org/rollout-action/internal/model/asking"
)

// conversation is one in the Chat Completions API. Source:
// https://platform.openai.com/docs/api-reference/chat. Fields in which other providers send
// reasoning are sent back: some refuse tool calls without them.
type conversation struct {
	asking.Options
	messages []json.RawMessage
	answers  int
}

type askedRequest struct {
	Model         string            `json:"model"`
	Messages      []json.RawMessage `json:"messages"`
	Tools         []apijson.Object  `json:"tools,omitempty"`
	Stream        bool              `json:"stream"`
	StreamOptions apijson.Object    `json:"stream_options"`
}

// Ask implements api.Protocol.
func (API) Ask(o asking.Options) asking.Conversation {
	c := &conversation{Options: o}
	if o.System != "" {
		c.messages = []json.RawMessage{apijson.Raw(apijson.Object{"role": "system", "content": o.System})}
	}
	return c
}

// Request implements asking.Conversation.
func (c *conversation) Request() (string, any) {
	r := askedRequest{Model: c.Model, Messages: c.messages, Stream: true, StreamOptions: apijson.Object{"include_usage": true}}
	if c.Tool != nil {
		r.Tools = []apijson.Object{{"type": "function", "function": apijson.Object{"name": c.Tool.Name, "description": c.Tool.Description, "parameters": apijson.Schema(c.Tool, apijson.Same)}}}
	}
	return "/v1/chat/completions", r
}

// User implements asking.Conversation.
func (c *conversation) User(text string) {
	c.messages = append(c.messages, apijson.Raw(apijson.Object{"role": "user", "content": text}))
}

// Add implements asking.Conversation.
func (c *conversation) Add(a asking.Answer) {
	c.answers++
	c.messages = append(c.messages, a.Raw...)
}

// Results implements asking.Conversation.
func (c *conversation) Results(list []asking.Result) {
	for _, r := range list {
		c.messages = append(c.messages, apijson.Raw(apijson.Object{"role": "tool", "tool_call_id": r.Call.ID, "content": r.Text}))
	}
}

// Adapt implements asking.Conversation.
func (*conversation) Adapt(int, []byte) bool { return false }

// Reader implements asking.Conversation.
func (c *conversation) Reader() asking.Reader {
	return &answerReader{turn: c.answers + 1, fields: map[string]*strings.Builder{}}
}

type answerReader struct {
	turn    int
	content strings.Builder
	refusal strings.Builder
	// fields holds the texts of reasoning by the names of their fields, details the parts of
	// providers that have several.
	fields  map[string]*strings.Builder
	details []*detail
	calls   []*callPieces
	why     string
	failed  string
	whole   bool
}

// callPieces is a tool call that arrives in pieces. more holds fields that are not in the API; the
// last value of each counts.
type callPieces struct {
	index     int64
	id, name  string
	arguments strings.Builder
	more      apijson.Object
}

// detail is an element of reasoning_details.
type detail struct {
	key   string
	raw   json.RawMessage
	texts map[string]*strings.Builder
}

// maxDetail bounds an element of reasoning_details, in bytes. Keys with special characters are of
// no API and are changed.
const maxDetail = 64 << 10

// reasoningFields lists the names under which providers send reasoning as text.
var reasoningFields = []string{"reasoning_content", "reasoning"}

// Event implements asking.Reader.
func (r *answerReader) Event(data []byte) {
	if bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]")) {
		r.whole = true
		return
	}
	e := gjson.ParseBytes(data)
	if failed := e.Get("error"); failed.Exists() && failed.Type != gjson.Null {
		r.failed = cmp.Or(failed.Get("message").String(), failed.String(), "error")
	}
	choice := e.Get("choices.0")
	r.message(choice.Get("delta"))
	if why := choice.Get("finish_reason").String(); why != "" {
		r.why = why
	}
}

// Plain implements asking.Reader.
func (r *answerReader) Plain(all gjson.Result) {
	if failed := all.Get("error"); failed.IsObject() {
		r.failed = cmp.Or(failed.Get("message").String(), "error")
	}
	r.message(all.Get("choices.0.message"))
	r.why, r.whole = all.Get("choices.0.finish_reason").String(), true
}

// message reads a message, or a piece of one.
func (r *answerReader) message(m gjson.Result) {
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
func (r *answerReader) call(at int64, piece gjson.Result) {
	if index := piece.Get("index"); index.Exists() {
		at = index.Int()
	}
	id := piece.Get("id").String()
	var c *callPieces
	for _, known := range r.calls {
		if known.index == at && (id == "" || known.id == "" || known.id == id) {
			c = known
		}
	}
	if c == nil {
		if len(r.calls) >= apijson.MaxParts {
			return
		}
		c = &callPieces{index: at, more: apijson.Object{}}
		r.calls = append(r.calls, c)
	}
	c.id, c.name = cmp.Or(c.id, id), cmp.Or(c.name, piece.Get("function.name").String())
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
			if len(c.more) < apijson.MaxParts {
				c.more[name] = apijson.Copied(value)
			}
		}
		return true
	})
}

// detail reads an element of reasoning_details, or a piece of one: texts of the same index and type
// follow each other.
func (r *answerReader) detail(piece gjson.Result) {
	key := piece.Get("index").Raw + " " + piece.Get("type").Str
	var d *detail
	if n := len(r.details); n > 0 && r.details[n-1].key == key && piece.Get("index").Exists() {
		d = r.details[n-1]
	} else {
		if len(r.details) >= apijson.MaxParts {
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
		case value.Type != gjson.Null && len(d.raw) < maxDetail:
			d.raw = apijson.Put(d.raw, apijson.SafeKey(name, '_'), value.Raw)
		}
		return true
	})
}

// Ended reports whether the answer is complete. Some servers send no [DONE].
func (r *answerReader) Ended() bool { return r.whole || r.why != "" }

// Answer implements asking.Reader.
func (r *answerReader) Answer() asking.Answer {
	a := asking.Answer{Text: r.content.String(), Why: r.why, Failed: r.failed}
	message := apijson.Object{"role": "assistant", "content": nil}
	if a.Text != "" {
		message["content"] = a.Text
	} else if a.Text = r.refusal.String(); a.Text != "" {
		message["refusal"] = a.Text
	}
	for name, text := range r.fields {
		message[name] = text.String()
	}
	var details []json.RawMessage
	for _, d := range r.details {
		raw := d.raw
		for name, text := range d.texts {
			raw = apijson.Put(raw, name, string(apijson.Raw(text.String())))
		}
		details = append(details, raw)
	}
	if len(details) > 0 {
		message["reasoning_details"] = details
	}
	var calls []apijson.Object
	for i, c := range r.calls {
		id := cmp.Or(c.id, fmt.Sprintf("call_%d_%d", r.turn, i+1)) // some servers give none
		one := apijson.Object{"id": id, "type": "function", "function": apijson.Object{"name": apijson.SafeName(c.name), "arguments": apijson.OrEmpty(c.arguments.String())}}
		for name, value := range c.more {
			one[name] = value
		}
		calls = append(calls, one)
		a.Calls = append(a.Calls, asking.Call{ID: id, Name: c.name, Arguments: c.arguments.String()})
	}
	if len(calls) > 0 {
		message["tool_calls"] = calls
	} else if a.Text == "" {
		return a // the API takes no message without content
	}
	a.Raw = []json.RawMessage{apijson.Raw(message)}
	return a
}
