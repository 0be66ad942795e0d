package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/model/asking"
	"github.com/org/rollout-action/internal/model/sse"
)

// host stands for the provider in URLs; the transport knows where requests go.
const host = "http://model.invalid"

// ask returns the next answer. It retries transient failures: errors of the provider's servers, and
// answers that are cut off. The gateway waits for rate limits, so they are not retried.
func (l *loop) ask(ctx context.Context) (asking.Answer, error) {
	for try := 0; ; {
		a, failed := l.once(ctx)
		if failed == nil {
			return a, nil
		}
		if ctx.Err() != nil {
			return asking.Answer{}, ctx.Err()
		}
		if failed.adapt {
			l.log.printf("[%s; asking again without what the model does not have]\n", failed)
			continue
		}
		if !failed.again || try >= len(retryDelays) {
			l.log.printf("[%s]\n", failed)
			return asking.Answer{}, &ModelError{Status: failed.status, Message: failed.message, Turns: l.turns}
		}
		delay := retryDelays[try]/2 + rand.N(retryDelays[try]/2)
		try++
		l.log.printf("[%s; asking again in %.1f s]\n", failed, delay.Seconds())
		if !l.Sleep(ctx, delay) {
			return asking.Answer{}, ctx.Err()
		}
	}
}

// failure is a request without an answer.
type failure struct {
	status  int
	message string
	again   bool // transient: the request may succeed later
	adapt   bool // the next request omits the feature that this one was refused for
}

func (f *failure) String() string {
	if f.status == 0 {
		return "the model gave no answer: " + f.message
	}
	return fmt.Sprintf("the model gave no answer: HTTP status %d: %s", f.status, f.message)
}

func failed(status int, again bool, message string) *failure {
	return &failure{status: status, again: again, message: excerpt.Line(strings.Join(strings.Fields(plain(strings.ToValidUTF8(message, "\uFFFD"))), " "), 1000)}
}

// once sends the conversation and reads the answer. Answers are streamed, because proxies cut long
// ones that are not.
func (l *loop) once(ctx context.Context) (asking.Answer, *failure) {
	path, content := l.talk.Request()
	body, err := encode(content)
	if err != nil {
		return asking.Answer{}, failed(0, false, err.Error())
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, host+path, bytes.NewReader(body))
	if err != nil {
		return asking.Answer{}, failed(0, false, err.Error())
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "rollout-shell/"+Version)
	for name, value := range api.OrCommon(l.API).Facts().Headers {
		r.Header.Set(name, value)
	}
	response, err := l.client.Do(r)
	if err != nil {
		return asking.Answer{}, failed(0, true, err.Error())
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return asking.Answer{}, l.refusal(response)
	}
	reader := l.talk.Reader()
	whole, err := read(response, reader)
	a := reader.Answer()
	switch {
	case a.Failed != "":
		return asking.Answer{}, failed(0, true, a.Failed)
	case errors.Is(err, errLong):
		return asking.Answer{}, failed(0, false, err.Error())
	case err != nil:
		return asking.Answer{}, failed(0, true, "the answer was cut off: "+err.Error())
	case !whole:
		return asking.Answer{}, failed(0, true, "the answer was cut off")
	}
	return a, nil
}

var errLong = fmt.Errorf("the answer has more than %d bytes", maxAnswer)

// read reads an answer. whole reports whether the answer is complete.
func read(response *http.Response, reader asking.Reader) (whole bool, err error) {
	body := &io.LimitedReader{R: response.Body, N: maxAnswer + 1}
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind != "text/event-stream" { // proxies that do not stream
		text, err := io.ReadAll(body)
		switch {
		case err != nil:
			return false, err
		case body.N <= 0:
			return false, errLong
		case !model.ValidJSON(text):
			return false, errors.New("it is not JSON")
		}
		reader.Plain(gjson.ParseBytes(text))
		return true, nil
	}
	events := sse.NewDataReader(body)
	for {
		data, err := events.Next()
		switch {
		case body.N <= 0:
			return false, errLong
		case errors.Is(err, io.EOF):
			return reader.Ended(), nil
		case err != nil:
			return false, err
		}
		reader.Event(data)
	}
}

// refusal returns the failure that an error response describes.
func (l *loop) refusal(response *http.Response) *failure {
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxError)) // a body that breaks off is enough
	message := gjson.GetBytes(text, "error.message").String()
	if message == "" {
		message = string(text)
	}
	if strings.TrimSpace(message) == "" {
		message = http.StatusText(response.StatusCode)
	}
	f := failed(response.StatusCode, mayPass(response), message)
	f.adapt = l.talk.Adapt(response.StatusCode, text)
	return f
}

// mayPass reports whether a request may succeed when it is sent again.
func mayPass(response *http.Response) bool {
	if response.Header.Get("X-Should-Retry") == "false" { // a budget is used up
		return false
	}
	const overloaded = 529 // Anthropic's, which the gateway waits for as for 429
	switch code := response.StatusCode; code {
	case http.StatusRequestTimeout:
		return true
	case http.StatusNotImplemented, overloaded:
		return false
	default:
		return code >= 500
	}
}

// encode returns v as JSON, without escaping HTML characters.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}
