package responses

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model/api/internal/apijson"
	"github.com/org/rollout-action/internal/model/asking"
)

// conversation is one in the Responses API. The provider stores nothing: reasoning arrives
// encrypted and is sent back.
// Source: https://platform.openai.com/docs/guides/reasoning.
type conversation struct {
	asking.Options
	items []json.RawMessage
	// open is set if the model has no encrypted reasoning.
	open bool
}

type askedRequest struct {
	Model        string            `json:"model"`
	Instructions string            `json:"instructions,omitempty"`
	Input        []json.RawMessage `json:"input"`
	Tools        []apijson.Object  `json:"tools,omitempty"`
	Store        bool              `json:"store"`
	Include      []string          `json:"include,omitempty"`
	Stream       bool              `json:"stream"`
}

// Ask implements api.Protocol.
func (API) Ask(o asking.Options) asking.Conversation {
	return &conversation{Options: o}
}

// Request implements asking.Conversation.
func (c *conversation) Request() (string, any) {
	r := askedRequest{Model: c.Model, Input: c.items, Stream: true, Include: []string{"reasoning.encrypted_content"}}
	if c.System != "" {
		r.Instructions = c.System
	}
	if c.Tool != nil {
		r.Tools = []apijson.Object{{"type": "function", "name": c.Tool.Name, "description": c.Tool.Description, "parameters": apijson.Schema(c.Tool, apijson.Same), "strict": false}}
	}
	if c.open {
		r.Include = nil
	}
	return "/v1/responses", r
}

// User implements asking.Conversation.
func (c *conversation) User(text string) {
	c.items = append(c.items, apijson.Raw(apijson.Object{"role": "user", "content": text}))
}

// Add implements asking.Conversation.
func (c *conversation) Add(a asking.Answer) { c.items = append(c.items, a.Raw...) }

// Results implements asking.Conversation.
func (c *conversation) Results(list []asking.Result) {
	for _, r := range list {
		c.items = append(c.items, apijson.Raw(apijson.Object{"type": "function_call_output", "call_id": r.Call.ID, "output": r.Text}))
	}
}

// Adapt handles models that do not reason: they refuse to return encrypted reasoning, with
// "Encrypted content is not supported with this model".
func (c *conversation) Adapt(status int, body []byte) bool {
	if c.open || status != 400 {
		return false
	}
	failed := gjson.GetBytes(body, "error")
	c.open = failed.Get("param").String() == "include" || strings.Contains(strings.ToLower(failed.Get("message").String()), "encrypted content")
	return c.open
}

// Reader implements asking.Conversation.
func (*conversation) Reader() asking.Reader { return &answerReader{items: map[int64]json.RawMessage{}} }

type answerReader struct {
	items  map[int64]json.RawMessage // that are complete
	output []json.RawMessage         // of the last event
	why    string
	failed string
	whole  bool
}

// Event implements asking.Reader.
func (r *answerReader) Event(data []byte) {
	e := gjson.ParseBytes(data)
	switch e.Get("type").String() {
	case "response.output_item.done":
		if len(r.items) < apijson.MaxParts {
			r.items[e.Get("output_index").Int()] = apijson.Copied(e.Get("item"))
		}
	case "response.completed", "response.incomplete", "response.failed":
		r.Plain(e.Get("response"))
	case "error":
		r.failed = cmp.Or(e.Get("message").String(), e.Get("error.message").String(), "error")
	}
}

// Plain implements asking.Reader.
func (r *answerReader) Plain(all gjson.Result) {
	for _, item := range all.Get("output").Array() {
		if len(r.output) < apijson.MaxParts {
			r.output = append(r.output, apijson.Copied(item))
		}
	}
	r.why, r.whole = all.Get("incomplete_details.reason").String(), true
	if failed := all.Get("error"); failed.IsObject() || all.Get("status").String() == "failed" {
		r.failed = cmp.Or(failed.Get("message").String(), failed.Get("code").String(), "the response failed")
	}
}

// Ended implements asking.Reader.
func (r *answerReader) Ended() bool { return r.whole }

// Answer implements asking.Reader.
func (r *answerReader) Answer() asking.Answer {
	a := asking.Answer{Why: r.why, Failed: r.failed}
	items := r.output
	if len(items) < len(r.items) { // some servers leave them out of the last event
		items = nil
		for _, at := range slices.Sorted(maps.Keys(r.items)) {
			items = append(items, r.items[at])
		}
	}
	for _, raw := range items {
		item := gjson.ParseBytes(raw)
		switch item.Get("type").String() {
		case "message":
			text := ""
			item.Get("content").ForEach(func(_, part gjson.Result) bool {
				text += part.Get("text").String() + part.Get("refusal").String()
				return true
			})
			if text == "" {
				continue
			}
			a.Text += text
		case "reasoning":
			// Without its content it is only a name, which the provider does not know because it
			// stores nothing.
			if item.Get("encrypted_content").String() == "" && len(item.Get("content").Array()) == 0 {
				continue
			}
		case "function_call":
			arguments := item.Get("arguments").String()
			if !apijson.IsObject(arguments) {
				raw = apijson.Put(raw, "arguments", `"{}"`)
			}
			if name := item.Get("name").String(); name != apijson.SafeName(name) {
				raw = apijson.Put(raw, "name", string(apijson.Raw(apijson.SafeName(name))))
			}
			a.Calls = append(a.Calls, asking.Call{ID: item.Get("call_id").String(), Name: item.Get("name").String(), Arguments: arguments})
		}
		a.Raw = append(a.Raw, raw)
	}
	for n := len(a.Raw); n > 0 && gjson.GetBytes(a.Raw[n-1], "type").String() == "reasoning"; n-- {
		a.Raw = a.Raw[:n-1] // the API takes no reasoning at the end
	}
	return a
}
