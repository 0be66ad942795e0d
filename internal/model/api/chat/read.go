package chat

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api/internal/apijson"
	"github.com/org/rollout-action/internal/model/api/internal/openai"
	"github.com/org/rollout-action/internal/model/sse"
)

// Conversation implements api.Protocol.
func (API) Conversation(_ string, body []byte) model.Conversation {
	var c model.Conversation
	root := gjson.ParseBytes(body)
	root.Get("messages").ForEach(func(_, m gjson.Result) bool {
		c.Messages = append(c.Messages, messageOf(m))
		return true
	})
	root.Get("tools").ForEach(func(_, t gjson.Result) bool {
		f := t.Get("function")
		c.Tools = append(c.Tools, model.Tool{Name: f.Get("name").String(), Description: f.Get("description").String(), Parameters: apijson.Copy(f.Get("parameters"))})
		return true
	})
	return c
}

func messageOf(m gjson.Result) model.Message {
	role := m.Get("role").String()
	if role == "developer" {
		role = "system"
	}
	if role == "tool" || role == "function" {
		return model.Message{Role: "tool", Parts: []model.Part{{Type: model.PartResult, ID: m.Get("tool_call_id").String(), Text: apijson.Text(partsOf(m.Get("content")))}}}
	}
	out := model.Message{Role: role}
	if reasoning := cmp.Or(m.Get("reasoning_content").String(), m.Get("reasoning").String()); reasoning != "" {
		out.Parts = append(out.Parts, model.Part{Type: model.PartReasoning, Text: reasoning})
	}
	out.Parts = append(out.Parts, partsOf(m.Get("content"))...)
	m.Get("tool_calls").ForEach(func(_, call gjson.Result) bool {
		f := call.Get("function")
		out.Parts = append(out.Parts, model.Part{Type: model.PartCall, ID: call.Get("id").String(), Name: f.Get("name").String(), Arguments: apijson.Arguments(f.Get("arguments").String())})
		return true
	})
	return out
}

func partsOf(content gjson.Result) []model.Part {
	if content.Type == gjson.String {
		if content.String() == "" {
			return nil
		}
		return []model.Part{{Type: model.PartText, Text: content.String()}}
	}
	var parts []model.Part
	content.ForEach(func(_, b gjson.Result) bool {
		switch kind := b.Get("type").String(); kind {
		case "text", "refusal":
			parts = append(parts, model.Part{Type: model.PartText, Text: cmp.Or(b.Get("text").String(), b.Get("refusal").String())})
		default:
			parts = append(parts, model.Part{Type: model.PartMedia, Media: kind})
		}
		return true
	})
	return parts
}

// usageOf reads a usage object. Its prompt_tokens include tokens that were read from a cache.
func usageOf(v gjson.Result, u model.Usage) model.Usage {
	if !v.IsObject() {
		return u
	}
	return openai.ReasoningOutside(model.Usage{
		Input: apijson.Number(v.Get("prompt_tokens")), Output: apijson.Number(v.Get("completion_tokens")),
		Cached:     apijson.FirstNumber(v, "prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens", "cached_tokens"),
		CacheWrite: apijson.Number(v.Get("prompt_tokens_details.cache_write_tokens")), Reasoning: apijson.Number(v.Get("completion_tokens_details.reasoning_tokens")),
		Searches: apijson.FirstNumber(v, "server_tool_use.web_search_requests", "num_search_queries"), Apart: v.Get("num_sources_used").Int() > 0,
		CostUSD: openai.Cost(v),
	}, apijson.Number(v.Get("total_tokens")))
}

// Answer implements api.Protocol.
func (API) Answer(body []byte) model.Answer {
	root := gjson.ParseBytes(body)
	a := model.Answer{Message: model.Message{Role: "assistant"}, Model: root.Get("model").String(), ID: root.Get("id").String(), Usage: usageOf(root.Get("usage"), model.Usage{})}
	choices := map[int]model.Message{}
	root.Get("choices").ForEach(func(at, choice gjson.Result) bool {
		index := int(at.Int())
		if own := choice.Get("index"); own.Type == gjson.Number {
			index = int(own.Int())
		}
		if index == 0 {
			a.Finish = choice.Get("finish_reason").String()
		}
		if len(choices) < maxChoices {
			choices[index] = messageOf(choice.Get("message"))
		}
		return true
	})
	for _, index := range slices.Sorted(maps.Keys(choices)) {
		if m := choices[index]; index == 0 {
			a.Message = m
		} else {
			a.Choices = append(a.Choices, m)
		}
	}
	return a
}

