// Package api has the table of the APIs of models, and the interface that each implements in a
// package below this one. No other package knows one API in particular.
package api

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api/anthropic"
	"github.com/org/rollout-action/internal/model/api/chat"
	"github.com/org/rollout-action/internal/model/api/google"
	"github.com/org/rollout-action/internal/model/api/responses"
	"github.com/org/rollout-action/internal/model/asking"
	"github.com/org/rollout-action/internal/model/inspect"
	"github.com/org/rollout-action/internal/model/rendering"
	"github.com/org/rollout-action/internal/model/sse"
)

// All is the table of the APIs. Where a request is of several APIs, the first one counts.
var All = []Protocol{
	anthropic.API{},
	chat.API{},
	responses.API{},
	google.API{},
}

// Common is the API of requests and scripted models that do not name one. Most clients and servers
// support it.
var Common Protocol = chat.API{}

// Protocol reads and writes the requests and answers of one API. Its methods are safe for
// concurrent use.
type Protocol interface {
	// Facts returns the properties of the API, which must not be changed.
	Facts() *model.Facts
	// Route classifies a request by its method and its path below the base URL.
	Route(method, path string) model.Route
	// Streams reports whether a request asks for a stream.
	Streams(path string, body []byte) bool
	// Prepare returns the path and the body for the upstream: the model's name, the imposed
	// sampling, and the options with which the gateway counts tokens are set; nothing else changes.
	Prepare(path string, body []byte, to model.Upstream) (string, []byte, error)
	// Rules returns the protocol's rules for package inspect.
	Rules() inspect.Rules
	// Conversation reads a request.
	Conversation(path string, body []byte) model.Conversation
	// Answer reads an answer that is not a stream.
	Answer(body []byte) model.Answer
	// Reader returns a reader of a stream's events. asked is the unmodified body of the agent.
	Reader(asked []byte) model.StreamReader
	// KeepAlive returns bytes to send between two events so that clients keep waiting. last is the
	// latest event that was sent.
	KeepAlive(last []byte) []byte
	// Failure returns the body of an error as the upstream would send it.
	Failure(code int, kind, message string) []byte

	// Ask returns an empty conversation of an agent that asks the model itself.
	Ask(o asking.Options) asking.Conversation

	// Render returns an answer of a scripted model as one JSON object, RenderStream as the events
	// of a stream.
	Render(a rendering.Answer) []byte
	RenderStream(a rendering.Answer) [][]byte
	// RenderFailedStream returns the events of a stream that begins with the answer's text and ends
	// with an error. The answer's calls are left out.
	RenderFailedStream(a rendering.Answer, e rendering.Error) [][]byte
	// RenderError returns an error of a scripted model as the body of an answer.
	RenderError(e rendering.Error) []byte
}

// refuser is implemented by protocols with requests that no gateway can answer.
type refuser interface {
	// Refuses returns the kind and the message of a refusal, or "".
	Refuses(method, path string) (kind, message string)
}

// Names lists the names of the APIs.
func Names() []model.API {
	var out []model.API
	for _, p := range All {
		out = append(out, p.Facts().Name)
	}
	return out
}

// Named returns the API with a name; nil for scripted models and unknown names.
func Named(name model.API) Protocol {
	for _, p := range All {
		if p.Facts().Name == name {
			return p
		}
	}
	return nil
}

// OrCommon returns the API with a name, or Common.
func OrCommon(name model.API) Protocol {
	if p := Named(name); p != nil {
		return p
	}
	return Common
}

// Of returns the API and the action of a request to a path below a base URL. The action is "" if no
// API has the path.
func Of(path string) (Protocol, model.Action) {
	for _, p := range All {
		switch p.Route(http.MethodPost, path) {
		case model.RouteTurn:
			return p, model.ActionTurn
		case model.RouteCount:
			return p, model.ActionCount
		}
	}
	return nil, ""
}

// Refuses returns why no gateway can answer a request, whatever the API of its model; kind is "" if
// one may.
func Refuses(method, path string) (kind, message string) {
	for _, p := range All {
		if r, ok := p.(refuser); ok && kind == "" {
			kind, message = r.Refuses(method, path)
		}
	}
	return kind, message
}

// AskedModel returns the name of the model that a request asks for.
func AskedModel(p Protocol, path string, body []byte) string {
	if !p.Facts().NamesModelInPath {
		return gjson.GetBytes(body, "model").String()
	}
	name, _, _ := strings.Cut(path[strings.LastIndexByte(path, '/')+1:], ":")
	return name
}

