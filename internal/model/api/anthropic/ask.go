package anthropic

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

// conversation is one in the Messages API. Source:
// https://platform.claude.com/docs/en/api/messages.
type conversation struct {
	asking.Options
	messages []askedMessage
}

// maxTokens is the maximum length of an answer, which requests must have.
const maxTokens = 16000

type askedMessage struct {
	Role    string            `json:"role"`
	Content []json.RawMessage `json:"content"`
}

type askedRequest struct {
	Model     string            `json:"model"`
	MaxTokens int               `json:"max_tokens"`
	System    []json.RawMessage `json:"system,omitempty"`
	Tools     []apijson.Object  `json:"tools,omitempty"`
	Messages  []askedMessage    `json:"messages"`
	Stream    bool              `json:"stream"`
}

// Ask implements api.Protocol.
func (API) Ask(o asking.Options) asking.Conversation {
	return &conversation{Options: o}
}

// Request returns the request with cache marks on the prompt, and on the last and the last but one
// user message. The latter mark was written by the request before, and is found also after an
// answer with many blocks.
func (c *conversation) Request() (string, any) {
	messages := slices.Clone(c.messages)
	marks := 0
	for i, m := range slices.Backward(messages) {
		if m.Role == "user" && marks < 2 {
			marks++
			m.Content = slices.Clone(m.Content)
			last := len(m.Content) - 1
			m.Content[last] = cached(m.Content[last])
			messages[i] = m
		}
	}
	r := askedRequest{Model: c.Model, MaxTokens: maxTokens, Stream: true, Messages: messages}
	if c.System != "" {
		r.System = []json.RawMessage{cached(apijson.Raw(apijson.Object{"type": "text", "text": c.System}))}
	}
	if c.Tool != nil {
		r.Tools = []apijson.Object{{"name": c.Tool.Name, "description": c.Tool.Description, "input_schema": apijson.Schema(c.Tool, apijson.Same)}}
	}
	return "/v1/messages", r
}

func cached(block json.RawMessage) json.RawMessage {
	return apijson.Put(block, "cache_control", `{"type":"ephemeral"}`)
}

// User implements asking.Conversation.
func (c *conversation) User(text string) {
	block := apijson.Raw(apijson.Object{"type": "text", "text": text})
	if n := len(c.messages); n > 0 && c.messages[n-1].Role == "user" {
		c.messages[n-1].Content = append(slices.Clip(c.messages[n-1].Content), block)
		return
	}
	c.messages = append(c.messages, askedMessage{"user", []json.RawMessage{block}})
}

// Add implements asking.Conversation.
func (c *conversation) Add(a asking.Answer) {
	if len(a.Raw) > 0 {
		c.messages = append(c.messages, askedMessage{"assistant", a.Raw})
	}
}

// Results implements asking.Conversation.
func (c *conversation) Results(list []asking.Result) {
	var blocks []json.RawMessage
	for _, r := range list {
		block := apijson.Object{"type": "tool_result", "tool_use_id": r.Call.ID, "content": r.Text}
		if r.Failed {
			block["is_error"] = true
		}
		blocks = append(blocks, apijson.Raw(block))
	}
	c.messages = append(c.messages, askedMessage{"user", blocks})
}

// Adapt implements asking.Conversation.
func (*conversation) Adapt(int, []byte) bool { return false }

// Reader implements asking.Conversation.
func (*conversation) Reader() asking.Reader { return &answerReader{blocks: map[int64]*askedBlock{}} }

type answerReader struct {
	blocks map[int64]*askedBlock
	why    string
	failed string
	whole  bool
}

// askedBlock is a content block: its first event, and the deltas that were added.
type askedBlock struct {
	begin                            json.RawMessage
	text, thinking, signature, input strings.Builder
}

// Event implements asking.Reader.
func (r *answerReader) Event(data []byte) {
	e := gjson.ParseBytes(data)
	at := e.Get("index").Int()
	switch e.Get("type").String() {
	case "content_block_start":
		if len(r.blocks) < apijson.MaxParts {
			r.blocks[at] = &askedBlock{begin: apijson.Copied(e.Get("content_block"))}
		}
	case "content_block_delta":
		if b, d := r.blocks[at], e.Get("delta"); b != nil {
			b.text.WriteString(d.Get("text").String())
			b.thinking.WriteString(d.Get("thinking").String())
			b.signature.WriteString(d.Get("signature").String())
			b.input.WriteString(d.Get("partial_json").String())
		}
	case "message_delta":
		if why := e.Get("delta.stop_reason").String(); why != "" {
			r.why = why
		}
	case "message_stop":
		r.whole = true
	case "error":
		r.failed = cmp.Or(e.Get("error.message").String(), e.Get("error.type").String(), "error")
	}
}

// Plain implements asking.Reader.
func (r *answerReader) Plain(all gjson.Result) {
	for i, b := range all.Get("content").Array() {
		if len(r.blocks) < apijson.MaxParts {
			r.blocks[int64(i)] = &askedBlock{begin: apijson.Copied(b)}
		}
	}
	r.why, r.whole = all.Get("stop_reason").String(), true
}

// Ended implements asking.Reader.
func (r *answerReader) Ended() bool { return r.whole }

// Answer implements asking.Reader.
func (r *answerReader) Answer() asking.Answer {
	a := asking.Answer{Why: r.why, Failed: r.failed}
	order := slices.Sorted(maps.Keys(r.blocks))
	for i, at := range order {
		b := r.blocks[at]
		begin := gjson.ParseBytes(b.begin)
		raw := b.begin
		// more returns the whole text of a field.
		more := func(key string, added *strings.Builder) string {
			text := begin.Get(key).String() + added.String()
			if added.Len() > 0 {
				raw = apijson.Put(raw, key, string(apijson.Raw(text)))
			}
			return text
		}
		switch begin.Get("type").String() {
		case "text":
			text := more("text", &b.text)
			if strings.TrimSpace(text) == "" {
				continue // the API takes none that are blank
			}
			a.Text += text
		case "thinking":
			more("thinking", &b.thinking)
			if signature := more("signature", &b.signature); signature == "" && a.Why == facts.Truncated && i == len(order)-1 {
				continue // it was cut off, and the API takes none without a signature
			}
		case "tool_use":
			input := b.input.String()
			if strings.TrimSpace(input) == "" {
				input = begin.Get("input").Raw
			}
			raw = apijson.Put(raw, "input", apijson.OrEmpty(input))
			if name := begin.Get("name").String(); name != apijson.SafeName(name) {
				raw = apijson.Put(raw, "name", string(apijson.Raw(apijson.SafeName(name))))
			}
			a.Calls = append(a.Calls, asking.Call{ID: begin.Get("id").String(), Name: begin.Get("name").String(), Arguments: input})
		}
		a.Raw = append(a.Raw, raw)
	}
	return a
}
