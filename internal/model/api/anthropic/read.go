package anthropic

import (
	"cmp"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api/internal/apijson"
	"github.com/org/rollout-action/internal/model/sse"
)

// Conversation implements api.Protocol.
func (API) Conversation(_ string, body []byte) model.Conversation {
	var c model.Conversation
	root := gjson.ParseBytes(body)
	if parts := partsOf(root.Get("system")); len(parts) > 0 {
		c.Messages = append(c.Messages, model.Message{Role: "system", Parts: parts})
	}
	root.Get("messages").ForEach(func(_, m gjson.Result) bool {
		c.Messages = append(c.Messages, apijson.SplitResults(model.Message{Role: m.Get("role").String(), Parts: partsOf(m.Get("content"))})...)
		return true
	})
	root.Get("tools").ForEach(func(_, t gjson.Result) bool {
		c.Tools = append(c.Tools, model.Tool{Name: t.Get("name").String(), Description: t.Get("description").String(), Parameters: apijson.Copy(t.Get("input_schema"))})
		return true
	})
	return c
}

func partsOf(content gjson.Result) []model.Part {
	if content.Type == gjson.String {
		return []model.Part{{Type: model.PartText, Text: content.String()}}
	}
	var parts []model.Part
	content.ForEach(func(_, b gjson.Result) bool {
		switch kind := b.Get("type").String(); kind {
		case "text":
			parts = append(parts, model.Part{Type: model.PartText, Text: b.Get("text").String()})
		case "thinking":
			parts = append(parts, model.Part{Type: model.PartReasoning, Text: b.Get("thinking").String()})
		case "redacted_thinking":
			parts = append(parts, model.Part{Type: model.PartReasoning, Media: kind})
		case "tool_use", "server_tool_use":
			parts = append(parts, model.Part{Type: model.PartCall, ID: b.Get("id").String(), Name: b.Get("name").String(), Arguments: apijson.Arguments(b.Get("input").Raw)})
		case "tool_result":
			parts = append(parts, model.Part{
				Type: model.PartResult, ID: b.Get("tool_use_id").String(), Text: apijson.Text(partsOf(b.Get("content"))), Failed: b.Get("is_error").Bool(),
			})
		default:
			media := b.Get("source.media_type").String()
			if media == "" {
				media = kind
			}
			parts = append(parts, model.Part{Type: model.PartMedia, Media: media})
		}
		return true
	})
	return parts
}

// counts collects usage objects. Each has the state of the whole message, but may leave out
// counts that an earlier one stated.
type counts struct {
	own   model.Usage  // Input is without tokens that were read from or written to a cache
	apart *model.Usage // of iterations that are not in the counts of the message
}

func (s *counts) read(v gjson.Result) {
	u := &s.own
	for path, to := range map[string]**int64{
		"input_tokens": &u.Input, "cache_read_input_tokens": &u.Cached, "cache_creation_input_tokens": &u.CacheWrite,
		"cache_creation.ephemeral_1h_input_tokens": &u.CacheWriteHour, "output_tokens": &u.Output,
		"output_tokens_details.thinking_tokens": &u.Reasoning, "server_tool_use.web_search_requests": &u.Searches,
	} {
		if n := apijson.Number(v.Get(path)); n != nil {
			*to = n
		}
	}
	v.Get("server_tool_use").ForEach(func(name, n gjson.Result) bool {
		// Fetching costs only its tokens.
		u.Apart = u.Apart || n.Int() > 0 && name.Str != "web_search_requests" && name.Str != "web_fetch_requests"
		return true
	})
	if list := v.Get("iterations"); list.IsArray() {
		s.apart = iterations(list)
	}
}

// iterations returns the usage of the iterations that are billed apart from the message, such as
// those that compact the conversation. Source: the documentation of compaction, "Understanding
// usage".
func iterations(list gjson.Result) *model.Usage {
	var out *model.Usage
	list.ForEach(func(_, one gjson.Result) bool {
		if one.Get("type").String() == "message" {
			return true
		}
		var s counts
		s.read(one)
		u := s.usage()
		u.Apart = one.Get("model").String() != "" // which has another price
		if out != nil {
			u = out.Plus(u)
		}
		out = &u
		return true
	})
	return out
}

// usage returns the sum. Input includes the tokens that were read from or written to a cache.
func (s *counts) usage() model.Usage {
	u := s.own
	if u.Input != nil {
		u.Input = apijson.Add(u.Input, u.Cached, u.CacheWrite)
	}
	if s.apart != nil {
		u = u.Plus(*s.apart)
	}
	return u
}

// Answer implements api.Protocol.
func (API) Answer(body []byte) model.Answer {
	root := gjson.ParseBytes(body)
	var usage counts
	usage.read(root.Get("usage"))
	return model.Answer{
		Message: model.Message{Role: "assistant", Parts: partsOf(root.Get("content"))}, Model: root.Get("model").String(),
		ID: root.Get("id").String(), Finish: root.Get("stop_reason").String(), Usage: usage.usage(),
	}
}

// Reader implements api.Protocol.
func (API) Reader([]byte) model.StreamReader { return &reader{} }

type reader struct {
	a     model.Answer
	usage counts
	parts apijson.Blocks
	ended bool
}

// Read implements model.StreamReader.
func (r *reader) Read(e sse.Event) (hide, last bool) {
	root := gjson.ParseBytes(e.Data)
	switch root.Get("type").String() {
	case "message_start":
		m := root.Get("message")
		r.a.ID, r.a.Model = m.Get("id").String(), m.Get("model").String()
		r.usage.read(m.Get("usage"))
	case "content_block_start":
		b, at := root.Get("content_block"), int(root.Get("index").Int())
		for _, p := range partsOf(gjson.Parse("[" + b.Raw + "]")) {
			if p.Type == model.PartCall {
				p.Arguments = nil // of the deltas
			}
			r.parts.Put(at, p)
		}
	case "content_block_delta":
		d, at := root.Get("delta"), int(root.Get("index").Int())
		r.parts.Add(at, d.Get("text").String()+d.Get("thinking").String(), d.Get("partial_json").String())
	case "message_delta":
		if stop := root.Get("delta.stop_reason").String(); stop != "" {
			r.a.Finish = stop
		}
		r.usage.read(root.Get("usage"))
	case "error":
		r.a.Failed = cmp.Or(root.Get("error.message").String(), root.Get("error.type").String(), "error")
	case "message_stop":
		r.ended = true
		return false, true
	}
	return false, false
}

// Answer implements model.StreamReader.
func (r *reader) Answer() (model.Answer, bool) {
	r.a.Message, r.a.Usage = model.Message{Role: "assistant", Parts: r.parts.All()}, r.usage.usage()
	return r.a, r.ended
}