// Environment returns the variables that make clients of an API use a gateway: those of every API,
// which begin with ROLLOUT_, and those that the API's own clients read; for scripted models, those
// of all clients. at is the gateway's URL without a path.
func Environment(name model.API, at, token, upstream string) map[string]string {
	env := map[string]string{
		"ROLLOUT_MODEL_URL": at + OrCommon(name).Facts().Version, "ROLLOUT_MODEL_KEY": token, "ROLLOUT_MODEL_NAME": upstream, "ROLLOUT_MODEL_API": string(name),
	}
	for _, p := range All {
		if f := p.Facts(); name == model.Scripted || name == f.Name {
			maps.Copy(env, f.Clients(at, token, upstream))
		}
	}
	return env
}

// BaseURL returns the URL of the API's author, without the version; "" for scripted models. A
// model's base_url has this form; one that ends in the version is accepted, too.
func BaseURL(name model.API) string {
	if p := Named(name); p != nil {
		return p.Facts().BaseURL
	}
	return ""
}

// Author returns the name of the API's author in OpenTelemetry's conventions for generative AI; for
// other APIs, the API's name.
func Author(name model.API) string {
	if p := Named(name); p != nil {
		return p.Facts().Author
	}
	return string(name)
}

// WithTokens returns the APIs in which a server may report the ids of tokens.
func WithTokens() []model.API {
	return slices.DeleteFunc(Names(), func(name model.API) bool { return !Named(name).Facts().Tokens })
}

// IsWhole reports whether the body of an answer is complete.
func IsWhole(p Protocol, contentType string, body []byte) bool {
	if !sse.IsStream(contentType) {
		return inspect.Valid(body)
	}
	events, reader := sse.NewReader(bytes.NewReader(body)), p.Reader(nil)
	for {
		e, err := events.NextTaken()
		if err != nil {
			a, whole := reader.Answer()
			return a.Failed == "" && Ended(p, a, whole, err)
		}
		reader.Read(e)
	}
}

// Ended reports whether a stream that ended with err had a complete answer. whole is what its
// reader says of it.
func Ended(p Protocol, a model.Answer, whole bool, err error) bool {
	return whole || p.Facts().LastEventIsOptional && errors.Is(err, io.EOF) && a.Finish != ""
}

// The rest is the same for all APIs: servers of one sit behind the protocol of another.

// Truncated reports whether the reason why a model stopped is the maximum length of its output.
func Truncated(finish string) bool {
	return finish != "" && slices.ContainsFunc(All, func(p Protocol) bool { return p.Facts().Truncated == finish })
}

// EndOf classifies the reason why a model stopped.
func EndOf(finish string) asking.End {
	switch {
	case finish != "" && slices.ContainsFunc(All, func(p Protocol) bool { return p.Facts().Filled == finish }):
		return asking.Overflow
	case Truncated(finish):
		return asking.Truncated
	}
	return asking.Stopped
}

// Overflows reports whether a provider's error means that the conversation is too long.
func Overflows(status int, body string) bool {
	if status != http.StatusBadRequest && status != http.StatusRequestEntityTooLarge && status != http.StatusUnprocessableEntity {
		return false
	}
	body = strings.ToLower(body)
	return slices.ContainsFunc(overflows, func(phrase string) bool { return strings.Contains(body, phrase) })
}

var (
	overflows = collect(func(f *model.Facts) []string { return f.Overflows })
	limits    = collect(func(f *model.Facts) []string { return f.Limits })
	choices   = collect(func(f *model.Facts) []string { return f.Choices })
	sampling  = collect(func(f *model.Facts) []string { return f.Sampling })
	headers   = collect(func(f *model.Facts) []string { return []string{f.KeyHeader} })
)

// Limits lists the paths in requests of the maximum length of an answer, in tokens; Choices those
// of the number of answers; Sampling those of other parameters that affect answers.
func Limits() []string { return limits }

// Choices is described at Limits.
func Choices() []string { return choices }

// Sampling is described at Limits.
func Sampling() []string { return sampling }

// KeyHeaders lists the headers in which clients send keys, besides Authorization.
func KeyHeaders() []string { return headers }

// collect returns the texts of all APIs, each once.
func collect(of func(*model.Facts) []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, p := range All {
		for _, text := range of(p.Facts()) {
			if !seen[text] {
				out = append(out, text)
			}
			seen[text] = true
		}
	}
	return out
}

// Authorise puts a key into a request to the upstream.
func Authorise(p Protocol, r *http.Request, key string) {
	if name := p.Facts().KeyHeader; name == "Authorization" {
		r.Header.Set(name, "Bearer "+key)
	} else {
		r.Header.Set(name, key)
	}
}
