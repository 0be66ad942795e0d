package gateway

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/model/inspect"
	"github.com/org/rollout-action/internal/model/meter"
	"github.com/org/rollout-action/internal/model/tokens"
)

// maxError is the maximum number of bytes read of an error's body, and maxPlain that of an answer
// that is not a stream.
const (
	maxError = 1 << 20
	maxPlain = 64 << 20
)

// statusOverloaded is Anthropic's status for an overloaded model.
const statusOverloaded = 529

// turn handles a request for an answer of the model.
func (s *Session) turn(w *patient, r *http.Request, path string) {
	began := time.Now()
	asked, release, ok := s.readBody(w, r)
	defer release()
	if !ok {
		return
	}
	size := s.opts.Model.size(asked)
	n, waited, stop, err := s.begin(r.Context(), size)
	switch {
	case errors.Is(err, errSealed):
		s.sealedAnswer(w, r)
		return
	case errors.Is(err, errBudgetWait):
		s.refuse(w, r, http.StatusServiceUnavailable, "budget_reserved", err.Error())
		return
	case err != nil: // the client has gone
		return
	case stop != "":
		s.stopped(w, r, stop)
		return
	}
	x := &exchange{s: s, m: s.opts.Model, p: s.opts.Model.protocolOf(r), w: w, r: r, asked: asked, path: path, size: size, turn: model.Turn{
		N: n, Agent: agentOf(r), Asked: s.opts.Model.Upstream, Began: began, Waiting: waited, Retry: retried(r),
	}}
	defer x.end()
	x.run()
}

// exchange is one turn while it runs.
type exchange struct {
	s     *Session
	m     *Model
	p     api.Protocol
	w     *patient
	r     *http.Request
	asked []byte // nil from when the request is sent
	text  []byte // the body sent to the provider, until the turn is stored
	sends *upload
	path  string
	turn  model.Turn
	size  *meter.Size
	sent  bool // to the provider
	// reached: the provider got the request, so it may cost something. refused: the provider
	// refused it.
	reached, refused bool
	kept             bool
	reader           model.StreamReader
	tokens           *tokens.Reader // of the answer; nil if they are not recorded
	// asksTwice: the server may require another form of the request for the ids of tokens.
	asksTwice bool
	// ext: the ids of tokens are requested with SGLang's headers for streams.
	ext   bool
	wrote atomic.Bool // the request was written to a connection with the provider
	// abort: the connection must end in the middle of the answer, as the provider's did.
	abort bool
	// streams: the agent has asked for a stream.
	streams bool
	// broke: the provider accepted the request, but its answer is missing or broke off.
	broke bool
}

// end stores the turn if that was not done, and aborts the connection if the answer was cut off:
// clients would take a normal end for the end of the answer.
func (x *exchange) end() {
	if !x.kept {
		_ = x.keep() // it is in the report
	}
	if x.abort {
		panic(http.ErrAbortHandler)
	}
}

// keep stores the turn.
func (x *exchange) keep() error {
	x.kept = true
	if x.turn.Ended.IsZero() {
		x.turn.Ended = time.Now()
	}
	if x.text != nil && x.s.opts.Conversations { // not before: it needs as much memory again
		x.turn.Conversation = x.p.Conversation(x.path, x.text)
	}
	x.turn.Answer.Usage = x.estimated(x.text)
	x.text = nil
	if x.sends != nil {
		x.sends.drop()
	}
	return x.s.finish(x)
}

func (x *exchange) fail(kind model.FailureKind, status int, message string) {
	if len(message) > 2000 {
		message = message[:2000]
	}
	x.turn.Failure = &model.Failure{Kind: kind, Status: status, Message: strings.ToValidUTF8(message, "\uFFFD")}
}

func (x *exchange) run() {
	at, text, found, err := x.s.admitted(x.p, x.path, x.asked, x.m)
	x.turn.Stripped, x.turn.Removed = found.Web, found.Models
	if err != nil {
		x.fail(model.FailedRefused, 0, err.Error())
		x.s.refuse(x.w, x.r, http.StatusBadRequest, "invalid_request", "the gateway does not pass the request on: "+err.Error())
		return
	}
	x.text = text
	x.follow()
	answer, err := x.askAsKnown(at, text)
	if err != nil {
		x.unreachable(err)
		return
	}
	defer answer.Body.Close()
	if x.tokens != nil {
		x.tokens.HideExt = x.ext
	}
	switch {
	case answer.StatusCode/100 != 2:
		x.relayError(answer)
	case x.isStream(answer):
		x.relayStream(answer)
	default:
		x.relayPlain(answer)
	}
}

