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
	// maxTries is the maximum number of times that a repeatable request is sent.
	maxTries = 4
	// firstBackoff doubles with each retry.
	firstBackoff = time.Second
	// secondaryWait is the wait after a secondary limit without a time; it doubles each time.
	// Source: docs.github.com, "Best practices for using the REST API", "Handle rate limit errors
	// appropriately".
	secondaryWait = time.Minute
	// tryTimeout limits one try, including the body.
	tryTimeout = time.Minute
	// maxAnswer limits a response of the API, in bytes. The largest one, a comparison, has the
	// patches of up to 300 files.
	maxAnswer = 32 << 20
)

// transport sends requests with the token, waits as GitHub asks, and retries. It works below
// go-github, whose own handling of limits returns errors instead of waiting.
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
	notBefore time.Time // GitHub accepts no request before
	secondary int       // consecutive secondary limits without a time
	reason    bool      // notBefore is because of a secondary limit
}

// repeatable marks, in a request's context, a POST that only reads.
type repeatable struct{}

// RoundTrip implements http.RoundTripper. It reads the whole body of the response into memory.
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
			try-- // a refusal is no try; the total wait limits this
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

// once sends the request and reads the whole response, so a connection that breaks in the middle is
// a failed try, too.
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
	// A redirect may lead anywhere; only the API gets the token.
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

// await waits until GitHub accepts requests again, or returns an error if that takes too long.
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

// pause waits before a retry.
func (t *transport) pause(ctx context.Context, wait time.Duration) error {
	if !t.spend(wait) {
		return &RateLimitError{Until: t.now().Add(wait), Secondary: true, MaxWait: t.maxWait}
	}
	return t.sleep(ctx, wait)
}

// spend reserves a part of the client's total wait, and reports whether enough is left.
func (t *transport) spend(wait time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waited+wait > t.maxWait {
		return false
	}
	t.waited += wait
	return true
}

// limited records the limits in the response, and reports whether it is a refusal because of one.
// Source: docs.github.com, "Rate limits for the REST API".
func (t *transport) limited(resp *http.Response, body []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	usedUp := resp.Header.Get("X-RateLimit-Remaining") == "0"
	reset, known := resetTime(resp.Header)
	// With this header, go-github would refuse further requests instead of letting them wait here.
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

// hold lets no request pass before until. It never shortens the wait.
func (t *transport) hold(until time.Time, secondary bool) {
	if until.After(t.notBefore) {
		t.notBefore, t.reason = until, secondary
	}
}

// resetTime returns when the quota is full again, plus a second, because GitHub's clock and ours
// differ.
func resetTime(h http.Header) (time.Time, bool) {
	seconds, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64)
	return time.Unix(seconds+1, 0), err == nil
}

// retryAfter returns the wait that the response asks for, at least a second.
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

// isSecondary reports whether the text of a refusal is about a secondary limit. Nothing else
// distinguishes it from a missing permission.
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

// mayRepeat reports whether a request has the same effect if it is sent twice: one that reads,
// removes or edits a comment.
func mayRepeat(req *http.Request) bool {
	return req.Method != http.MethodPost || req.Context().Value(repeatable{}) != nil
}

// rewindable reports whether the body can be sent again.
func rewindable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

// passing reports whether a failure is transient.
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

// backoff returns the wait after the given try, from 1.
func (t *transport) backoff(try int, resp *http.Response) time.Duration {
	if resp != nil {
		if after, asked := retryAfter(resp.Header, t.now()); asked {
			return after
		}
	}
	wait := firstBackoff << (try - 1)
	return wait + t.jitter(wait/4)
}
