package gitlab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/lib/bounded"
)

const (
	tokenHeader = "Private-Token"
	apiVersion  = "api/v4/"

	maxTries     = 6
	tryTimeout   = time.Minute
	firstLimited = 100 * time.Millisecond // doubles with each refusal that names no time
	firstOutage  = 700 * time.Millisecond // grows by itself with each failure
	// maxWait is the longest wait for a rate limit. GitLab's limits are per minute.
	maxWait = 5 * time.Minute
	// maxAnswer limits an answer, in bytes. The largest is a page of notes.
	maxAnswer = 128 << 20
)

// statusError is an error response of the API.
type statusError struct {
	status  int
	message string // of the body; untrusted
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.status, http.StatusText(e.status), e.message)
}

// notFound reports whether the API answered 404.
func notFound(err error) bool {
	var answer *statusError
	return errors.As(err, &answer) && answer.status == http.StatusNotFound
}

// answer is a response of the API.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// client sends requests to GitLab's REST API with a token. It repeats requests that GitLab refuses
// because of a rate limit or fails to answer.
type client struct {
	http  *http.Client
	base  *url.URL // ends with "/api/v4/"
	token string
	now   func() time.Time
	sleep func(context.Context, time.Duration) error
}

func newClient(apiURL, token string) (*client, error) {
	base, err := url.Parse(strings.TrimRight(apiURL, "/") + "/")
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(base.Path, apiVersion) {
		base.Path += apiVersion
	}
	c := &client{base: base, token: token, now: time.Now, sleep: sleep}
	c.http = &http.Client{Timeout: tryTimeout, CheckRedirect: c.redirect, Transport: &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     30 * time.Second,
		ForceAttemptHTTP2:   true,
	}}
	return c, nil
}

// redirect follows few redirects, and removes the token for other hosts.
func (c *client) redirect(req *http.Request, via []*http.Request) error {
	if len(via) >= 5 {
		return fmt.Errorf("stopped after %d redirects", len(via))
	}
	if req.URL.Scheme != c.base.Scheme || req.URL.Host != c.base.Host {
		req.Header.Del(tokenHeader)
	}
	return nil
}

// do sends a request to a path below the API, with body as JSON if it is not nil, and decodes the
// answer into a value unless that is nil. Errors are a *statusError, a *url.Error or of the
// context.
func (c *client) do(ctx context.Context, method, path string, body, into any) (http.Header, error) {
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	for try := 1; ; try++ {
		got, err := c.once(ctx, method, path, sent)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		if wait, again := c.again(got, try); again {
			if err := c.sleep(ctx, wait); err != nil {
				return nil, err
			}
			continue
		}
		switch got.status {
		case http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent, http.StatusNotModified:
		default:
			return nil, &statusError{got.status, message(got.body)}
		}
		if into != nil {
			if err := bounded.Unmarshal(got.body, into); err != nil {
				return nil, fmt.Errorf("read the answer: %w", err)
			}
		}
		return got.header, nil
	}
}

// once sends a request and reads the whole answer.
func (c *client) once(ctx context.Context, method, path string, body []byte) (answer, error) {
	target, err := c.base.Parse(path)
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set(tokenHeader, c.token)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "rollout")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return answer{}, &url.Error{Op: method, URL: target.Redacted(), Err: err}
	case len(text) > maxAnswer:
		return answer{}, fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)
	}
	return answer{resp.StatusCode, resp.Header, text}, nil
}

// again reports whether to repeat a request after a try, from 1, and how long to wait before it.
// Source: docs.gitlab.com, "User and IP rate limits", "Response headers".
func (c *client) again(got answer, try int) (time.Duration, bool) {
	if try == maxTries {
		return 0, false
	}
	switch {
	case got.status == http.StatusTooManyRequests:
		wait := firstLimited << (try - 1)
		if reset, err := strconv.ParseInt(got.header.Get("RateLimit-Reset"), 10, 64); err == nil {
			wait = max(firstLimited, time.Unix(reset, 0).Sub(c.now()))
		}
		return wait + rand.N(300*time.Millisecond), wait <= maxWait
	case got.status >= http.StatusInternalServerError:
		return time.Duration(try) * (firstOutage + rand.N(200*time.Millisecond)), true
	}
	return 0, false
}

// message returns the message in the body of an error. The body is JSON without a fixed form:
// texts, or lists of them by field. Source: docs.gitlab.com, "REST API troubleshooting",
// "Validation errors".
func message(body []byte) string {
	if len(bytes.TrimSpace(body)) == 0 {
		return ""
	}
	var raw any
	if bounded.Unmarshal(body, &raw) != nil {
		return fmt.Sprintf("failed to parse unknown error format: %s", body)
	}
	return flatten(raw)
}

func flatten(raw any) string {
	var parts []string
	switch raw := raw.(type) {
	case string:
		return raw
	case []any:
		for _, v := range raw {
			parts = append(parts, flatten(v))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		for k, v := range raw {
			parts = append(parts, fmt.Sprintf("{%s: %s}", k, flatten(v)))
		}
		slices.Sort(parts)
		return strings.Join(parts, ", ")
	}
	return fmt.Sprintf("failed to parse unexpected error type: %T", raw)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
