package model

import (
	"cmp"
	"maps"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model/inspect"
	"github.com/org/rollout-action/internal/model/sse"
)

// API names the protocol of a model's provider.
type API string

// The protocols.
const (
	Anthropic       API = "anthropic"        // Messages
	OpenAIChat      API = "openai-chat"      // Chat Completions
	OpenAIResponses API = "openai-responses" // Responses
	Google          API = "google"           // Gemini's generateContent
	// Scripted stands for all of them: a model whose Transport answers each request in the
	// request's protocol.
	Scripted API = "scripted"
)

// APIs lists the protocols.
var APIs = []API{Anthropic, OpenAIChat, OpenAIResponses, Google}

// entry holds the properties of an API. The Scripted API has none.
type entry struct {
	protocol protocol
	baseURL  string // of the API's author, without the version
	version  string // the path at which requests begin
	provider string // its author, as OpenTelemetry's conventions name it
	// clients returns the variables that the API's own clients read.
	clients func(at, token, model string) map[string]string
	// probe is the path and the body of the smallest request for an answer.
	probePath, probeBody string
	// list returns a list of models with one model.
	list func(name string) map[string]any
	// inPath: requests name the model in their path, and not in their body.
	inPath bool
}

// entries is the table of the APIs.
var entries = map[API]entry{
	Anthropic: {
		protocol: anthropic{}, baseURL: "https://api.anthropic.com", version: "/v1", provider: "anthropic",
		clients: func(at, token, model string) map[string]string {
			return map[string]string{"ANTHROPIC_BASE_URL": at, "ANTHROPIC_API_KEY": token, "ANTHROPIC_MODEL": model}
		},
		probePath: "/v1/messages", probeBody: `{"model":"","max_tokens":1,"messages":[{"role":"user","content":"Hi"}]}`,
		list: func(name string) map[string]any {
			return map[string]any{"data": []any{map[string]any{"type": "model", "id": name, "display_name": name, "created_at": "2024-01-01T00:00:00Z"}}, "has_more": false, "first_id": name, "last_id": name}
		},
	},
	OpenAIChat: {
		protocol: chat{}, baseURL: openAIBaseURL, version: "/v1", provider: "openai", clients: openAIClients, list: openAIList,
		probePath: "/v1/chat/completions", probeBody: `{"model":"","max_tokens":1,"messages":[{"role":"user","content":"Hi"}]}`,
	},
	OpenAIResponses: { // which refuses fewer than 16 tokens
		protocol: responses{}, baseURL: openAIBaseURL, version: "/v1", provider: "openai", clients: openAIClients, list: openAIList,
		probePath: "/v1/responses", probeBody: `{"model":"","max_output_tokens":16,"store":false,"input":"Hi"}`,
	},
	Google: {
		protocol: google{}, baseURL: "https://generativelanguage.googleapis.com", version: "/v1beta", provider: "gcp.gemini", inPath: true,
		clients: func(at, token, model string) map[string]string {
			return map[string]string{"GOOGLE_GEMINI_BASE_URL": at, "GEMINI_API_KEY": token, "GEMINI_MODEL": model}
		},
		probePath: "/v1beta/models/any:generateContent", probeBody: `{"contents":[{"role":"user","parts":[{"text":"Hi"}]}],"generationConfig":{"maxOutputTokens":1}}`,
		list: func(name string) map[string]any {
			return map[string]any{"models": []any{map[string]any{"name": "models/" + name, "displayName": name, "supportedGenerationMethods": []any{"generateContent", "countTokens"}}}}
		},
	},
}

const openAIBaseURL = "https://api.openai.com"

func openAIClients(at, token, model string) map[string]string {
	return map[string]string{"OPENAI_BASE_URL": at + "/v1", "OPENAI_API_BASE": at + "/v1", "OPENAI_API_KEY": token, "OPENAI_MODEL": model}
}

func openAIList(name string) map[string]any {
	return map[string]any{"object": "list", "data": []any{map[string]any{"id": name, "object": "model", "created": 1, "owned_by": "rollout"}}}
}

// DefaultBaseURL returns the URL of the protocol's author, without the version:
// "https://api.anthropic.com". A model's base_url has this form; one that ends in the version is
// accepted, too.
func (a API) DefaultBaseURL() string { return entries[a].baseURL }

// Provider returns the name of the API's author in OpenTelemetry's conventions for generative AI;
// for other APIs, the API's name.
func (a API) Provider() string { return cmp.Or(entries[a].provider, string(a)) }

