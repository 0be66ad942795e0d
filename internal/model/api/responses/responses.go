// Package responses is OpenAI's Responses API.
package responses

import (
	"cmp"
	"errors"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api/internal/apijson"
	"github.com/org/rollout-action/internal/model/api/internal/openai"
	"github.com/org/rollout-action/internal/model/inspect"
)

// Name is the API's name in job files.
const Name model.API = "openai-responses"

// API implements api.Protocol and api.Refuser.
type API struct{}

var facts = model.Facts{
	Name: Name, BaseURL: openai.BaseURL, Version: "/v1", Author: "openai", KeyHeader: "Authorization", Clients: openai.Clients, List: openai.List,
	Services:    []model.Service{{Prefix: "openai", Key: "OPENAI_API_KEY"}},
	Probe:       model.Probe{Path: "/v1/responses", Body: `{"model":"","max_output_tokens":16,"store":false,"input":"Hi"}`}, // it refuses fewer tokens
	RefusalCode: http.StatusBadRequest,
	Truncated:   "max_output_tokens",
	Overflow:    "Your input exceeds the context window of this model. Please adjust your input and try again.",
	Overflows:   []string{"context window"},
	Limits:      []string{"max_output_tokens"},
	Sampling:    []string{"temperature", "top_p", "tool_choice", "reasoning.effort", "text.format"},
}

// Facts returns the properties of the API.
func (API) Facts() *model.Facts { return &facts }

// Route implements api.Protocol.
func (API) Route(method, path string) model.Route {
	switch path = apijson.Versionless(path, "v1"); {
	case method == http.MethodPost && path == "/responses":
		return model.RouteTurn
	case method == http.MethodPost && path == "/responses/input_tokens":
		return model.RouteCount
	case method == http.MethodGet && path == "/models":
		return model.RouteList
	}
	return model.RouteNone
}

// Streams implements api.Protocol.
func (API) Streams(_ string, body []byte) bool { return gjson.GetBytes(body, "stream").Bool() }

// errBackground refuses an answer that is made in the background: only the request that fetches it
// would see its cost.
var errBackground = errors.New("background: true is not possible at this gateway, which has no stored answers: ask without it")

// Refuses refuses requests about an answer that the provider has stored.
func (API) Refuses(method, path string) (kind, message string) {
	below, ok := strings.CutPrefix(apijson.Versionless(path, "v1"), "/responses/")
	if ok && (method == http.MethodGet || method == http.MethodDelete || method == http.MethodPost && strings.HasSuffix(below, "/cancel")) {
		return "no_stored_responses",
			"answers are not stored at this gateway, so none can be fetched, cancelled or deleted: read the answer of POST /v1/responses itself, without background: true"
	}
	return "", ""
}

// Prepare implements api.Protocol.
func (API) Prepare(path string, body []byte, to model.Upstream) (string, []byte, error) {
	if gjson.GetBytes(body, "background").Bool() {
		return "", nil, errBackground
	}
	body, err := apijson.Set(body, "model", to.Name)
	if err == nil {
		body, err = apijson.SetAll(body, "", to.Sampling, map[string]string{"max_tokens": "max_output_tokens", "reasoning_effort": "reasoning.effort"})
	}
	return "/v1" + apijson.Versionless(path, "v1"), body, err
}

// Rules returns the rules for tools: the provider runs all but functions and the client's tools.
// The tools in a namespace are checked one by one.
func (API) Rules() inspect.Rules {
	return inspect.Rules{
		Client: func(t inspect.Tool) bool {
			switch t.Type {
			case "function", "custom", "local_shell", "apply_patch", "computer", "computer_use_preview", "namespace", "":
				return true
			case "shell":
				return t.Environment == "" || t.Environment == "local"
			case "tool_search":
				return t.Execution == "client" // codex offers the tools of MCP servers by it
			}
			return false
		},
		Text: apijson.TextPart("input_text"),
	}
}

// KeepAlive repeats the state of the answer: codex counts only events with data as signs of life.
// It has no state before the first.
func (API) KeepAlive(last []byte) []byte {
	if len(last) == 0 {
		return []byte(": keepalive\n\n")
	}
	event := apijson.JSON(map[string]any{"type": "response.in_progress", "sequence_number": gjson.GetBytes(last, "sequence_number").Int(),
		"response": map[string]any{"id": cmp.Or(gjson.GetBytes(last, "response.id").String(), "resp"), "object": "response", "status": "in_progress", "output": []any{}}})
	return []byte("event: response.in_progress\ndata: " + string(event) + "\n\n")
}

// Failure implements api.Protocol.
func (API) Failure(code int, kind, message string) []byte {
	return openai.Failure(code, kind, message)
}
