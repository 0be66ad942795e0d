package model

import (
	"github.com/org/rollout-action/internal/model/sse"
)

// API names the protocol of a model's provider. Package api has the table.
type API string

// Scripted stands for all protocols: a model whose Transport answers each request in the request's
// protocol.
const Scripted API = "scripted"

// Facts are the properties of an API that need no code. They are not changed.
type Facts struct {
	Name API
	// BaseURL is that of the API's author, without the version: https://api.anthropic.com.
	BaseURL string
	Version string // the path at which requests begin: /v1
	Author  string // of the API, as OpenTelemetry's conventions name it
	// KeyHeader is the header for the key; in Authorization, it is a bearer token.
	KeyHeader string
	Headers   map[string]string // that requests must have
	// Services are providers that speak the API.
	Services []Service
	// Clients returns the variables that the API's own clients read.
	Clients func(at, token, model string) map[string]string
	// List returns a list of models with one model.
	List  func(name string) []byte
	Probe Probe
	// RefusalCode is the status of a refusal that makes clients give up at once.
	RefusalCode int
	// NamesModelInPath: requests name the model in their path, and not in their body.
	NamesModelInPath bool
	// NoLastEvent: streams have no event that only ends them. LastEventIsOptional: some servers
	// leave it out, so an answer with a reason for its end is complete.
	NoLastEvent, LastEventIsOptional bool
	// Tokens: some servers state the ids of tokens, in the form that package tokens reads.
	Tokens bool
	// Truncated is the reason for the end of an answer that reached the maximum length of its
	// output.
	Truncated string
	// Filled is the reason for the end of an answer that filled the model's context; "" if there is
	// none.
	Filled string
	// Overflow is the provider's error for a conversation that the model cannot read because of its
	// length.
	Overflow string
	// Overflows are parts of errors about such conversations, in lower case. Each is from a
	// provider's answers or documentation.
	Overflows []string
	// Limits are the paths of the maximum length of an answer in a request, in tokens, Choices
	// those of the number of answers, and Sampling those of other parameters that affect answers.
	Limits, Choices, Sampling []string
}

// Service is a provider of models, under the name with which LiteLLM and its users begin a model's
// name: anthropic/claude-sonnet-4-5.
type Service struct {
	Prefix  string
	BaseURL string // "": that of the API's author
	Key     string // the variable that usually holds a key
}

// Probe is the smallest request for an answer.
type Probe struct {
	Path, Body string
	// Other replaces Body for models that refuse it with a message that contains OtherFor.
	Other, OtherFor string
}

// Route classifies a request by its method and path.
type Route int

// The routes.
const (
	RouteNone  Route = iota
	RouteTurn        // an answer of the model
	RouteCount       // a count of tokens, which is passed on and is not a turn
	RouteList        // the list of models, which the gateway answers
)

// Upstream is a provider's model, as requests to it have to be.
type Upstream struct {
	Name     string
	Sampling map[string]any // imposed on each request
	Tokens   bool           // ids of tokens are asked for
}

// StreamReader follows the events of one streamed answer.
type StreamReader interface {
	// Read reads an event. hide: the client did not ask for it. last: it ends the answer, and is
	// sent only after the turn is stored.
	Read(e sse.Event) (hide, last bool)
	// Answer returns the answer so far. whole reports whether it is complete.
	Answer() (a Answer, whole bool)
}

// Action classifies a request to a provider.
type Action string

// The actions.
const (
	ActionTurn  Action = "turn"
	ActionCount Action = "count"
)
