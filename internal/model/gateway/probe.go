package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/model/inspect"
	"github.com/org/rollout-action/internal/model/tokens"
)

// Probed is a provider's answer to a request for one token.
type Probed struct {
	Latency  time.Duration
	Answered string // the model's name in the answer; "" if there is none
	Usage    model.Usage
}

// ProbeError is the reason why a model does not answer.
type ProbeError struct {
	// Key is the key of the model's configuration that is probably wrong: api_key, model, base_url,
	// record_tokens, or "" if it is the provider's failure.
	Key     string
	Message string
	// Busy: the provider refused because of a rate limit, so the key is accepted.
	Busy bool
}

func (e *ProbeError) Error() string { return e.Message }

// Probe asks the model for one token. The error is a *ProbeError whose message has no secret, or
// ctx's.
func (m *Model) Probe(ctx context.Context) (Probed, error) {
	if key := m.notInHeader(); key != "" {
		return Probed{}, &ProbeError{Key: key, Message: "the value has a line break or another control character, which no header can have"}
	}
	p := api.OrCommon(m.API)
	probe := p.Facts().Probe
	body := []byte(probe.Body)
	for {
		began := time.Now()
		status, text, err := m.probe(ctx, p, probe.Path, body)
		if err != nil {
			return Probed{}, err
		}
		message := failureText(status, text)
		if status == http.StatusBadRequest && probe.Other != "" && strings.Contains(message, probe.OtherFor) {
			body, probe.Other = []byte(probe.Other), ""
			continue
		}
		answer := p.Answer(text)
		probed := Probed{Latency: time.Since(began), Answered: answer.Model, Usage: answer.Usage}
		switch {
		case m.Tokens && tokens.Refused(status, text):
			return probed, &ProbeError{Key: tokensKey, Message: "the server refuses to state the ids of tokens and their log probabilities: " + m.hide(message)}
		case m.Tokens && status/100 == 2 && answer.Finish != "" && !tokens.Stated(text):
			return probed, &ProbeError{Key: tokensKey, Message: "the server answers without the ids of tokens and a log probability for each"}
		case status/100 == 2 && answer.Failed == "" && (answer.Finish != "" || answer.Usage.Known() || len(answer.Message.Parts) > 0):
			return probed, nil
		case status == http.StatusBadRequest && strings.Contains(message, "output limit was reached"):
			return probed, nil // a model that reasons has thought for longer than one token
		case status/100 == 2 && answer.Failed != "":
			return probed, &ProbeError{Message: "the provider answered with an error: " + m.hide(answer.Failed)}
		}
		return probed, m.refusal(status, text, m.hide(message))
	}
}

// notInHeader returns the key of the configuration whose value cannot be sent in a header, or "".
func (m *Model) notInHeader() string {
	if !model.InHeader(m.Key) {
		return "api_key"
	}
	for name, value := range m.Headers {
		if !model.InHeader(value) {
			return "headers." + name
		}
	}
	return ""
}

// tokensKey is the key of the configuration for Config.Tokens.
const tokensKey = "record_tokens"

// probe sends one request.
func (m *Model) probe(ctx context.Context, p api.Protocol, path string, body []byte) (int, []byte, error) {
	at, body, err := p.Prepare(path, body, m.upstream())
	if err != nil {
		return 0, nil, &ProbeError{Message: m.hide(err.Error())}
	}
	from, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway"+path, nil)
	if err != nil {
		return 0, nil, err
	}
	from.Header.Set("Content-Type", "application/json")
	for name, value := range p.Facts().Headers {
		from.Header.Set(name, value)
	}
	request, err := m.request(ctx, from, at, newUpload(body))
	if err != nil {
		return 0, nil, &ProbeError{Message: m.hide(err.Error())}
	}
	answer, err := m.client.Do(request)
	var text []byte
	if err == nil {
		defer answer.Body.Close()
		text, err = io.ReadAll(io.LimitReader(answer.Body, maxError))
	}
	switch {
	case err == nil:
		return answer.StatusCode, text, nil
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return 0, nil, context.Cause(ctx)
	case ctx.Err() != nil:
		return 0, nil, &ProbeError{Key: "base_url", Message: fmt.Sprintf("the provider at %s did not answer in time", m.base.Host)}
	}
	return 0, nil, &ProbeError{Key: "base_url", Message: fmt.Sprintf("the provider at %s cannot be reached: %s", m.base.Host, m.hide(withoutURL(err).Error()))}
}

// withoutURL returns an error of an http.Client without the URL.
func withoutURL(err error) error {
	if wrapped := interface{ Unwrap() error }(nil); errors.As(err, &wrapped) && wrapped.Unwrap() != nil {
		return wrapped.Unwrap()
	}
	return err
}

// failureText returns the error message of an answer, in one line.
func failureText(status int, text []byte) string {
	message := cmp.Or(gjson.GetBytes(text, "error.message").String(), gjson.GetBytes(text, "message").String(), gjson.GetBytes(text, "error").String())
	if message == "" && inspect.Valid(text) {
		message = string(text)
	}
	message = strings.Join(strings.Fields(strings.ToValidUTF8(message, "\uFFFD")), " ")
	if runes := []rune(message); len(runes) > 300 {
		message = string(runes[:300]) + "…"
	}
	return cmp.Or(message, http.StatusText(status), "no message")
}

// refusal returns the ProbeError for an answer with an error.
func (m *Model) refusal(status int, text []byte, message string) *ProbeError {
	with := fmt.Sprintf(" (HTTP status %d): %s", status, message)
	word := regexp.MustCompile(`(?i)(^|[^a-z0-9])` + regexp.QuoteMeta(m.Upstream) + `([^a-z0-9]|$)`) // names such as o1 are parts of words
	named := inspect.Valid(text) && gjson.ParseBytes(text).IsObject() && word.Match(text)
	switch {
	case status/100 == 2:
		return &ProbeError{Key: "base_url", Message: fmt.Sprintf("the server at %s answers, but not as the API %s does", m.base.Host, m.API)}
	case status/100 == 3:
		return &ProbeError{Key: "base_url", Message: fmt.Sprintf("the server at %s redirects to another address (HTTP status %d)", m.base.Host, status)}
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusBadRequest && mentions(text, "api key", "api_key"):
		return &ProbeError{Key: "api_key", Message: "the provider does not accept the key" + with}
	case status == http.StatusPaymentRequired || exhausted(text):
		return &ProbeError{Key: "api_key", Message: "the account of the key has no credit left" + with}
	case status == http.StatusTooManyRequests || status == statusOverloaded:
		return &ProbeError{Busy: true, Message: "the provider refuses because of a rate limit now" + with}
	case (status == http.StatusNotFound || status == http.StatusBadRequest) && named:
		return &ProbeError{Key: "model", Message: fmt.Sprintf("the provider does not know the model %q", m.Upstream) + with}
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		return &ProbeError{Key: "base_url", Message: fmt.Sprintf("there is no API %s below this URL", m.API) + with}
	}
	return &ProbeError{Message: "the provider answered with an error" + with}
}

// mentions reports whether an answer contains one of the words, ignoring case.
func mentions(text []byte, words ...string) bool {
	lower := strings.ToLower(string(text))
	for _, word := range words {
		if word != "" && strings.Contains(lower, strings.ToLower(word)) {
			return true
		}
	}
	return false
}