// Environment returns the variables that make clients of the protocol use a gateway: those of every
// protocol, which begin with ROLLOUT_, and those that the protocol's own clients read. at is the
// gateway's URL without a path.
func (a API) Environment(at, token, model string) map[string]string {
	env := map[string]string{
		"ROLLOUT_MODEL_URL": at + a.version(), "ROLLOUT_MODEL_KEY": token, "ROLLOUT_MODEL_NAME": model, "ROLLOUT_MODEL_API": string(a),
	}
	for _, api := range APIs {
		if a == Scripted {
			maps.Copy(env, api.clients(at, token, model))
		}
	}
	maps.Copy(env, a.clients(at, token, model))
	return env
}

// clients returns the variables that the protocol's own clients read.
func (a API) clients(at, token, model string) map[string]string {
	if e, ok := entries[a]; ok {
		return e.clients(at, token, model)
	}
	return nil
}

// version returns the path at which the protocol's requests begin.
func (a API) version() string {
	if e, ok := entries[a]; ok {
		return e.version
	}
	return "/v1"
}

// protocol reads and writes the requests and answers of one API. Its methods are safe for
// concurrent use.
type protocol interface {
	// route classifies a request by its method and its path below the base URL.
	route(method, path string) route
	// streams reports whether a request asks for a stream.
	streams(path string, body []byte) bool
	// prepare returns the path and the body for the upstream: the model's name, the imposed
	// sampling, and the options with which the gateway counts tokens are set; nothing else changes.
	prepare(path string, body []byte, m *Model) (string, []byte, error)
	// rules returns the protocol's rules for package inspect.
	rules() inspect.Rules
	// conversation reads a request.
	conversation(path string, body []byte) Conversation
	// answer reads an answer that is not a stream.
	answer(body []byte) Answer
	// reader returns a reader of a stream's events. asked is the unmodified body of the agent.
	reader(asked []byte) eventReader
	// authorise puts the model's key into a request to the upstream.
	authorise(r *http.Request, key string)
	// keepAlive returns bytes to send between two events so that clients keep waiting. last is the
	// latest event that was sent.
	keepAlive(last []byte) []byte
	// failure returns the body of an error as the upstream would send it.
	failure(code int, kind, message string) []byte
	// refusalCode returns the status of a refusal that makes clients give up at once.
	refusalCode() int
}

// route classifies a request by its path.
type route int

const (
	routeNone  route = iota
	routeTurn        // an answer of the model
	routeCount       // a count of tokens, which is passed on and is not a turn
	routeList        // the list of models, which the gateway answers
)

// eventReader follows the events of one streamed answer.
type eventReader interface {
	// read reads an event. hide: the client did not ask for it. last: it ends the answer, and is
	// sent only after the turn is stored.
	read(e sse.Event) (hide, last bool)
	// answer returns the answer so far. whole reports whether it is complete.
	answer() (a Answer, whole bool)
}

// protocolOf returns the protocol of an API; nil for Scripted.
func protocolOf(a API) protocol { return entries[a].protocol }

// Action classifies a request to a provider.
type Action string

// The actions.
const (
	ActionTurn  Action = "turn"
	ActionCount Action = "count"
)

// APIOf returns the protocol and the action of a request to a path below a base URL. The action is
// "" if no protocol has the path.
func APIOf(path string) (API, Action) {
	for _, api := range APIs {
		switch protocolOf(api).route(http.MethodPost, path) {
		case routeTurn:
			return api, ActionTurn
		case routeCount:
			return api, ActionCount
		}
	}
	return "", ""
}

// ReadConversation reads the conversation of a request.
func ReadConversation(api API, path string, body []byte) Conversation {
	return protocolOf(api).conversation(path, body)
}

// AsksForStream reports whether a request asks for a stream.
func AsksForStream(api API, path string, body []byte) bool {
	return protocolOf(api).streams(path, body)
}

// AskedModel returns the name of the model that a request asks for.
func AskedModel(api API, path string, body []byte) string {
	if !entries[api].inPath {
		return gjson.GetBytes(body, "model").String()
	}
	name, _, _ := strings.Cut(path[strings.LastIndexByte(path, '/')+1:], ":")
	return name
}

// ErrorBody returns the body of an error in the format of a protocol.
func ErrorBody(api API, status int, kind, message string) []byte {
	return protocolOf(api).failure(status, kind, message)
}