// maxChoices is the maximum number of answers to one request that are kept.
const maxChoices = 128

// Reader implements api.Protocol.
func (API) Reader(asked []byte) model.StreamReader {
	return &reader{wantsUsage: gjson.GetBytes(asked, "stream_options.include_usage").Bool()}
}

// Indexes of the parts of a chat answer in its blocks. Calls follow.
const (
	chatReasoning = iota
	chatText
	chatCalls
)

type reader struct {
	a          model.Answer
	choices    map[int]*apijson.Blocks // by index
	ended      bool
	wantsUsage bool
}

// of returns the apijson.Blocks of the choice with an index; apijson.Blocks to discard if there are
// too many.
func (r *reader) of(index int) *apijson.Blocks {
	if r.choices == nil {
		r.choices = map[int]*apijson.Blocks{}
	}
	if r.choices[index] == nil {
		if len(r.choices) >= maxChoices {
			return &apijson.Blocks{}
		}
		r.choices[index] = &apijson.Blocks{}
	}
	return r.choices[index]
}

// Read implements model.StreamReader.
func (r *reader) Read(e sse.Event) (hide, last bool) {
	if sse.IsDone(e.Data) {
		r.ended = true
		return false, true
	}
	root := gjson.ParseBytes(e.Data)
	r.a.ID, r.a.Model = cmp.Or(r.a.ID, root.Get("id").String()), cmp.Or(r.a.Model, root.Get("model").String())
	if failed := root.Get("error"); failed.Exists() {
		r.a.Failed = cmp.Or(failed.Get("message").String(), failed.String(), "error")
	}
	usage := root.Get("usage")
	r.a.Usage = usageOf(usage, r.a.Usage)
	choices := root.Get("choices")
	choices.ForEach(func(_, choice gjson.Result) bool {
		index := int(choice.Get("index").Int())
		readDelta(choice.Get("delta"), r.of(index))
		if finish := choice.Get("finish_reason").String(); finish != "" && index == 0 {
			r.a.Finish = finish
		}
		return true
	})
	onlyUsage := usage.IsObject() && choices.IsArray() && len(choices.Array()) == 0
	return onlyUsage && !r.wantsUsage, false
}

// readDelta adds a piece of an answer.
func readDelta(d gjson.Result, parts *apijson.Blocks) {
	if text := d.Get("content"); text.Type == gjson.String && text.Str != "" {
		parts.At(chatText, model.PartText)
		parts.Add(chatText, text.Str, "")
	}
	if text := cmp.Or(d.Get("reasoning_content").String(), d.Get("reasoning").String()); text != "" {
		parts.At(chatReasoning, model.PartReasoning)
		parts.Add(chatReasoning, text, "")
	}
	d.Get("tool_calls").ForEach(func(_, call gjson.Result) bool {
		at := chatCalls + int(max(0, min(call.Get("index").Int(), apijson.MaxParts)))
		if one := parts.At(at, model.PartCall); one != nil {
			one.Part.ID, one.Part.Name = cmp.Or(one.Part.ID, call.Get("id").String()), cmp.Or(one.Part.Name, call.Get("function.name").String())
		}
		parts.Add(at, "", call.Get("function.arguments").String())
		return true
	})
}

// Answer implements model.StreamReader.
func (r *reader) Answer() (model.Answer, bool) {
	r.a.Message, r.a.Choices = model.Message{Role: "assistant"}, nil
	for _, index := range slices.Sorted(maps.Keys(r.choices)) {
		if parts := r.choices[index].All(); index == 0 {
			r.a.Message.Parts = parts
		} else {
			r.a.Choices = append(r.a.Choices, model.Message{Role: "assistant", Parts: parts})
		}
	}
	return r.a, r.ended
}
