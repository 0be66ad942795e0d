package responses

import (
	"fmt"

	"github.com/org/rollout-action/internal/model/api/internal/apijson"
	"github.com/org/rollout-action/internal/model/api/internal/openai"
	"github.com/org/rollout-action/internal/model/rendering"
)

// Render implements api.Protocol.
func (API) Render(a rendering.Answer) []byte {
	return apijson.JSON(answerTo{a}.response("completed"))
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
	body["output"], body["usage"], body["error"] = []any{}, nil, apijson.Object{"code": openai.Error(e)["code"], "message": e.Message}
	return append(events[:len(events)-1], apijson.Named("response.failed", apijson.Object{"response": body, "sequence_number": len(events) - 1}))
}

// RenderError implements api.Protocol.
func (API) RenderError(e rendering.Error) []byte {
	return apijson.JSON(apijson.Object{"error": openai.Error(e)})
}

// answerTo is an answer in the form of the API.
type answerTo struct{ rendering.Answer }

func (s answerTo) items(status string) []apijson.Object {
	var out []apijson.Object
	if s.Reasoning != "" {
		out = append(out, apijson.Object{"type": "reasoning", "id": "rs_" + s.ID, "summary": []any{apijson.Object{"type": "summary_text", "text": s.Reasoning}}})
	}
	if s.Text != "" || len(s.Calls) == 0 {
		out = append(out, apijson.Object{
			"type": "message", "id": "msg_" + s.ID, "role": "assistant", "status": status,
			"content": []any{apijson.Object{"type": "output_text", "text": s.Text, "annotations": []any{}}},
		})
	}
	for i, c := range s.Calls {
		out = append(out, apijson.Object{"type": "function_call", "id": fmt.Sprintf("fc_%s_%d", s.ID, i), "call_id": c.ID, "name": c.Name, "arguments": string(c.Arguments), "status": status})
	}
	return out
}

func (s answerTo) response(status string) apijson.Object {
	u := s.Usage
	out := apijson.Object{
		"id": "resp_" + s.ID, "object": "response", "created_at": 1, "status": status, "model": s.Model, "output": s.items("completed"), "error": nil,
		"parallel_tool_calls": true, "tools": []any{}, "tool_choice": "auto", "incomplete_details": nil,
		"usage": apijson.Object{
			"input_tokens": u.Input, "input_tokens_details": apijson.Object{"cached_tokens": u.Cached, "cache_write_tokens": u.CacheWrite},
			"output_tokens": u.Output, "output_tokens_details": apijson.Object{"reasoning_tokens": u.Reasoning}, "total_tokens": u.Input + u.Output,
		},
	}
	if s.Truncated {
		out["status"], out["incomplete_details"] = "incomplete", apijson.Object{"reason": "max_output_tokens"}
	}
	return out
}

func (s answerTo) events() [][]byte {
	var out [][]byte
	add := func(name string, v apijson.Object) {
		v["sequence_number"] = len(out)
		out = append(out, apijson.Named(name, v))
	}
	begin := s.response("in_progress")
	begin["output"], begin["usage"], begin["status"], begin["incomplete_details"] = []any{}, nil, "in_progress", nil
	add("response.created", apijson.Object{"response": begin})
	add("response.in_progress", apijson.Object{"response": begin})
	for i, item := range s.items("completed") {
		id := item["id"]
		switch item["type"] {
		case "message":
			add("response.output_item.added", apijson.Object{"output_index": i, "item": apijson.Object{"type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": []any{}}})
			part := apijson.Object{"type": "output_text", "text": "", "annotations": []any{}}
			at := func(more apijson.Object) apijson.Object {
				out := apijson.Object{"item_id": id, "output_index": i, "content_index": 0}
				for name, value := range more {
					out[name] = value
				}
				return out
			}
			add("response.content_part.added", at(apijson.Object{"part": part}))
			for _, piece := range apijson.Pieces(s.Text) {
				add("response.output_text.delta", at(apijson.Object{"delta": piece}))
			}
			add("response.output_text.done", at(apijson.Object{"text": s.Text}))
			add("response.content_part.done", at(apijson.Object{"part": apijson.Object{"type": "output_text", "text": s.Text, "annotations": []any{}}}))
		case "function_call":
			empty := apijson.Object{"type": "function_call", "id": id, "call_id": item["call_id"], "name": item["name"], "arguments": "", "status": "in_progress"}
			add("response.output_item.added", apijson.Object{"output_index": i, "item": empty})
			add("response.function_call_arguments.delta", apijson.Object{"item_id": id, "output_index": i, "delta": item["arguments"]})
			add("response.function_call_arguments.done", apijson.Object{"item_id": id, "output_index": i, "arguments": item["arguments"]})
		default:
			add("response.output_item.added", apijson.Object{"output_index": i, "item": item})
		}
		add("response.output_item.done", apijson.Object{"output_index": i, "item": item})
	}
	end := "response.completed"
	if s.Truncated {
		end = "response.incomplete"
	}
	add(end, apijson.Object{"response": s.response("completed")})
	return out
}
