package responses

import (
	"fmt"

	"github.com/org/rollout-action/internal/model/api/internal/openai"
	"github.com/org/rollout-action/internal/model/api/internal/wire"
	"github.com/org/rollout-action/internal/model/rendering"
)

// Render implements api.Protocol.
func (API) Render(a rendering.Answer) []byte {
	return wire.JSON(answerTo{a}.response("completed"))
}

// RenderStream implements api.Protocol.
func (API) RenderStream(a rendering.Answer) [][]byte {
	return answerTo{a}.events()
}

// RenderFailedStream implements api.Protocol.
func (a API) RenderFailedStream(said rendering.Answer, e rendering.Error) [][]byte {
	said.Calls = nil
	events := a.RenderStream(said)
	body := answerTo{said}.response("failed")
	body["output"], body["usage"], body["error"] = []any{}, nil, wire.Object{"code": openai.Error(e)["code"], "message": e.Message}
	return append(events[:len(events)-1], wire.Named("response.failed", wire.Object{"response": body, "sequence_number": len(events) - 1}))
}

// RenderError implements api.Protocol.
func (API) RenderError(e rendering.Error) []byte {
	return wire.JSON(wire.Object{"error": openai.Error(e)})
}

// answerTo is an answer in the form of the API.
type answerTo struct{ rendering.Answer }

func (s answerTo) items(status string) []wire.Object {
	var out []wire.Object
	if s.Reasoning != "" {
		out = append(out, wire.Object{"type": "reasoning", "id": "rs_" + s.ID, "summary": []any{wire.Object{"type": "summary_text", "text": s.Reasoning}}})
	}
	if s.Text != "" || len(s.Calls) == 0 {
		out = append(out, wire.Object{
			"type": "message", "id": "msg_" + s.ID, "role": "assistant", "status": status,
			"content": []any{wire.Object{"type": "output_text", "text": s.Text, "annotations": []any{}}},
		})
	}
	for i, c := range s.Calls {
		out = append(out, wire.Object{"type": "function_call", "id": fmt.Sprintf("fc_%s_%d", s.ID, i), "call_id": c.ID, "name": c.Name, "arguments": string(c.Arguments), "status": status})
	}
	return out
}

func (s answerTo) response(status string) wire.Object {
	u := s.Usage
	out := wire.Object{
		"id": "resp_" + s.ID, "object": "response", "created_at": 1, "status": status, "model": s.Model, "output": s.items("completed"), "error": nil,
		"parallel_tool_calls": true, "tools": []any{}, "tool_choice": "auto", "incomplete_details": nil,
		"usage": wire.Object{
			"input_tokens": u.Input, "input_tokens_details": wire.Object{"cached_tokens": u.Cached, "cache_write_tokens": u.CacheWrite},
			"output_tokens": u.Output, "output_tokens_details": wire.Object{"reasoning_tokens": u.Reasoning}, "total_tokens": u.Input + u.Output,
		},
	}
	if s.Truncated {
		out["status"], out["incomplete_details"] = "incomplete", wire.Object{"reason": "max_output_tokens"}
	}
	return out
}

func (s answerTo) events() [][]byte {
	var out [][]byte
	add := func(name string, v wire.Object) {
		v["sequence_number"] = len(out)
		out = append(out, wire.Named(name, v))
	}
	begin := s.response("in_progress")
	begin["output"], begin["usage"], begin["status"], begin["incomplete_details"] = []any{}, nil, "in_progress", nil
	add("response.created", wire.Object{"response": begin})
	add("response.in_progress", wire.Object{"response": begin})
	for i, item := range s.items("completed") {
		id := item["id"]
		switch item["type"] {
		case "message":
			add("response.output_item.added", wire.Object{"output_index": i, "item": wire.Object{"type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": []any{}}})
			part := wire.Object{"type": "output_text", "text": "", "annotations": []any{}}
			at := func(more wire.Object) wire.Object {
				out := wire.Object{"item_id": id, "output_index": i, "content_index": 0}
				for name, value := range more {
					out[name] = value
				}
				return out
			}
			add("response.content_part.added", at(wire.Object{"part": part}))
			for _, piece := range wire.Pieces(s.Text) {
				add("response.output_text.delta", at(wire.Object{"delta": piece}))
			}
			add("response.output_text.done", at(wire.Object{"text": s.Text}))
			add("response.content_part.done", at(wire.Object{"part": wire.Object{"type": "output_text", "text": s.Text, "annotations": []any{}}}))
		case "function_call":
			empty := wire.Object{"type": "function_call", "id": id, "call_id": item["call_id"], "name": item["name"], "arguments": "", "status": "in_progress"}
			add("response.output_item.added", wire.Object{"output_index": i, "item": empty})
			add("response.function_call_arguments.delta", wire.Object{"item_id": id, "output_index": i, "delta": item["arguments"]})
			add("response.function_call_arguments.done", wire.Object{"item_id": id, "output_index": i, "arguments": item["arguments"]})
		default:
			add("response.output_item.added", wire.Object{"output_index": i, "item": item})
		}
		add("response.output_item.done", wire.Object{"output_index": i, "item": item})
	}
	end := "response.completed"
	if s.Truncated {
		end = "response.incomplete"
	}
	add(end, wire.Object{"response": s.response("completed")})
	return out
}
