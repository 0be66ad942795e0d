// Package chat is OpenAI's Chat Completions API, which many providers and model servers implement.
package chat

import (
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api/internal/apijson"
	"github.com/org/rollout-action/internal/model/api/internal/openai"
	"github.com/org/rollout-action/internal/model/inspect"
	"github.com/org/rollout-action/internal/model/tokens"
)

// Name is the API's name in job files.
const Name model.API = "openai-chat"

// API implements api.Protocol.
type API struct{}

var facts = model.Facts{
	Name: Name, BaseURL: openai.BaseURL, Version: "/v1", Author: "openai", KeyHeader: "Authorization", Clients: openai.Clients, List: openai.List,
	Services: []model.Service{ // the URLs are those of their documentation
		{Prefix: "openai", Key: "OPENAI_API_KEY"},
		{Prefix: "openrouter", BaseURL: "https://openrouter.ai/api/v1", Key: "OPENROUTER_API_KEY"},
		{Prefix: "deepseek", BaseURL: "https://api.deepseek.com/v1", Key: "DEEPSEEK_API_KEY"},
		{Prefix: "groq", BaseURL: "https://api.groq.com/openai/v1", Key: "GROQ_API_KEY"},
		{Prefix: "xai", BaseURL: "https://api.x.ai/v1", Key: "XAI_API_KEY"},
		{Prefix: "mistral", BaseURL: "https://api.mistral.ai/v1", Key: "MISTRAL_API_KEY"},
	},
	Probe: model.Probe{
		Path: "/v1/chat/completions", Body: `{"model":"","max_tokens":1,"messages":[{"role":"user","content":"Hi"}]}`,
		// Models that reason know only this name.
		OtherFor: "max_completion_tokens", Other: `{"model":"","max_completion_tokens":1,"messages":[{"role":"user","content":"Hi"}]}`,
	},
	RefusalCode: http.StatusBadRequest, LastEventIsOptional: true, Tokens: true,
	Truncated: "length",
	Overflow:  "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens. Please reduce the length of the messages.",
	Overflows: []string{"maximum context length", "context_length_exceeded", "context length exceeded", "too many tokens", "longer than the model's context"},
	Limits:    []string{"max_tokens", "max_completion_tokens"},
	Choices:   []string{"n"},
	Sampling:  []string{"temperature", "top_p", "top_k", "tool_choice", "response_format", "reasoning_effort"},
}

// Facts returns the properties of the API.
func (API) Facts() *model.Facts { return &facts }

// Route implements api.Protocol.
func (API) Route(method, path string) model.Route {
	switch path = apijson.Versionless(path, "v1"); {
	case method == http.MethodPost && path == "/chat/completions":
		return model.RouteTurn
	case method == http.MethodGet && path == "/models":
		return model.RouteList
	}
	return model.RouteNone
}

// Streams implements api.Protocol.
func (API) Streams(_ string, body []byte) bool { return gjson.GetBytes(body, "stream").Bool() }

// Prepare implements api.Protocol.
func (a API) Prepare(path string, body []byte, to model.Upstream) (string, []byte, error) {
	body, err := apijson.Set(body, "model", to.Name)
	if err == nil {
		body, err = apijson.SetAll(body, "", to.Sampling, nil)
	}
	if err == nil && a.Streams(path, body) && !gjson.GetBytes(body, "stream_options.include_usage").Bool() {
		body, err = apijson.Set(body, "stream_options.include_usage", true)
	}
	if err == nil && to.Tokens {
		body, err = tokens.Ask(body)
	}
	return "/v1" + apijson.Versionless(path, "v1"), body, err
}

// Rules implements api.Protocol.
func (API) Rules() inspect.Rules {
	return inspect.Rules{
		Client: func(t inspect.Tool) bool { return t.Type == "" || t.Type == "function" || t.Type == "custom" },
		Text:   apijson.TextPart("text"),
	}
}

// KeepAlive returns a comment without the blank line at its end, with which openai-python would
// parse it as JSON.
func (API) KeepAlive([]byte) []byte { return []byte(": keepalive\n") }

// Failure implements api.Protocol.
func (API) Failure(code int, kind, message string) []byte { return openai.Failure(code, kind, message) }
