package model

import (
	"bytes"
	"fmt"
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model/inspect"
	"github.com/org/rollout-action/internal/model/meter"
	"github.com/org/rollout-action/internal/model/sse"
)

// chat is OpenAI's Chat Completions API, which many providers and model servers implement.
type chat struct{}

func (chat) route(method, path string) route {
	switch path = versionless(path, "v1"); {
	case method == http.MethodPost && path == "/chat/completions":
		return routeTurn
	case method == http.MethodGet && path == "/models":
		return routeList
	}
	return routeNone
}

func (chat) streams(_ string, body []byte) bool { return gjson.GetBytes(body, "stream").Bool() }

func (c chat) prepare(path string, body []byte, m *Model) (string, []byte, error) {
	body, err := set(body, "model", m.Upstream)
	if err == nil {
		body, err = setAll(body, "", m.Sampling, nil)
	}
	if err == nil && c.streams(path, body) && !gjson.GetBytes(body, "stream_options.include_usage").Bool() {
		body, err = set(body, "stream_options.include_usage", true)
	}
	if err == nil && m.Tokens {
		body, err = asksForTokens(body)
	}
	return "/v1" + versionless(path, "v1"), body, err
}

func (chat) rules() inspect.Rules {
	return inspect.Rules{
		Client: func(t inspect.Tool) bool { return t.Type == "" || t.Type == "function" || t.Type == "custom" },
		Text:   typedText("text"),
	}
}

func (chat) conversation(_ string, body []byte) Conversation {
	var c Conversation
	root := gjson.ParseBytes(body)
	root.Get("messages").ForEach(func(_, m gjson.Result) bool {
		c.Messages = append(c.Messages, chatMessage(m))
		return true
	})
	root.Get("tools").ForEach(func(_, t gjson.Result) bool {
		f := t.Get("function")
		c.Tools = append(c.Tools, Tool{Name: f.Get("name").String(), Description: f.Get("description").String(), Parameters: rawJSON(f.Get("parameters"))})
		return true
	})
	return c
}

func chatMessage(m gjson.Result) Message {
	role := m.Get("role").String()
	if role == "developer" {
		role = "system"
	}
	if role == "tool" || role == "function" {
		return Message{Role: "tool", Parts: []Part{{Type: PartResult, ID: m.Get("tool_call_id").String(), Text: textOf(chatParts(m.Get("content")))}}}
	}
	out := Message{Role: role}
	if reasoning := firstNonEmpty(m.Get("reasoning_content").String(), m.Get("reasoning").String()); reasoning != "" {
		out.Parts = append(out.Parts, Part{Type: PartReasoning, Text: reasoning})
	}
	out.Parts = append(out.Parts, chatParts(m.Get("content"))...)
	m.Get("tool_calls").ForEach(func(_, call gjson.Result) bool {
		f := call.Get("function")
		out.Parts = append(out.Parts, Part{Type: PartCall, ID: call.Get("id").String(), Name: f.Get("name").String(), Arguments: raw(f.Get("arguments").String())})
		return true
	})
	return out
}

func chatParts(content gjson.Result) []Part {
	if content.Type == gjson.String {
		if content.String() == "" {
			return nil
		}
		return []Part{{Type: PartText, Text: content.String()}}
	}
	var parts []Part
	content.ForEach(func(_, b gjson.Result) bool {
		switch kind := b.Get("type").String(); kind {
		case "text", "refusal":
			parts = append(parts, Part{Type: PartText, Text: firstNonEmpty(b.Get("text").String(), b.Get("refusal").String())})
		default:
			parts = append(parts, Part{Type: PartMedia, Media: kind})
		}
		return true
	})
	return parts
}

// chatUsage reads a usage object. Its prompt_tokens include tokens that were read from a cache.
func chatUsage(v gjson.Result, u Usage) Usage {
	if !v.IsObject() {
		return u
	}
	return reasoningOutside(Usage{
		Input: number(v.Get("prompt_tokens")), Output: number(v.Get("completion_tokens")),
		Cached:     firstNumber(v, "prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens", "cached_tokens"),
		CacheWrite: number(v.Get("prompt_tokens_details.cache_write_tokens")), Reasoning: number(v.Get("completion_tokens_details.reasoning_tokens")),
		Searches: firstNumber(v, "server_tool_use.web_search_requests", "num_search_queries"), Apart: v.Get("num_sources_used").Int() > 0,
		CostUSD: ownCost(v),
	}, number(v.Get("total_tokens")))
}

// ownCost returns the cost that an OpenAI-like provider states, in US dollars; nil if it states
// none. xAI's ticks are 1e-10 US dollars.
func ownCost(v gjson.Result) *float64 {
	if ticks := v.Get("cost_in_usd_ticks"); ticks.Type == gjson.Number && ticks.Num >= 0 && ticks.Num <= 1e16 {
		return new(ticks.Num / 1e10)
	}
	return dollars(v.Get("cost"))
}

// reasoningOutside adds the reasoning to the output if the total shows that the output does not
// include it, as with xAI. It notes contradictions.
func reasoningOutside(u Usage, total *int64) Usage {
	if total != nil && meter.Value(u.Reasoning) > 0 && u.Input != nil && u.Output != nil && *total == *u.Input+*u.Output+*u.Reasoning {
		u.Output = new(*u.Output + *u.Reasoning)
	}
	u.Contradiction = contradiction(u, total)
	return u
}