// follow sets the readers and flags for the answer from the agent's body, and then drops the body.
func (x *exchange) follow() {
	x.reader, x.streams = x.p.Reader(x.asked), x.p.Streams(x.path, x.asked)
	if x.p.Facts().Tokens && x.m.Tokens {
		x.tokens = tokens.NewReader(x.asked, false)
		x.asksTwice = x.streams && !gjson.GetBytes(x.asked, tokens.IDsKey).Bool()
	}
	x.asked = nil
}

// askAsKnown sends the request, and sends it again if the server requires another form of the
// request for the ids of tokens.
func (x *exchange) askAsKnown(at string, text []byte) (*http.Response, error) {
	if !x.asksTwice {
		return x.ask(at, text)
	}
	bare, err := sjson.DeleteBytes(text, tokens.IDsKey)
	if err != nil {
		return nil, err
	}
	if x.ext = x.s.ext.Load(); x.ext {
		return x.ask(at, bare)
	}
	answer, err := x.ask(at, text)
	if err != nil || answer.StatusCode != http.StatusBadRequest {
		return answer, err
	}
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxError)) // a partial body is passed on
	answer.Body.Close()
	answer.Body = newBody(body)
	if !tokens.RefusesStreams(answer.StatusCode, body) {
		return answer, nil
	}
	x.ext = true
	x.s.ext.Store(true)
	return x.ask(at, bare)
}

// ask sends the request, and repeats it with delays while the provider refuses it because of a rate
// limit.
func (x *exchange) ask(path string, text []byte) (*http.Response, error) {
	x.sends = newUpload(text)
	ctx := x.r.Context()
	waits, cancel := context.WithTimeoutCause(ctx, x.s.opts.MaxWait, errWaited)
	defer cancel()
	var refused *http.Response // the last refusal
	for {
		from := time.Now()
		place, err := x.m.queue.enter(waits)
		x.turn.Waiting += time.Since(from)
		if err != nil {
			switch {
			case refused != nil && ctx.Err() == nil:
				return refused, nil
			case refused != nil || x.m.queue.isLimited():
				return nil, &limitError{refused}
			case errors.Is(err, errWaited):
				return nil, errWaited
			}
			return nil, context.Cause(ctx)
		}
		request, err := x.m.request(x.s.calling(ctx, x.p, model.ActionTurn), x.r, path, x.sends)
		if err != nil {
			place.failed()
			place.leave()
			return nil, err
		}
		if x.ext {
			for _, name := range tokens.StreamHeaders {
				request.Header.Set(name, "1")
			}
		}
		x.sent = true
		sent := time.Now()
		answer, err := x.m.client.Do(x.watched(request))
		if x.reached = x.reached || err == nil || x.wrote.Load(); err == nil {
			x.refused = answer.StatusCode/100 != 2
		}
		if err != nil {
			place.failed()
			place.leave()
			if refused != nil && ctx.Err() != nil {
				return nil, &limitError{refused}
			}
			return nil, err
		}
		if answer.StatusCode != http.StatusTooManyRequests && answer.StatusCode != statusOverloaded {
			place.answered()
			if old, ok := answer.Body.(interface{ RecordedAt() time.Time }); ok {
				x.turn.Recorded = old.RecordedAt()
			}
			answer.Body = &leaving{ReadCloser: answer.Body, leave: place.leave}
			return answer, nil
		}
		after := retryAfter(answer.Header)
		body, _ := io.ReadAll(io.LimitReader(answer.Body, maxError)) // a partial body is passed on
		answer.Body.Close()
		answer.Body = newBody(body)
		place.limited(after)
		place.leave()
		if exhausted(body) || after > x.s.opts.MaxWait {
			return answer, nil
		}
		refused = answer
		x.turn.Waiting += time.Since(sent)
	}
}

