package scripted

import (
	"encoding/json"
	"fmt"

	"github.com/org/rollout-action/internal/model"
)

type object = map[string]any

// plain returns the answer as one JSON object.
func (s said) plain(api model.API) []byte {
	switch api {
	case model.Anthropic:
		return encode(s.anthropic())
	case model.OpenAIResponses:
		return encode(s.response("completed"))
	case model.Google:
		return encode(s.google(s.googleParts(), true))
	case model.OpenAIChat:
	}
	message := object{"role": "assistant", "content": s.text}
	if s.reasoning != "" {
		message["reasoning_content"] = s.reasoning
	}
	if len(s.calls) > 0 {
		message["tool_calls"] = s.chatCalls(false)
	}
	choice := s.ids.choice(object{"index": 0, "finish_reason": s.chatFinish(), "message": message}, s.ids.part(0, 1))
	return encode(s.chat("chat.completion", s.ids.answer(object{"choices": []any{choice}, "usage": s.chatUsage()})))
}

// events returns the answer as the events of a stream.
func (s said) events(api model.API, wantsUsage bool) [][]byte {
	switch api {
	case model.Anthropic:
		return s.anthropicEvents()
	case model.OpenAIResponses:
		return s.responsesEvents()
	case model.Google:
		var out [][]byte
		for _, part := range s.googleParts() {
			out = append(out, data(s.google([]any{part}, false), "\r\n"))
		}
		return append(out, data(s.google([]any{object{"text": ""}}, true), "\r\n"))
	case model.OpenAIChat:
	}
	chunk := func(choice, more object) []byte {
		more["choices"] = []any{choice}
		return data(s.chat("chat.completion.chunk", more), "\n")
	}
	delta := func(d object, finish any) []byte {
		return chunk(object{"index": 0, "delta": d, "finish_reason": finish}, object{})
	}
	// The ids of tokens come in parts, as those of a server do.
	begin := s.ids.choice(object{"index": 0, "delta": object{"role": "assistant", "content": ""}, "finish_reason": nil}, s.ids.part(0, 0.5))
	out := [][]byte{chunk(begin, s.ids.answer(object{}))}
	for _, piece := range pieces(s.reasoning) {
		out = append(out, delta(object{"reasoning_content": piece}, nil))
	}
	for _, piece := range pieces(s.text) {
		out = append(out, delta(object{"content": piece}, nil))
	}
	for _, one := range s.chatCalls(true) {
		out = append(out, delta(object{"tool_calls": []any{one}}, nil))
	}
	out = append(out, chunk(s.ids.choice(object{"index": 0, "delta": object{}, "finish_reason": s.chatFinish()}, s.ids.part(0.5, 1)), object{}))
	if wantsUsage {
		out = append(out, data(s.chat("chat.completion.chunk", object{"choices": []any{}, "usage": s.chatUsage()}), "\n"))
	}
	return append(out, []byte("data: [DONE]\n\n"))
}

