// Package openai has what OpenAI's two APIs share.
package openai

import (
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api/internal/apijson"
	"github.com/org/rollout-action/internal/model/meter"
	"github.com/org/rollout-action/internal/model/rendering"
)

// BaseURL is the URL of OpenAI's APIs, without the version.
const BaseURL = "https://api.openai.com"

// Clients returns the variables that clients of OpenAI's APIs read.
func Clients(at, token, model string) map[string]string {
	return map[string]string{"OPENAI_BASE_URL": at + "/v1", "OPENAI_API_BASE": at + "/v1", "OPENAI_API_KEY": token, "OPENAI_MODEL": model}
}

// List returns a list of models with one model.
func List(name string) []byte {
	return apijson.JSON(map[string]any{"object": "list", "data": []any{map[string]any{"id": name, "object": "model", "created": 1, "owned_by": "rollout"}}})
}

// Cost returns the cost that an OpenAI-like provider states, in US dollars; nil if it states
// none. xAI's ticks are 1e-10 US dollars.
func Cost(v gjson.Result) *float64 {
	if ticks := v.Get("cost_in_usd_ticks"); ticks.Type == gjson.Number && ticks.Num >= 0 && ticks.Num <= 1e16 {
		return new(ticks.Num / 1e10)
	}
	return apijson.Dollars(v.Get("cost"))
}

// ReasoningOutside adds the reasoning to the output if the total shows that the output does not
// include it, as with xAI. It notes contradictions.
func ReasoningOutside(u model.Usage, total *int64) model.Usage {
	if total != nil && meter.Value(u.Reasoning) > 0 && u.Input != nil && u.Output != nil && *total == *u.Input+*u.Output+*u.Reasoning {
		u.Output = new(*u.Output + *u.Reasoning)
	}
	u.Contradiction = apijson.Contradiction(u, total)
	return u
}

// Failure returns the body of an error.
func Failure(code int, kind, message string) []byte {
	name := "invalid_request_error"
	if code >= http.StatusInternalServerError {
		name = "server_error"
	}
	return apijson.JSON(map[string]any{"error": map[string]any{"message": message, "type": name, "code": kind, "param": nil}})
}

// Error returns an error of the provider.
func Error(e rendering.Error) apijson.Object {
	kind := apijson.ByStatus(map[int]string{http.StatusTooManyRequests: "rate_limit_error"}, e.Status, "invalid_request_error", "server_error")
	code := apijson.ByStatus(map[int]string{http.StatusTooManyRequests: "rate_limit_exceeded"}, e.Status, "scripted", "server_error")
	if e.Overflow {
		code = "context_length_exceeded"
	}
	return apijson.Object{"message": e.Message, "type": kind, "code": code, "param": nil}
}
