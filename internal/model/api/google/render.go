package google

import (
	"encoding/json"
	"net/http"

	"github.com/org/rollout-action/internal/model/api/internal/apijson"
	"github.com/org/rollout-action/internal/model/rendering"
)

// Render implements api.Protocol.
func (API) Render(a rendering.Answer) []byte {
	s := answerTo{a}
	return apijson.JSON(s.answer(s.parts(), true))
}

// RenderStream implements api.Protocol.
func (API) RenderStream(a rendering.Answer) [][]byte {
	s := answerTo{a}
	var out [][]byte
	for _, part := range s.parts() {
		out = append(out, apijson.Data(s.answer([]any{part}, false), "\r\n"))
	}
	return append(out, apijson.Data(s.answer([]any{apijson.Object{"text": ""}}, true), "\r\n"))
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
	return apijson.JSON(apijson.Object{"error": apijson.Object{"code": e.Status, "message": e.Message, "status": apijson.ByStatus(errorNames, e.Status, "INVALID_ARGUMENT", "INTERNAL")}})
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
		out = append(out, apijson.Object{"text": s.Reasoning, "thought": true})
	}
	for _, piece := range apijson.Pieces(s.Text) {
		out = append(out, apijson.Object{"text": piece})
	}
	for _, c := range s.Calls {
		out = append(out, apijson.Object{"functionCall": apijson.Object{"id": c.ID, "name": c.Name, "args": json.RawMessage(c.Arguments)}})
	}
	return out
}

func (s answerTo) answer(parts []any, end bool) apijson.Object {
	u := s.Usage
	candidate := apijson.Object{"content": apijson.Object{"role": "model", "parts": parts}, "index": 0}
	out := apijson.Object{"candidates": []any{candidate}, "modelVersion": s.Model, "responseId": s.ID}
	if end {
		candidate["finishReason"] = "STOP"
		if s.Truncated {
			candidate["finishReason"] = "MAX_TOKENS"
		}
		out["usageMetadata"] = apijson.Object{
			"promptTokenCount": u.Input, "candidatesTokenCount": u.Output - u.Reasoning, "thoughtsTokenCount": u.Reasoning,
			"cachedContentTokenCount": u.Cached, "totalTokenCount": u.Input + u.Output,
		}
	}
	return out
}