// pieces splits a text as a model's stream does. The pieces are whole runes.
func pieces(text string) []string {
	const size = 24
	var out []string
	runes := []rune(text)
	for len(runes) > 0 {
		n := min(size, len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}

func data(v any, end string) []byte {
	return []byte("data: " + string(encode(v)) + end + end)
}

func named(name string, v object) []byte {
	v["type"] = name
	return []byte("event: " + name + "\ndata: " + string(encode(v)) + "\n\n")
}

// The chat protocol.

func (s said) chat(kind string, more object) object {
	out := object{"id": s.id, "object": kind, "created": 1, "model": s.model}
	for name, value := range more {
		out[name] = value
	}
	return out
}

func (s said) chatFinish() string {
	switch {
	case s.finish != "":
		return s.finish
	case len(s.calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

func (s said) chatCalls(indexed bool) []any {
	var out []any
	for i, c := range s.calls {
		one := object{"id": c.id, "type": "function", "function": object{"name": c.name, "arguments": string(c.arguments)}}
		if indexed {
			one["index"] = i
		}
		out = append(out, one)
	}
	return out
}

func (s said) chatUsage() object {
	u := s.usage
	return object{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details": object{"cached_tokens": u.Cached, "cache_write_tokens": u.CacheWrite}, "completion_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
}

// The Messages protocol.

func (s said) anthropic() object {
	content := []any{}
	if s.reasoning != "" {
		content = append(content, object{"type": "thinking", "thinking": s.reasoning, "signature": "scripted"})
	}
	if s.text != "" || len(s.calls) == 0 {
		content = append(content, object{"type": "text", "text": s.text})
	}
	for _, c := range s.calls {
		content = append(content, object{"type": "tool_use", "id": "toolu_" + c.id, "name": c.name, "input": c.arguments})
	}
	return object{
		"id": s.id, "type": "message", "role": "assistant", "model": s.model, "content": content, "stop_reason": s.anthropicFinish(), "stop_sequence": nil,
		"usage": s.anthropicUsage(),
	}
}

func (s said) anthropicFinish() string {
	switch {
	case s.finish == "length":
		return "max_tokens"
	case len(s.calls) > 0:
		return "tool_use"
	}
	return "end_turn"
}

func (s said) anthropicUsage() object {
	u := s.usage
	return object{
		"input_tokens": max(0, u.Input-u.Cached-u.CacheWrite), "cache_read_input_tokens": u.Cached, "cache_creation_input_tokens": u.CacheWrite,
		"output_tokens": u.Output, "output_tokens_details": object{"thinking_tokens": u.Reasoning},
	}
}

func (s said) anthropicEvents() [][]byte {
	whole := s.anthropic()
	start := object{}
	for name, value := range whole {
		start[name] = value
	}
	usage := s.anthropicUsage()
	usage["output_tokens"] = 1
	start["content"], start["stop_reason"], start["usage"] = []any{}, nil, usage
	out := [][]byte{named("message_start", object{"message": start})}
	index := 0
	block := func(begin object, deltas ...object) {
		out = append(out, named("content_block_start", object{"index": index, "content_block": begin}))
		for _, d := range deltas {
			out = append(out, named("content_block_delta", object{"index": index, "delta": d}))
		}
		out = append(out, named("content_block_stop", object{"index": index}))
		index++
	}
	if s.reasoning != "" {
		block(object{"type": "thinking", "thinking": "", "signature": ""}, object{"type": "thinking_delta", "thinking": s.reasoning}, object{"type": "signature_delta", "signature": "scripted"})
	}
	if s.text != "" || len(s.calls) == 0 {
		var deltas []object
		for _, piece := range pieces(s.text) {
			deltas = append(deltas, object{"type": "text_delta", "text": piece})
		}
		block(object{"type": "text", "text": ""}, deltas...)
	}
	for _, c := range s.calls {
		var deltas []object
		for _, piece := range pieces(string(c.arguments)) {
			deltas = append(deltas, object{"type": "input_json_delta", "partial_json": piece})
		}
		block(object{"type": "tool_use", "id": "toolu_" + c.id, "name": c.name, "input": object{}}, deltas...)
	}
	return append(out,
		named("message_delta", object{"delta": object{"stop_reason": s.anthropicFinish(), "stop_sequence": nil}, "usage": object{"output_tokens": s.usage.Output, "output_tokens_details": object{"thinking_tokens": s.usage.Reasoning}}}),
		named("message_stop", object{}),
	)
}

// The Responses protocol.

func (s said) items(status string) []object {
	var out []object
	if s.reasoning != "" {
		out = append(out, object{"type": "reasoning", "id": "rs_" + s.id, "summary": []any{object{"type": "summary_text", "text": s.reasoning}}})
	}
	if s.text != "" || len(s.calls) == 0 {
		out = append(out, object{
			"type": "message", "id": "msg_" + s.id, "role": "assistant", "status": status,
			"content": []any{object{"type": "output_text", "text": s.text, "annotations": []any{}}},
		})
	}
	for i, c := range s.calls {
		out = append(out, object{"type": "function_call", "id": fmt.Sprintf("fc_%s_%d", s.id, i), "call_id": c.id, "name": c.name, "arguments": string(c.arguments), "status": status})
	}
	return out
}

func (s said) response(status string) object {
	u := s.usage
	out := object{
		"id": "resp_" + s.id, "object": "response", "created_at": 1, "status": status, "model": s.model, "output": s.items("completed"), "error": nil,
		"parallel_tool_calls": true, "tools": []any{}, "tool_choice": "auto", "incomplete_details": nil,
		"usage": object{
			"input_tokens": u.Input, "input_tokens_details": object{"cached_tokens": u.Cached, "cache_write_tokens": u.CacheWrite},
			"output_tokens": u.Output, "output_tokens_details": object{"reasoning_tokens": u.Reasoning}, "total_tokens": u.Input + u.Output,
		},
	}
	if s.finish == "length" {
		out["status"], out["incomplete_details"] = "incomplete", object{"reason": "max_output_tokens"}
	}
	return out
}

func (s said) responsesEvents() [][]byte {
	var out [][]byte
	add := func(name string, v object) {
		v["sequence_number"] = len(out)
		out = append(out, named(name, v))
	}
	begin := s.response("in_progress")
	begin["output"], begin["usage"], begin["status"], begin["incomplete_details"] = []any{}, nil, "in_progress", nil
	add("response.created", object{"response": begin})
	add("response.in_progress", object{"response": begin})
	for i, item := range s.items("completed") {
		id := item["id"]
		switch item["type"] {
		case "message":
			add("response.output_item.added", object{"output_index": i, "item": object{"type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": []any{}}})
			part := object{"type": "output_text", "text": "", "annotations": []any{}}
			at := func(more object) object {
				out := object{"item_id": id, "output_index": i, "content_index": 0}
				for name, value := range more {
					out[name] = value
				}
				return out
			}
			add("response.content_part.added", at(object{"part": part}))
			for _, piece := range pieces(s.text) {
				add("response.output_text.delta", at(object{"delta": piece}))
			}
			add("response.output_text.done", at(object{"text": s.text}))
			add("response.content_part.done", at(object{"part": object{"type": "output_text", "text": s.text, "annotations": []any{}}}))
		case "function_call":
			empty := object{"type": "function_call", "id": id, "call_id": item["call_id"], "name": item["name"], "arguments": "", "status": "in_progress"}
			add("response.output_item.added", object{"output_index": i, "item": empty})
			add("response.function_call_arguments.delta", object{"item_id": id, "output_index": i, "delta": item["arguments"]})
			add("response.function_call_arguments.done", object{"item_id": id, "output_index": i, "arguments": item["arguments"]})
		default:
			add("response.output_item.added", object{"output_index": i, "item": item})
		}
		add("response.output_item.done", object{"output_index": i, "item": item})
	}
	end := "response.completed"
	if s.finish == "length" {
		end = "response.incomplete"
	}
	add(end, object{"response": s.response("completed")})
	return out
}

// The protocol of Gemini.

func (s said) googleParts() []any {
	var out []any
	if s.reasoning != "" {
		out = append(out, object{"text": s.reasoning, "thought": true})
	}
	for _, piece := range pieces(s.text) {
		out = append(out, object{"text": piece})
	}
	for _, c := range s.calls {
		out = append(out, object{"functionCall": object{"id": c.id, "name": c.name, "args": json.RawMessage(c.arguments)}})
	}
	return out
}

func (s said) google(parts []any, end bool) object {
	u := s.usage
	candidate := object{"content": object{"role": "model", "parts": parts}, "index": 0}
	out := object{"candidates": []any{candidate}, "modelVersion": s.model, "responseId": s.id}
	if end {
		candidate["finishReason"] = "STOP"
		if s.finish == "length" {
			candidate["finishReason"] = "MAX_TOKENS"
		}
		out["usageMetadata"] = object{
			"promptTokenCount": u.Input, "candidatesTokenCount": u.Output - u.Reasoning, "thoughtsTokenCount": u.Reasoning,
			"cachedContentTokenCount": u.Cached, "totalTokenCount": u.Input + u.Output,
		}
	}
	return out
}
