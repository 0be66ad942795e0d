package github

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxTries is how often a request is sent that may be repeated.
	maxTries = 4
	// firstBackoff doubles with each further try.
	firstBackoff = time.Second
	// secondaryWait is how long to wait, doubling each time, when GitHub does not say how long.
	// Source: docs.github.com, "Best practices for using the REST API", "Handle rate limit errors appropriately".
	secondaryWait = time.Minute
	// tryTimeout ends one try, body and all.
	tryTimeout = time.Minute
	// maxAnswer bounds an answer of the API, in bytes. The largest that is asked for, a comparison, has the patches of
	// up to 300 files.
	maxAnswer = 32 << 20
)

// transport sends requests with the token, waits as GitHub asks, and repeats what may be repeated. It does this below
// go-github, whose own handling ends in errors instead of waiting.
type transport struct {
	base    http.RoundTripper
	api     *url.URL
	token   string
	now     func() time.Time
	sleep   func(context.Context, time.Duration) error
	jitter  func(time.Duration) time.Duration
	maxWait time.Duration

	mu        sync.Mutex
	waited    time.Duration
	notBefore time.Time // GitHub wants no request before
	secondary int       // answers in a row that were secondary limits without a time
	reason    bool      // notBefore is because of a secondary limit
}

// repeatable marks, in a request's context, a POST that only reads.
type repeatable struct{}

// RoundTrip implements http.RoundTripper. The body of its answer is in memory.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	for try := 1; ; try++ {
		if err := t.await(req.Context()); err != nil {
			return nil, err
		}
		resp, body, err := t.once(req)
		if ctx := req.Context(); ctx.Err() != nil {
			return nil, ctx.Err()
		}
		again := rewindable(req)
		switch {
		case err == nil && t.limited(resp, body) && again:
			try-- // was refused, not tried; the total wait is what bounds this
			continue
		case try < maxTries && again && mayRepeat(req) && passing(resp, err):
			if err := t.pause(req.Context(), t.backoff(try, resp)); err != nil {
				return nil, err
			}
			continue
		}
		return resp, err
	}
}

// once sends the request and reads the whole answer, so that a connection that breaks in the middle is a failed try too.
func (t *transport) once(req *http.Request) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(req.Context(), tryTimeout)
	defer cancel()
	out := req.Clone(ctx)
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, nil, err
		}
		out.Body = body
	}
	// A redirect may lead anywhere; the token goes only to the API it is for.
	if t.token != "" && out.URL.Scheme == t.api.Scheme && out.URL.Host == t.api.Host {
		out.Header.Set("Authorization", "Bearer "+t.token)
	}
	resp, err := t.base.RoundTrip(out)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read the answer: %w", err)
	}
	if len(body) > maxAnswer {
		return nil, nil, errTooLarge
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, body, nil
}

var errTooLarge = fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)

// await returns when GitHub takes requests again, or an error if that is too late.
func (t *transport) await(ctx context.Context) error {
	t.mu.Lock()
	until, secondary := t.notBefore, t.reason
	t.mu.Unlock()
	wait := until.Sub(t.now())
	if wait <= 0 {
		return ctx.Err()
	}
	if !t.spend(wait) {
		return &RateLimitError{Until: until, Secondary: secondary, MaxWait: t.maxWait}
	}
	return t.sleep(ctx, wait)
}

// pause waits before a further try.
func (t *transport) pause(ctx context.Context, wait time.Duration) error {
	if !t.spend(wait) {
		return &RateLimitError{Until: t.now().Add(wait), Secondary: true, MaxWait: t.maxWait}
	}
	return t.sleep(ctx, wait)
}

// spend takes the wait from what the client may wait in its life, if there is so much left.
func (t *transport) spend(wait time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waited+wait > t.maxWait {
		return false
	}
	t.waited += wait
	return true
}

// limited notes what the answer says about limits, and reports whether it is a refusal because of one.
// Source: docs.github.com, "Rate limits for the REST API".
func (t *transport) limited(resp *http.Response, body []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	usedUp := resp.Header.Get("X-RateLimit-Remaining") == "0"
	reset, known := resetTime(resp.Header)
	// go-github would refuse further requests by this header instead of letting them wait here.
	resp.Header.Del("X-RateLimit-Reset")
	refused := resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusTooManyRequests
	after, asked := retryAfter(resp.Header, t.now())
	switch {
	case refused && asked:
		t.hold(t.now().Add(after), true)
	case usedUp && known:
		t.hold(reset, false)
	case refused && (resp.StatusCode == http.StatusTooManyRequests || isSecondary(body)):
		t.hold(t.now().Add(secondaryWait<<min(t.secondary, 6)), true)
		t.secondary++
	default:
		t.secondary = 0
		return false
	}
	return refused
}

// hold lets no request go before until. It never brings the moment closer.
func (t *transport) hold(until time.Time, secondary bool) {
	if until.After(t.notBefore) {
		t.notBefore, t.reason = until, secondary
	}
}

// resetTime is when the quota is full again. A second is added: GitHub's clock and ours differ.
func resetTime(h http.Header) (time.Time, bool) {
	seconds, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64)
	return time.Unix(seconds+1, 0), err == nil
}

// retryAfter is the wait that the answer asks for, at least a second.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	value := h.Get("Retry-After")
	if value == "" {
		return 0, false
	}
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil {
		return max(time.Duration(seconds)*time.Second, time.Second), true
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), time.Second), true
	}
	return secondaryWait, true
}

// isSecondary reads a refusal's text: GitHub tells a secondary limit from a missing permission in no other way.
func isSecondary(body []byte) bool {
	var answer struct {
		Message string `json:"message"`
		Doc     string `json:"documentation_url"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return false
	}
	return strings.Contains(answer.Message, "secondary rate limit") ||
		strings.Contains(answer.Doc, "secondary-rate-limits") || strings.HasSuffix(answer.Doc, "#abuse-rate-limits")
}

// mayRepeat reports requests that do the same done twice: what reads or removes, and editing a comment.
func mayRepeat(req *http.Request) bool {
	return req.Method != http.MethodPost || req.Context().Value(repeatable{}) != nil
}

// rewindable reports whether the body can be sent again.
func rewindable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

// passing reports failures that may be over soon.
func passing(resp *http.Response, err error) bool {
	if err != nil {
		return !errors.Is(err, errTooLarge)
	}
	switch resp.StatusCode {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
		http.StatusRequestTimeout:
		return true
	}
	return false
}

// backoff is the wait after the given try, from 1.
func (t *transport) backoff(try int, resp *http.Response) time.Duration {
	if resp != nil {
		if after, asked := retryAfter(resp.Header, t.now()); asked {
			return after
		}
	}
	wait := firstBackoff << (try - 1)
	return wait + t.jitter(wait/4)
}
