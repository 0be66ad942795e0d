package anthropic

import (
	"net/http"

	"github.com/org/rollout-action/internal/model/api/internal/wire"
	"github.com/org/rollout-action/internal/model/rendering"
)

// Render implements api.Protocol.
func (API) Render(a rendering.Answer) []byte {
	return wire.JSON(answerTo{a}.message())
}

// RenderStream implements api.Protocol.
func (API) RenderStream(a rendering.Answer) [][]byte {
	return answerTo{a}.events()
}

// RenderFailedStream implements api.Protocol.
func (a API) RenderFailedStream(said rendering.Answer, e rendering.Error) [][]byte {
	said.Calls = nil
	events := a.RenderStream(said)
	// Without the events that end the text and the message.
	return append(events[:len(events)-3], wire.Named("error", failed(e)))
}

// RenderError implements api.Protocol.
func (API) RenderError(e rendering.Error) []byte {
	return wire.JSON(failed(e))
}

// errorTypes names errors by their status, as the provider documents them.
var errorTypes = map[int]string{
	http.StatusUnauthorized: "authentication_error", http.StatusPaymentRequired: "billing_error", http.StatusForbidden: "permission_error",
	http.StatusNotFound: "not_found_error", http.StatusRequestEntityTooLarge: "request_too_large", http.StatusTooManyRequests: "rate_limit_error",
	http.StatusGatewayTimeout: "timeout_error", 529: "overloaded_error",
}

func failed(e rendering.Error) wire.Object {
	return wire.Object{"type": "error", "error": wire.Object{"type": wire.ByStatus(errorTypes, e.Status, "invalid_request_error", "api_error"), "message": e.Message}}
}

// answerTo is an answer in the form of the API.
type answerTo struct{ rendering.Answer }

func (s answerTo) message() wire.Object {
	content := []any{}
	if s.Reasoning != "" {
		content = append(content, wire.Object{"type": "thinking", "thinking": s.Reasoning, "signature": "scripted"})
	}
	if s.Text != "" || len(s.Calls) == 0 {
		content = append(content, wire.Object{"type": "text", "text": s.Text})
	}
	for _, c := range s.Calls {
		content = append(content, wire.Object{"type": "tool_use", "id": "toolu_" + c.ID, "name": c.Name, "input": c.Arguments})
	}
	return wire.Object{
		"id": s.ID, "type": "message", "role": "assistant", "model": s.Model, "content": content, "stop_reason": s.finish(), "stop_sequence": nil,
		"usage": s.usage(),
	}
}

func (s answerTo) finish() string {
	switch {
	case s.Truncated:
		return "max_tokens"
	case len(s.Calls) > 0:
		return "tool_use"
	}
	return "end_turn"
}

func (s answerTo) usage() wire.Object {
	u := s.Usage
	return wire.Object{
		"input_tokens": max(0, u.Input-u.Cached-u.CacheWrite), "cache_read_input_tokens": u.Cached, "cache_creation_input_tokens": u.CacheWrite,
		"output_tokens": u.Output, "output_tokens_details": wire.Object{"thinking_tokens": u.Reasoning},
	}
}

func (s answerTo) events() [][]byte {
	whole := s.message()
	start := wire.Object{}
	for name, value := range whole {
		start[name] = value
	}
	usage := s.usage()
	usage["output_tokens"] = 1
	start["content"], start["stop_reason"], start["usage"] = []any{}, nil, usage
	out := [][]byte{wire.Named("message_start", wire.Object{"message": start})}
	index := 0
	block := func(begin wire.Object, deltas ...wire.Object) {
		out = append(out, wire.Named("content_block_start", wire.Object{"index": index, "content_block": begin}))
		for _, d := range deltas {
			out = append(out, wire.Named("content_block_delta", wire.Object{"index": index, "delta": d}))
		}
		out = append(out, wire.Named("content_block_stop", wire.Object{"index": index}))
		index++
	}
	if s.Reasoning != "" {
		block(wire.Object{"type": "thinking", "thinking": "", "signature": ""}, wire.Object{"type": "thinking_delta", "thinking": s.Reasoning}, wire.Object{"type": "signature_delta", "signature": "scripted"})
	}
	if s.Text != "" || len(s.Calls) == 0 {
		var deltas []wire.Object
		for _, piece := range wire.Pieces(s.Text) {
			deltas = append(deltas, wire.Object{"type": "text_delta", "text": piece})
		}
		block(wire.Object{"type": "text", "text": ""}, deltas...)
	}
	for _, c := range s.Calls {
		var deltas []wire.Object
		for _, piece := range wire.Pieces(string(c.Arguments)) {
			deltas = append(deltas, wire.Object{"type": "input_json_delta", "partial_json": piece})
		}
		block(wire.Object{"type": "tool_use", "id": "toolu_" + c.ID, "name": c.Name, "input": wire.Object{}}, deltas...)
	}
	return append(out,
		wire.Named("message_delta", wire.Object{"delta": wire.Object{"stop_reason": s.finish(), "stop_sequence": nil}, "usage": wire.Object{"output_tokens": s.Usage.Output, "output_tokens_details": wire.Object{"thinking_tokens": s.Usage.Reasoning}}}),
		wire.Named("message_stop", wire.Object{}),
	)
}
