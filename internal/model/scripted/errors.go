package scripted

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/org/rollout-action/internal/model"
)

// tooLong is the message of each protocol's provider for a conversation that exceeds the model's
// context.
var tooLong = map[model.API]string{
	model.Anthropic:       "prompt is too long: 210000 tokens > 200000 maximum",
	model.OpenAIChat:      "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens. Please reduce the length of the messages.",
	model.OpenAIResponses: "Your input exceeds the context window of this model. Please adjust your input and try again.",
	model.Google:          "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
}

// message returns the provider's error message.
func (e Error) message(api model.API) string {
	if e.Message == "" && e.Code != "" {
		return tooLong[api]
	}
	return cmp.Or(e.Message, strings.ToLower(http.StatusText(e.Status)), "error")
}

// statusOverloaded is Anthropic's status for an overloaded model.
const statusOverloaded = 529

// Names of errors by their status, as the providers document them.
var (
	anthropicErrors = map[int]string{
		http.StatusUnauthorized: "authentication_error", http.StatusPaymentRequired: "billing_error", http.StatusForbidden: "permission_error",
		http.StatusNotFound: "not_found_error", http.StatusRequestEntityTooLarge: "request_too_large", http.StatusTooManyRequests: "rate_limit_error",
		http.StatusGatewayTimeout: "timeout_error", statusOverloaded: "overloaded_error",
	}
	googleErrors = map[int]string{
		http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusForbidden: "PERMISSION_DENIED", http.StatusNotFound: "NOT_FOUND",
		http.StatusConflict: "ABORTED", http.StatusTooManyRequests: "RESOURCE_EXHAUSTED", http.StatusInternalServerError: "INTERNAL",
		http.StatusServiceUnavailable: "UNAVAILABLE", http.StatusGatewayTimeout: "DEADLINE_EXCEEDED",
	}
)

// byStatus returns the name for a status. client and server are the names for other statuses, below
// and from 500.
func byStatus(names map[int]string, status int, client, server string) string {
	switch name := names[status]; {
	case name != "":
		return name
	case status >= http.StatusInternalServerError:
		return server
	}
	return client
}

// openAI returns the error in the format of both OpenAI protocols.
func (e Error) openAI(api model.API) object {
	kind := byStatus(map[int]string{http.StatusTooManyRequests: "rate_limit_error"}, e.Status, "invalid_request_error", "server_error")
	code := byStatus(map[int]string{http.StatusTooManyRequests: "rate_limit_exceeded"}, e.Status, "scripted", "server_error")
	if e.Code != "" {
		code = "context_length_exceeded"
	}
	return object{"message": e.message(api), "type": kind, "code": code, "param": nil}
}

// body returns the error as the body of an answer.
func (e Error) body(api model.API) []byte {
	switch api {
	case model.Anthropic:
		return encode(e.anthropic())
	case model.Google:
		return encode(object{"error": object{"code": e.Status, "message": e.message(api), "status": byStatus(googleErrors, e.Status, "INVALID_ARGUMENT", "INTERNAL")}})
	default:
		return encode(object{"error": e.openAI(api)})
	}
}

func (e Error) anthropic() object {
	return object{"type": "error", "error": object{"type": byStatus(anthropicErrors, e.Status, "invalid_request_error", "api_error"), "message": e.message(model.Anthropic)}}
}

// failedEvents returns the events of a stream that begins with the answer's text and ends with an
// error.
func (s said) failedEvents(api model.API, e Error) [][]byte {
	s.calls = nil
	events := s.events(api, false)
	switch api {
	case model.Anthropic: // without the events that end the text and the message
		return append(events[:len(events)-3], named("error", e.anthropic()))
	case model.OpenAIResponses:
		failed := s.response("failed")
		failed["output"], failed["usage"], failed["error"] = []any{}, nil, object{"code": e.openAI(api)["code"], "message": e.message(api)}
		return append(events[:len(events)-1], named("response.failed", object{"response": failed, "sequence_number": len(events) - 1}))
	case model.Google: // its streams have the body of an error as the data of an event
		return append(events[:len(events)-1], []byte("data: "+string(e.body(api))+"\r\n\r\n"))
	default: // without finish_reason and [DONE]
		return append(events[:len(events)-2], []byte("data: "+string(e.body(api))+"\n\n"))
	}
}