// watched returns the request with a trace that records when it has reached the provider: a failed
// connection costs nothing.
func (x *exchange) watched(r *http.Request) *http.Request {
	x.refused = false
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		WroteRequest: func(info httptrace.WroteRequestInfo) { x.wrote.Store(x.wrote.Load() || info.Err == nil) },
	}))
}

var errWaited = errors.New("there was no free place for the request")

// limitError is the error of a request that ended before the provider's rate limit did. refused is
// the provider's last refusal of it, or nil if it waited because others were refused.
type limitError struct{ refused *http.Response }

func (*limitError) Error() string { return "the provider's limit of the rate has not ended" }

// exhausted reports whether a refusal means that the account has no money left, so that waiting is
// useless.
func exhausted(body []byte) bool {
	for _, path := range []string{"error.code", "error.type"} {
		switch gjson.GetBytes(body, path).String() {
		case "insufficient_quota", "billing_error", "billing_hard_limit_reached", "credit_balance_too_low":
			return true
		}
	}
	return false
}

// leaving is the body of an answer. Closing it frees the request's place in the queue.
type leaving struct {
	io.ReadCloser
	leave func()
}

// Close implements io.Closer. It is called once.
func (l *leaving) Close() error {
	l.leave()
	return l.ReadCloser.Close()
}

// unreachable answers a request that got no answer from the provider.
func (x *exchange) unreachable(err error) {
	ctx := x.r.Context()
	missed, own, limit := (*model.MissError)(nil), (*model.GatewayError)(nil), (*limitError)(nil)
	switch {
	case errors.As(err, &limit):
		x.limited(limit)
	case errors.As(err, &missed):
		x.fail(model.FailedMissed, 0, x.m.hide(missed.Difference))
		_ = x.keep() // before the client can ask again
		x.s.stopped(x.w, x.r, model.StopMissed)
	case errors.As(err, &own):
		x.fail(model.FailedGateway, 0, x.m.hide(own.Error()))
		x.s.refuse(x.w, x.r, http.StatusInternalServerError, "gateway_failed", "the gateway to the model failed")
	case errors.Is(context.Cause(ctx), errSealed):
		x.fail(model.FailedCut, 0, errSealed.Error())
		x.s.sealedAnswer(x.w, x.r)
	case ctx.Err() != nil:
		x.fail(model.FailedCut, 0, "the agent did not wait for the answer")
		x.abort = true
	case errors.Is(err, errWaited):
		x.fail(model.FailedLimit, 0, fmt.Sprintf("there was no free place within %s (max_concurrent of the model %s)", x.s.opts.MaxWait, x.m.Name))
		x.s.refuse(x.w, x.r, http.StatusServiceUnavailable, "model_busy", x.turn.Failure.Message)
	default:
		x.fail(model.FailedUnreachable, 0, x.m.hide(err.Error()))
		code := http.StatusBadGateway
		if timeout := interface{ Timeout() bool }(nil); errors.As(err, &timeout) && timeout.Timeout() {
			code = http.StatusGatewayTimeout
		}
		x.s.refuse(x.w, x.r, code, "model_unreachable", "the provider of the model cannot be reached")
	}
}

// limited answers a request that ended while it waited for a rate limit: the session was sealed,
// the agent gave up, or it has waited for the maximum time.
func (x *exchange) limited(err *limitError) {
	status, said := 0, "other requests were refused"
	if err.refused != nil {
		text, _ := io.ReadAll(err.refused.Body) // it is in memory
		status, said = err.refused.StatusCode, x.messageOf([]byte(x.m.hide(string(text))), err.refused.StatusCode)
	}
	x.fail(model.FailedLimit, status, fmt.Sprintf("%s (the request has waited for %s)", said, x.turn.Waiting.Round(100*time.Millisecond)))
	switch ctx := x.r.Context(); {
	case errors.Is(context.Cause(ctx), errSealed):
		x.s.sealedAnswer(x.w, x.r)
	case ctx.Err() != nil:
		x.abort = true
	default:
		x.s.refuse(x.w, x.r, http.StatusTooManyRequests, "rate_limit", x.turn.Failure.Message)
	}
}

