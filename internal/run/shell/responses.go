package shell

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// responses is a conversation in the Responses API. The provider stores nothing: reasoning arrives
// encrypted and is sent back.
// Source: https://platform.openai.com/docs/guides/reasoning.
type responses struct {
	model string
	bare  bool
	items []json.RawMessage
	// open is set if the model has no encrypted reasoning.
	open bool
}

type responsesRequest struct {
	Model        string            `json:"model"`
	Instructions string            `json:"instructions,omitempty"`
	Input        []json.RawMessage `json:"input"`
	Tools        []object          `json:"tools,omitempty"`
	Store        bool              `json:"store"`
	Include      []string          `json:"include,omitempty"`
	Stream       bool              `json:"stream"`
}

func (*responses) headers() map[string]string { return nil }

func (c *responses) request() (string, any) {
	r := responsesRequest{Model: c.model, Input: c.items, Stream: true, Include: []string{"reasoning.encrypted_content"}}
	if !c.bare {
		r.Instructions = SystemPrompt
		r.Tools = []object{{"type": "function", "name": ToolName, "description": ToolDescription, "parameters": schema(), "strict": false}}
	}
	if c.open {
		r.Include = nil
	}
	return "/v1/responses", r
}

func (c *responses) user(text string) {
	c.items = append(c.items, rawOf(object{"role": "user", "content": text}))
}

func (c *responses) add(a answer) { c.items = append(c.items, a.raw...) }

func (c *responses) results(list []reply) {
	for _, r := range list {
		c.items = append(c.items, rawOf(object{"type": "function_call_output", "call_id": r.call.id, "output": r.text}))
	}
}

// adapt handles models that do not reason: they refuse to return encrypted reasoning, with
// "Encrypted content is not supported with this model".
func (c *responses) adapt(status int, body []byte) bool {
	if c.open || status != 400 {
		return false
	}
	failed := gjson.GetBytes(body, "error")
	c.open = failed.Get("param").String() == "include" || strings.Contains(strings.ToLower(failed.Get("message").String()), "encrypted content")
	return c.open
}

func (*responses) reader() reader { return &responsesReader{items: map[int64]json.RawMessage{}} }

type responsesReader struct {
	items  map[int64]json.RawMessage // that are complete
	output []json.RawMessage         // of the last event
	why    string
	failed string
	whole  bool
}

func (r *responsesReader) event(data []byte) {
	e := gjson.ParseBytes(data)
	switch e.Get("type").String() {
	case "response.output_item.done":
		if len(r.items) < maxParts {
			r.items[e.Get("output_index").Int()] = copied(e.Get("item"))
		}
	case "response.completed", "response.incomplete", "response.failed":
		r.plain(e.Get("response"))
	case "error":
		r.failed = firstOf(e.Get("message").String(), e.Get("error.message").String(), "error")
	}
}

func (r *responsesReader) plain(all gjson.Result) {
	for _, item := range all.Get("output").Array() {
		if len(r.output) < maxParts {
			r.output = append(r.output, copied(item))
		}
	}
	r.why, r.whole = all.Get("incomplete_details.reason").String(), true
	if failed := all.Get("error"); failed.IsObject() || all.Get("status").String() == "failed" {
		r.failed = firstOf(failed.Get("message").String(), failed.Get("code").String(), "the response failed")
	}
}

func (r *responsesReader) ended() bool { return r.whole }

func (r *responsesReader) answer() answer {
	a := answer{why: r.why, end: endOf(r.why), failed: r.failed}
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
			a.text += text
		case "reasoning":
			// Without its content it is only a name, which the provider does not know because it
			// stores nothing.
			if item.Get("encrypted_content").String() == "" && len(item.Get("content").Array()) == 0 {
				continue
			}
		case "function_call":
			arguments := item.Get("arguments").String()
			if !isObject(arguments) {
				raw = set(raw, "arguments", `"{}"`)
			}
			if name := item.Get("name").String(); name != safeName(name) {
				raw = set(raw, "name", string(rawOf(safeName(name))))
			}
			a.calls = append(a.calls, call{id: item.Get("call_id").String(), name: item.Get("name").String(), arguments: arguments})
		}
		a.raw = append(a.raw, raw)
	}
	for n := len(a.raw); n > 0 && gjson.GetBytes(a.raw[n-1], "type").String() == "reasoning"; n-- {
		a.raw = a.raw[:n-1] // the API takes no reasoning at the end
	}
	return a
}
