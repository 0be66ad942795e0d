package anthropic

import (
	"net/http"

	"github.com/org/rollout-action/internal/model/api/internal/apijson"
	"github.com/org/rollout-action/internal/model/rendering"
)

// Render implements api.Protocol.
func (API) Render(a rendering.Answer) []byte {
	return apijson.JSON(answerTo{a}.message())
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
	return append(events[:len(events)-3], apijson.Named("error", failed(e)))
}

// RenderError implements api.Protocol.
func (API) RenderError(e rendering.Error) []byte {
	return apijson.JSON(failed(e))
}

// errorTypes names errors by their status, as the provider documents them.
var errorTypes = map[int]string{
	http.StatusUnauthorized: "authentication_error", http.StatusPaymentRequired: "billing_error", http.StatusForbidden: "permission_error",
	http.StatusNotFound: "not_found_error", http.StatusRequestEntityTooLarge: "request_too_large", http.StatusTooManyRequests: "rate_limit_error",
	http.StatusGatewayTimeout: "timeout_error", 529: "overloaded_error",
}

func failed(e rendering.Error) apijson.Object {
	return apijson.Object{"type": "error", "error": apijson.Object{"type": apijson.ByStatus(errorTypes, e.Status, "invalid_request_error", "api_error"), "message": e.Message}}
}

// answerTo is an answer in the form of the API.
type answerTo struct{ rendering.Answer }

func (s answerTo) message() apijson.Object {
	content := []any{}
	if s.Reasoning != "" {
		content = append(content, apijson.Object{"type": "thinking", "thinking": s.Reasoning, "signature": "scripted"})
	}
	if s.Text != "" || len(s.Calls) == 0 {
		content = append(content, apijson.Object{"type": "text", "text": s.Text})
	}
	for _, c := range s.Calls {
		content = append(content, apijson.Object{"type": "tool_use", "id": "toolu_" + c.ID, "name": c.Name, "input": c.Arguments})
	}
	return apijson.Object{
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

func (s answerTo) usage() apijson.Object {
	u := s.Usage
	return apijson.Object{
		"input_tokens": max(0, u.Input-u.Cached-u.CacheWrite), "cache_read_input_tokens": u.Cached, "cache_creation_input_tokens": u.CacheWrite,
		"output_tokens": u.Output, "output_tokens_details": apijson.Object{"thinking_tokens": u.Reasoning},
	}
}

func (s answerTo) events() [][]byte {
	whole := s.message()
	start := apijson.Object{}
	for name, value := range whole {
		start[name] = value
	}
	usage := s.usage()
	usage["output_tokens"] = 1
	start["content"], start["stop_reason"], start["usage"] = []any{}, nil, usage
	out := [][]byte{apijson.Named("message_start", apijson.Object{"message": start})}
	index := 0
	block := func(begin apijson.Object, deltas ...apijson.Object) {
		out = append(out, apijson.Named("content_block_start", apijson.Object{"index": index, "content_block": begin}))
		for _, d := range deltas {
			out = append(out, apijson.Named("content_block_delta", apijson.Object{"index": index, "delta": d}))
		}
		out = append(out, apijson.Named("content_block_stop", apijson.Object{"index": index}))
		index++
	}
	if s.Reasoning != "" {
		block(apijson.Object{"type": "thinking", "thinking": "", "signature": ""}, apijson.Object{"type": "thinking_delta", "thinking": s.Reasoning}, apijson.Object{"type": "signature_delta", "signature": "scripted"})
	}
	if s.Text != "" || len(s.Calls) == 0 {
		var deltas []apijson.Object
		for _, piece := range apijson.Pieces(s.Text) {
			deltas = append(deltas, apijson.Object{"type": "text_delta", "text": piece})
		}
		block(apijson.Object{"type": "text", "text": ""}, deltas...)
	}
	for _, c := range s.Calls {
		var deltas []apijson.Object
		for _, piece := range apijson.Pieces(string(c.Arguments)) {
			deltas = append(deltas, apijson.Object{"type": "input_json_delta", "partial_json": piece})
		}
		block(apijson.Object{"type": "tool_use", "id": "toolu_" + c.ID, "name": c.Name, "input": apijson.Object{}}, deltas...)
	}
	return append(out,
		apijson.Named("message_delta", apijson.Object{"delta": apijson.Object{"stop_reason": s.finish(), "stop_sequence": nil}, "usage": apijson.Object{"output_tokens": s.Usage.Output, "output_tokens_details": apijson.Object{"thinking_tokens": s.Usage.Reasoning}}}),
		apijson.Named("message_stop", apijson.Object{}),
	)
}