// messageOf returns the provider's message in the body of an error.
func (x *exchange) messageOf(body []byte, status int) string {
	return cmp.Or(gjson.GetBytes(body, "error.message").String(), gjson.GetBytes(body, "message").String(), strings.TrimSpace(string(body)), http.StatusText(status))
}

// relayError passes on an error of the provider unchanged: clients search its text.
func (x *exchange) relayError(answer *http.Response) {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxError)) // a partial body is passed on
	x.turn.FirstByte = time.Now()
	text = []byte(x.m.hide(string(text)))
	kind := model.FailedProvider
	switch {
	case answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == statusOverloaded:
		kind = model.FailedLimit
		if exhausted(text) {
			kind = model.FailedProvider
		}
	case api.Overflows(answer.StatusCode, string(text)):
		kind = model.FailedOverflow
	}
	x.fail(kind, answer.StatusCode, x.messageOf(text, answer.StatusCode))
	_ = x.keep() // the error is passed on all the same
	x.m.header(x.w.Header(), answer.Header)
	x.w.WriteHeader(answer.StatusCode)
	_, _ = x.w.Write(text) // fails if the client is gone
}

// relayPlain passes on an answer that is not a stream, after the turn is stored.
func (x *exchange) relayPlain(answer *http.Response) {
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxPlain+1))
	said := text
	text = x.m.hideKey(text)
	x.turn.FirstByte, x.turn.Ended = time.Now(), time.Now()
	switch {
	case err != nil:
		x.cut(err)
		x.abort = true
		return
	case len(text) > maxPlain:
		x.fail(model.FailedProvider, answer.StatusCode, "the answer has more than 64 MiB")
		x.s.refuse(x.w, x.r, http.StatusBadGateway, "answer_too_large", x.turn.Failure.Message)
		return
	case answer.Header.Get("Content-Encoding") != "":
		x.fail(model.FailedProvider, answer.StatusCode, fmt.Sprintf("the provider's answer has the encoding %q, which cannot be read", answer.Header.Get("Content-Encoding")))
		x.broke = true
	case !inspect.Valid(text):
		x.fail(model.FailedProvider, answer.StatusCode, "the provider's answer is not JSON")
		x.broke = true
	default:
		x.turn.Answer, x.turn.Whole = x.p.Answer(text), true
		if ids := x.tokens; ids != nil {
			ids.Read(text)
			ids.Broken = ids.Broken || !bytes.Equal(said, text) // ids would reveal the key
			x.turn.Answer.Tokens = ids.Tokens()
			text, _ = ids.Hide(text)
		}
		if failed := x.turn.Answer.Failed; failed != "" {
			x.fail(model.FailedProvider, answer.StatusCode, failed)
			x.broke, x.refused = true, x.turn.Answer.Empty()
		}
	}
	if x.keep() != nil {
		x.abort = true
		return
	}
	x.m.header(x.w.Header(), answer.Header)
	x.w.WriteHeader(answer.StatusCode)
	_, _ = x.w.Write(text) // fails if the client is gone
}

// cut records that an answer ended too early.
func (x *exchange) cut(err error) {
	why := "the provider's answer ended too early"
	switch {
	case errors.Is(context.Cause(x.r.Context()), errSealed):
		why = errSealed.Error()
	case x.r.Context().Err() != nil:
		why = "the agent did not wait for the end of the answer"
	default:
		x.broke = true
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			why += ": " + x.m.hide(err.Error())
		}
	}
	x.fail(model.FailedCut, http.StatusOK, why)
}

// agentOf returns the client's name of the agent or sub-agent that sent a request.
func agentOf(r *http.Request) string {
	for _, name := range []string{"X-Claude-Code-Agent-Id", "Thread-Id", "X-Session-Id", "X-Claude-Code-Session-Id", "Session-Id"} {
		if id := r.Header.Get(name); id != "" && len(id) <= 200 {
			return strings.ToValidUTF8(id, "\uFFFD")
		}
	}
	return ""
}

// retried reports whether a request's headers mark it as a repetition.
func retried(r *http.Request) bool {
	n := r.Header.Get("X-Stainless-Retry-Count")
	return n != "" && n != "0"
}