// contradiction returns a description of how counts contradict each other, or "". total is nil or 0
// if it is not stated.
func contradiction(u Usage, total *int64) string {
	input, output := meter.Value(u.Input), meter.Value(u.Output)
	switch {
	case u.Output != nil && meter.Value(u.Reasoning) > output:
		return fmt.Sprintf("%d tokens of output, %d of them reasoning", output, *u.Reasoning)
	case u.Input != nil && meter.Value(u.Cached) > input:
		return fmt.Sprintf("%d tokens of input, %d of them from a cache", input, *u.Cached)
	case meter.Value(total) > 0 && u.Input != nil && u.Output != nil && *total != input+output:
		return fmt.Sprintf("%d tokens in all, %d of input and %d of output", *total, input, output)
	}
	return ""
}

func (chat) answer(body []byte) Answer {
	root := gjson.ParseBytes(body)
	a := Answer{Message: Message{Role: "assistant"}, Model: root.Get("model").String(), ID: root.Get("id").String(), Usage: chatUsage(root.Get("usage"), Usage{})}
	choices := map[int]Message{}
	root.Get("choices").ForEach(func(at, choice gjson.Result) bool {
		index := int(at.Int())
		if own := choice.Get("index"); own.Type == gjson.Number {
			index = int(own.Int())
		}
		if index == 0 {
			a.Finish = choice.Get("finish_reason").String()
		}
		if len(choices) < maxChoices {
			choices[index] = chatMessage(choice.Get("message"))
		}
		return true
	})
	for _, index := range sortedKeys(choices) {
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

func (chat) reader(asked []byte) eventReader {
	return &chatReader{wantsUsage: gjson.GetBytes(asked, "stream_options.include_usage").Bool()}
}

// Indexes of the parts of a chat answer in its blocks. Calls follow.
const (
	chatReasoning = iota
	chatText
	chatCalls
)

type chatReader struct {
	a          Answer
	choices    map[int]*blocks // by index
	ended      bool
	wantsUsage bool
}

// of returns the blocks of the choice with an index; blocks to discard if there are too many.
func (r *chatReader) of(index int) *blocks {
	if r.choices == nil {
		r.choices = map[int]*blocks{}
	}
	if r.choices[index] == nil {
		if len(r.choices) >= maxChoices {
			return &blocks{}
		}
		r.choices[index] = &blocks{}
	}
	return r.choices[index]
}

// isDone reports whether an event's data is the end mark of Chat Completions streams.
func isDone(data []byte) bool { return bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]")) }

func (r *chatReader) read(e sse.Event) (hide, last bool) {
	if isDone(e.Data) {
		r.ended = true
		return false, true
	}
	root := gjson.ParseBytes(e.Data)
	r.a.ID, r.a.Model = firstNonEmpty(r.a.ID, root.Get("id").String()), firstNonEmpty(r.a.Model, root.Get("model").String())
	if failed := root.Get("error"); failed.Exists() {
		r.a.Failed = firstNonEmpty(failed.Get("message").String(), failed.String(), "error")
	}
	usage := root.Get("usage")
	r.a.Usage = chatUsage(usage, r.a.Usage)
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
func readDelta(d gjson.Result, parts *blocks) {
	if text := d.Get("content"); text.Type == gjson.String && text.Str != "" {
		parts.at(chatText, PartText)
		parts.add(chatText, text.Str, "")
	}
	if text := firstNonEmpty(d.Get("reasoning_content").String(), d.Get("reasoning").String()); text != "" {
		parts.at(chatReasoning, PartReasoning)
		parts.add(chatReasoning, text, "")
	}
	d.Get("tool_calls").ForEach(func(_, call gjson.Result) bool {
		at := chatCalls + int(max(0, min(call.Get("index").Int(), maxBlocks)))
		if one := parts.at(at, PartCall); one != nil {
			one.part.ID, one.part.Name = firstNonEmpty(one.part.ID, call.Get("id").String()), firstNonEmpty(one.part.Name, call.Get("function.name").String())
		}
		parts.add(at, "", call.Get("function.arguments").String())
		return true
	})
}

func (r *chatReader) answer() (Answer, bool) {
	r.a.Message, r.a.Choices = Message{Role: "assistant"}, nil
	for _, index := range sortedKeys(r.choices) {
		if parts := r.choices[index].all(); index == 0 {
			r.a.Message.Parts = parts
		} else {
			r.a.Choices = append(r.a.Choices, Message{Role: "assistant", Parts: parts})
		}
	}
	return r.a, r.ended
}

func (chat) authorise(r *http.Request, key string) { r.Header.Set("Authorization", "Bearer "+key) }

// keepAlive returns a comment without the blank line at its end, with which openai-python would
// parse it as JSON.
func (chat) keepAlive([]byte) []byte { return []byte(": keepalive\n") }

func (chat) failure(code int, kind, message string) []byte { return openAIFailure(code, kind, message) }

func (chat) refusalCode() int { return http.StatusBadRequest }

func openAIFailure(code int, kind, message string) []byte {
	name := "invalid_request_error"
	if code >= http.StatusInternalServerError {
		name = "server_error"
	}
	return encoded(map[string]any{"error": map[string]any{"message": message, "type": name, "code": kind, "param": nil}})
}

func firstNumber(v gjson.Result, paths ...string) *int64 {
	for _, path := range paths {
		if n := number(v.Get(path)); n != nil {
			return n
		}
	}
	return nil
}
