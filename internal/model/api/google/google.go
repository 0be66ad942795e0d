// Package google is Gemini's generateContent API.
package google

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api/internal/apijson"
	"github.com/org/rollout-action/internal/model/inspect"
)

// Name is the API's name in job files.
const Name model.API = "google"

// API implements api.Protocol.
type API struct{}

var facts = model.Facts{
	Name: Name, BaseURL: "https://generativelanguage.googleapis.com", Version: "/v1beta", Author: "gcp.gemini", KeyHeader: "X-Goog-Api-Key",
	Services: []model.Service{{Prefix: "gemini", Key: "GEMINI_API_KEY"}, {Prefix: "google", Key: "GEMINI_API_KEY"}},
	Clients: func(at, token, model string) map[string]string {
		return map[string]string{"GOOGLE_GEMINI_BASE_URL": at, "GEMINI_API_KEY": token, "GEMINI_MODEL": model}
	},
	List: func(name string) []byte {
		return apijson.JSON(map[string]any{"models": []any{map[string]any{"name": "models/" + name, "displayName": name, "supportedGenerationMethods": []any{"generateContent", "countTokens"}}}})
	},
	Probe: model.Probe{
		Path: "/v1beta/models/any:generateContent", Body: `{"contents":[{"role":"user","parts":[{"text":"Hi"}]}],"generationConfig":{"maxOutputTokens":1}}`,
	},
	RefusalCode: http.StatusBadRequest, NamesModelInPath: true, NoLastEvent: true,
	Truncated: "MAX_TOKENS",
	Overflow:  "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
	Overflows: []string{"exceeds the maximum number of tokens", "input token count", "maximum allowed number of input tokens"},
	Limits:    []string{"generationConfig.maxOutputTokens", "generation_config.max_output_tokens"},
	Choices:   []string{"generationConfig.candidateCount", "generation_config.candidate_count"},
	Sampling: []string{
		"generationConfig.temperature", "generationConfig.topP", "generationConfig.topK", "generationConfig.responseMimeType", "generationConfig.responseSchema", "toolConfig",
	},
}

// Facts returns the properties of the API.
func (API) Facts() *model.Facts { return &facts }

// Route implements api.Protocol.
func (API) Route(method, path string) model.Route {
	path = apijson.Versionless(path, "v1beta")
	action := path[strings.LastIndexByte(path, ':')+1:]
	switch {
	case method == http.MethodGet && path == "/models":
		return model.RouteList
	case method != http.MethodPost || !strings.HasPrefix(path, "/models/"):
	case action == "generateContent", action == "streamGenerateContent":
		return model.RouteTurn
	case action == "countTokens":
		return model.RouteCount
	}
	return model.RouteNone
}

// Streams implements api.Protocol.
func (API) Streams(path string, _ []byte) bool {
	return strings.HasSuffix(path, ":streamGenerateContent")
}

// googleSampling maps the names of sampling parameters in other protocols to those of
// generationConfig.
var googleSampling = map[string]string{
	"top_p": "topP", "top_k": "topK", "max_tokens": "maxOutputTokens", "stop": "stopSequences", "presence_penalty": "presencePenalty", "frequency_penalty": "frequencyPenalty",
}

// Prepare implements api.Protocol.
func (API) Prepare(path string, body []byte, to model.Upstream) (string, []byte, error) {
	action := path[strings.LastIndexByte(path, ':')+1:]
	config := inspect.KeyOf(body, "generationConfig") // either way of writing names is Google's
	inside := []byte(gjson.GetBytes(body, config).Raw)
	names := map[string]string{}
	for name := range to.Sampling {
		names[name] = inspect.KeyOf(inside, cmp.Or(googleSampling[name], name))
	}
	body, err := apijson.SetAll(body, config+".", to.Sampling, names)
	return "/v1beta/models/" + to.Name + ":" + action, body, err
}

// Rules returns the rules for tools: each key of a tool is a tool, and the client runs only
// functions and computer use.
func (API) Rules() inspect.Rules {
	return inspect.Rules{
		Declared: []string{"functiondeclarations", "computeruse"},
		Text:     func(text string) []byte { return apijson.JSON(map[string]string{"text": text}) },
	}
}

// KeepAlive returns a blank line: gemini-cli breaks on comments.
func (API) KeepAlive([]byte) []byte { return []byte("\r\n") }

// Failure implements api.Protocol.
func (API) Failure(code int, kind, message string) []byte {
	names := map[int]string{
		http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusNotFound: "NOT_FOUND", http.StatusConflict: "ABORTED",
		http.StatusBadGateway: "UNAVAILABLE", http.StatusServiceUnavailable: "UNAVAILABLE", http.StatusGatewayTimeout: "DEADLINE_EXCEEDED", http.StatusBadRequest: "FAILED_PRECONDITION",
	}
	return apijson.JSON(map[string]any{"error": map[string]any{
		"code": code, "message": message, "status": cmp.Or(names[code], "INVALID_ARGUMENT"), "details": []any{map[string]any{"reason": kind}},
	}})
}
