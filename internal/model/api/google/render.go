package google

import (
	"encoding/json"
	"net/http"

	"github.com/org/rollout-action/internal/model/api/internal/wire"
	"github.com/org/rollout-action/internal/model/rendering"
)

// Render implements api.Protocol.
func (API) Render(a rendering.Answer) []byte {
	s := answerTo{a}
	return wire.JSON(s.answer(s.parts(), true))
}

// RenderStream implements api.Protocol.
func (API) RenderStream(a rendering.Answer) [][]byte {
	s := answerTo{a}
	var out [][]byte
	for _, part := range s.parts() {
		out = append(out, wire.Data(s.answer([]any{part}, false), "\r\n"))
	}
	return append(out, wire.Data(s.answer([]any{wire.Object{"text": ""}}, true), "\r\n"))
}

// RenderFailedStream implements api.Protocol.
func (a API) RenderFailedStream(said rendering.Answer, e rendering.Error) [][]byte {
	said.Calls = nil
	events := a.RenderStream(said)
	// The data of an event in a stream is the body of an error.
	return append(events[:len(events)-1], []byte("data: "+string(a.RenderError(e))+"\r\n\r\n"))
}

// RenderError implements api.Protocol.
func (API) RenderError(e rendering.Error) []byte {
	return wire.JSON(wire.Object{"error": wire.Object{"code": e.Status, "message": e.Message, "status": wire.ByStatus(errorNames, e.Status, "INVALID_ARGUMENT", "INTERNAL")}})
}

// errorNames names errors by their status, as the provider documents them.
var errorNames = map[int]string{
	http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusForbidden: "PERMISSION_DENIED", http.StatusNotFound: "NOT_FOUND",
	http.StatusConflict: "ABORTED", http.StatusTooManyRequests: "RESOURCE_EXHAUSTED", http.StatusInternalServerError: "INTERNAL",
	http.StatusServiceUnavailable: "UNAVAILABLE", http.StatusGatewayTimeout: "DEADLINE_EXCEEDED",
}

// answerTo is an answer in the form of the API.
type answerTo struct{ rendering.Answer }

func (s answerTo) parts() []any {
	var out []any
	if s.Reasoning != "" {
		out = append(out, wire.Object{"text": s.Reasoning, "thought": true})
	}
	for _, piece := range wire.Pieces(s.Text) {
		out = append(out, wire.Object{"text": piece})
	}
	for _, c := range s.Calls {
		out = append(out, wire.Object{"functionCall": wire.Object{"id": c.ID, "name": c.Name, "args": json.RawMessage(c.Arguments)}})
	}
	return out
}

func (s answerTo) answer(parts []any, end bool) wire.Object {
	u := s.Usage
	candidate := wire.Object{"content": wire.Object{"role": "model", "parts": parts}, "index": 0}
	out := wire.Object{"candidates": []any{candidate}, "modelVersion": s.Model, "responseId": s.ID}
	if end {
		candidate["finishReason"] = "STOP"
		if s.Truncated {
			candidate["finishReason"] = "MAX_TOKENS"
		}
		out["usageMetadata"] = wire.Object{
			"promptTokenCount": u.Input, "candidatesTokenCount": u.Output - u.Reasoning, "thoughtsTokenCount": u.Reasoning,
			"cachedContentTokenCount": u.Cached, "totalTokenCount": u.Input + u.Output,
		}
	}
	return out
}
