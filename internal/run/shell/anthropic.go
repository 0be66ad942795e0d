package shell

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// anthropic is a conversation in the Messages API. Source:
// https://platform.claude.com/docs/en/api/messages.
type anthropic struct {
	model    string
	bare     bool
	messages []anthropicMessage
}

type anthropicMessage struct {
	Role    string            `json:"role"`
	Content []json.RawMessage `json:"content"`
}

type anthropicRequest struct {
	Model     string             `json:"model"`
	MaxTokens int                `json:"max_tokens"`
	System    []json.RawMessage  `json:"system,omitempty"`
	Tools     []object           `json:"tools,omitempty"`
	Messages  []anthropicMessage `json:"messages"`
	Stream    bool               `json:"stream"`
}

func (*anthropic) headers() map[string]string {
	return map[string]string{"Anthropic-Version": "2023-06-01"}
}

// request returns the request with cache marks on the prompt, and on the last and the last but one
// user message. The latter mark was written by the request before, and is found also after an
// answer with many blocks.
func (c *anthropic) request() (string, any) {
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
	r := anthropicRequest{Model: c.model, MaxTokens: maxTokens, Stream: true, Messages: messages}
	if !c.bare {
		r.System = []json.RawMessage{cached(rawOf(object{"type": "text", "text": SystemPrompt}))}
		r.Tools = []object{{"name": ToolName, "description": ToolDescription, "input_schema": schema()}}
	}
	return "/v1/messages", r
}

func cached(block json.RawMessage) json.RawMessage {
	return set(block, "cache_control", `{"type":"ephemeral"}`)
}

// set returns a JSON object with key set to value, which is JSON.
func set(in json.RawMessage, key, value string) json.RawMessage {
	out, err := sjson.SetRawBytes(slices.Clone(in), key, []byte(value))
	if err != nil {
		return in // not an object
	}
	return out
}

func (c *anthropic) user(text string) {
	block := rawOf(object{"type": "text", "text": text})
	if n := len(c.messages); n > 0 && c.messages[n-1].Role == "user" {
		c.messages[n-1].Content = append(slices.Clip(c.messages[n-1].Content), block)
		return
	}
	c.messages = append(c.messages, anthropicMessage{"user", []json.RawMessage{block}})
}

func (c *anthropic) add(a answer) {
	if len(a.raw) > 0 {
		c.messages = append(c.messages, anthropicMessage{"assistant", a.raw})
	}
}

func (c *anthropic) results(list []reply) {
	var blocks []json.RawMessage
	for _, r := range list {
		block := object{"type": "tool_result", "tool_use_id": r.call.id, "content": r.text}
		if r.failed {
			block["is_error"] = true
		}
		blocks = append(blocks, rawOf(block))
	}
	c.messages = append(c.messages, anthropicMessage{"user", blocks})
}

func (*anthropic) adapt(int, []byte) bool { return false }

func (*anthropic) reader() reader { return &anthropicReader{blocks: map[int64]*anthropicBlock{}} }

type anthropicReader struct {
	blocks map[int64]*anthropicBlock
	why    string
	failed string
	whole  bool
}

// anthropicBlock is a content block: its first event, and the deltas that were added.
type anthropicBlock struct {
	begin                            json.RawMessage
	text, thinking, signature, input strings.Builder
}

func (r *anthropicReader) event(data []byte) {
	e := gjson.ParseBytes(data)
	at := e.Get("index").Int()
	switch e.Get("type").String() {
	case "content_block_start":
		if len(r.blocks) < maxParts {
			r.blocks[at] = &anthropicBlock{begin: copied(e.Get("content_block"))}
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
		r.failed = firstOf(e.Get("error.message").String(), e.Get("error.type").String(), "error")
	}
}

func (r *anthropicReader) plain(all gjson.Result) {
	for i, b := range all.Get("content").Array() {
		if len(r.blocks) < maxParts {
			r.blocks[int64(i)] = &anthropicBlock{begin: copied(b)}
		}
	}
	r.why, r.whole = all.Get("stop_reason").String(), true
}

func (r *anthropicReader) ended() bool { return r.whole }

func (r *anthropicReader) answer() answer {
	a := answer{why: r.why, end: endOf(r.why), failed: r.failed}
	order := slices.Sorted(maps.Keys(r.blocks))
	for i, at := range order {
		b := r.blocks[at]
		begin := gjson.ParseBytes(b.begin)
		raw := b.begin
		// more returns the whole text of a field.
		more := func(key string, added *strings.Builder) string {
			text := begin.Get(key).String() + added.String()
			if added.Len() > 0 {
				raw = set(raw, key, string(rawOf(text)))
			}
			return text
		}
		switch begin.Get("type").String() {
		case "text":
			text := more("text", &b.text)
			if strings.TrimSpace(text) == "" {
				continue // the API takes none that are blank
			}
			a.text += text
		case "thinking":
			more("thinking", &b.thinking)
			if signature := more("signature", &b.signature); signature == "" && a.end == endLength && i == len(order)-1 {
				continue // it was cut off, and the API takes none without a signature
			}
		case "tool_use":
			input := b.input.String()
			if strings.TrimSpace(input) == "" {
				input = begin.Get("input").Raw
			}
			raw = set(raw, "input", orEmpty(input))
			if name := begin.Get("name").String(); name != safeName(name) {
				raw = set(raw, "name", string(rawOf(safeName(name))))
			}
			a.calls = append(a.calls, call{id: begin.Get("id").String(), name: begin.Get("name").String(), arguments: input})
		}
		a.raw = append(a.raw, raw)
	}
	return a
}
