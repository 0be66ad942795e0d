// Package anthropic is Anthropic's Messages API.
package anthropic

import (
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api/internal/apijson"
	"github.com/org/rollout-action/internal/model/inspect"
)

// Name is the API's name in job files.
const Name model.API = "anthropic"

// API implements api.Protocol.
type API struct{}

var facts = model.Facts{
	Name: Name, BaseURL: "https://api.anthropic.com", Version: "/v1", Author: "anthropic",
	Services:  []model.Service{{Prefix: "anthropic", Key: "ANTHROPIC_API_KEY"}},
	KeyHeader: "X-Api-Key", Headers: map[string]string{"Anthropic-Version": "2023-06-01"},
	Clients: func(at, token, model string) map[string]string {
		return map[string]string{"ANTHROPIC_BASE_URL": at, "ANTHROPIC_API_KEY": token, "ANTHROPIC_MODEL": model}
	},
	List: func(name string) []byte {
		return apijson.JSON(map[string]any{"data": []any{map[string]any{"type": "model", "id": name, "display_name": name, "created_at": "2024-01-01T00:00:00Z"}}, "has_more": false, "first_id": name, "last_id": name})
	},
	Probe:       model.Probe{Path: "/v1/messages", Body: `{"model":"","max_tokens":1,"messages":[{"role":"user","content":"Hi"}]}`},
	RefusalCode: http.StatusPaymentRequired, // after a 400, claude-code sends six more requests
	Truncated:   "max_tokens",
	Filled:      "model_context_window_exceeded",
	Overflow:    "prompt is too long: 210000 tokens > 200000 maximum",
	Overflows:   []string{"prompt is too long", "prompt_too_long", "input is too long"},
	Limits:      []string{"max_tokens"},
	Sampling:    []string{"temperature", "top_p", "top_k", "tool_choice", "thinking.type", "output_config.effort"},
}

// Facts returns the properties of the API.
func (API) Facts() *model.Facts { return &facts }

// Route implements api.Protocol.
func (API) Route(method, path string) model.Route {
	switch path = apijson.Versionless(path, "v1"); {
	case method == http.MethodPost && path == "/messages":
		return model.RouteTurn
	case method == http.MethodPost && path == "/messages/count_tokens":
		return model.RouteCount
	case method == http.MethodGet && path == "/models":
		return model.RouteList
	}
	return model.RouteNone
}

// Streams implements api.Protocol.
func (API) Streams(_ string, body []byte) bool { return gjson.GetBytes(body, "stream").Bool() }

// Prepare implements api.Protocol.
func (API) Prepare(path string, body []byte, to model.Upstream) (string, []byte, error) {
	body, err := apijson.Set(body, "model", to.Name)
	if err == nil {
		body, err = apijson.SetAll(body, "", to.Sampling, nil)
	}
	return "/v1" + apijson.Versionless(path, "v1"), body, err
}

// Rules returns the rules for tools: server tools have special types, and so do Anthropic's tools
// that the client runs. A search among the tools of the request does not reach the network.
func (API) Rules() inspect.Rules {
	return inspect.Rules{
		Client: func(t inspect.Tool) bool {
			for _, prefix := range []string{"bash_", "text_editor_", "computer_", "browser_toolset_", "memory_", "tool_search_"} {
				if strings.HasPrefix(t.Type, prefix) {
					return true
				}
			}
			return t.Type == "" || t.Type == "custom"
		},
		Text: apijson.TextPart("text"),
	}
}

// KeepAlive implements api.Protocol.
func (API) KeepAlive([]byte) []byte {
	return []byte("event: ping\ndata: {\"type\": \"ping\"}\n\n")
}

// Failure implements api.Protocol.
func (API) Failure(code int, kind, message string) []byte {
	types := map[int]string{
		http.StatusUnauthorized: "authentication_error", http.StatusNotFound: "not_found_error", http.StatusRequestEntityTooLarge: "request_too_large",
		http.StatusBadGateway: "api_error", http.StatusServiceUnavailable: "api_error", http.StatusGatewayTimeout: "timeout_error", http.StatusPaymentRequired: "billing_error",
	}
	name := types[code]
	if name == "" {
		name = "invalid_request_error"
	}
	return apijson.JSON(map[string]any{"type": "error", "error": map[string]any{"type": name, "message": message, "code": kind}})
}
