package model

import (
	"maps"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model/inspect"
	"github.com/org/rollout-action/internal/model/sse"
)

// API is the protocol that a model's provider speaks.
type API string

// The protocols.
const (
	Anthropic       API = "anthropic"        // Messages
	OpenAIChat      API = "openai-chat"      // Chat Completions
	OpenAIResponses API = "openai-responses" // Responses
	Google          API = "google"           // Gemini's generateContent
	// Scripted is all of them: a model whose Transport answers each request in its own protocol.
	Scripted API = "scripted"
)

// APIs lists the protocols.
var APIs = []API{Anthropic, OpenAIChat, OpenAIResponses, Google}

// DefaultBaseURL returns the URL of the protocol's author, without the version:
// "https://api.anthropic.com". A model's base_url has this form; one that ends in the version is
// accepted, too.
func (a API) DefaultBaseURL() string {
	switch a {
	case Anthropic:
		return "https://api.anthropic.com"
	case OpenAIChat, OpenAIResponses:
		return "https://api.openai.com"
	case Google:
		return "https://generativelanguage.googleapis.com"
	}
	return ""
}

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
	switch a {
	case Anthropic:
		return map[string]string{"ANTHROPIC_BASE_URL": at, "ANTHROPIC_API_KEY": token, "ANTHROPIC_MODEL": model}
	case OpenAIChat, OpenAIResponses:
		return map[string]string{"OPENAI_BASE_URL": at + "/v1", "OPENAI_API_BASE": at + "/v1", "OPENAI_API_KEY": token, "OPENAI_MODEL": model}
	case Google:
		return map[string]string{"GOOGLE_GEMINI_BASE_URL": at, "GEMINI_API_KEY": token, "GEMINI_MODEL": model}
	}
	return nil
}

// version returns the path at which the protocol's requests begin.
func (a API) version() string {
	if a == Google {
		return "/v1beta"
	}
	return "/v1"
}

// protocol is how one API's requests and answers are read. Its methods are safe for concurrent use.
type protocol interface {
	// route returns what a request's method and path below the base URL ask for.
	route(method, path string) route
	// streams reports whether a request asks for a stream.
	streams(path string, body []byte) bool
	// prepare returns the path and the body for the upstream: the model's name, the imposed
	// sampling, and what the gateway needs to count tokens are set; nothing else changes.
	prepare(path string, body []byte, m *Model) (string, []byte, error)
	// rules are what is particular to the protocol in judging requests.
	rules() inspect.Rules
	// conversation reads a request.
	conversation(path string, body []byte) Conversation
	// answer reads an answer that is no stream.
	answer(body []byte) Answer
	// reader returns a reader of a stream's events. asked is the agent's own body.
	reader(asked []byte) eventReader
	// authorise puts the model's key into a request to the upstream.
	authorise(r *http.Request, key string)
	// keepAlive is what may be sent between two events so that clients go on waiting. last is the
	// latest event that was sent.
	keepAlive(last []byte) []byte
	// failure returns an error as the upstream would send it, and whether it is a refusal that must
	// not be tried again.
	failure(code int, kind, message string) []byte
	// refusalCode is the status of a refusal that makes clients give up at once.
	refusalCode() int
}

// route is what a request asks for.
type route int

const (
	routeNone  route = iota
	routeTurn        // an answer of the model
	routeCount       // a count of tokens, which is passed on and no turn
	routeList        // the list of models, which the gateway answers
)

// eventReader follows the events of one streamed answer.
type eventReader interface {
	// read reads an event. hide: the client did not ask for it. last: it ends the answer, and is
	// sent only when the turn is kept.
	read(e sse.Event) (hide, last bool)
	// answer returns what came so far. whole reports whether the end came.
	answer() (a Answer, whole bool)
}

func protocolOf(a API) protocol {
	switch a {
	case Anthropic:
		return anthropic{}
	case OpenAIChat:
		return chat{}
	case OpenAIResponses:
		return responses{}
	case Google:
		return google{}
	}
	return nil
}

// Action is what a request asks a provider for.
type Action string

// The actions.
const (
	ActionTurn  Action = "turn"
	ActionCount Action = "count"
)

// APIOf returns the protocol and the action of a request to a path below a base URL; no action if
// the path is of no protocol.
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

// ReadConversation reads what a request asks to continue.
func ReadConversation(api API, path string, body []byte) Conversation {
	return protocolOf(api).conversation(path, body)
}

// AsksForStream reports whether a request asks for a stream.
func AsksForStream(api API, path string, body []byte) bool {
	return protocolOf(api).streams(path, body)
}

// AskedModel returns the name of the model that a request asks for.
func AskedModel(api API, path string, body []byte) string {
	if api != Google {
		return gjson.GetBytes(body, "model").String()
	}
	name, _, _ := strings.Cut(path[strings.LastIndexByte(path, '/')+1:], ":")
	return name
}

// ErrorBody returns an error in the form of a protocol.
func ErrorBody(api API, status int, kind, message string) []byte {
	return protocolOf(api).failure(status, kind, message)
}
