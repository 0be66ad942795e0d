package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/org/rollout-action/internal/cache"
	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/untrusted"
)

const (
	tries        = 4
	maxRedirects = 5
	maxWait      = time.Minute // the longest Retry-After that is obeyed
)

// get loads a registry from a URL, or from the cache if it is unchanged or the server cannot be reached.
func (o Options) get(ctx context.Context, source string) (*Registry, error) {
	u, err := url.Parse(source)
	if err != nil || u.Host == "" {
		return nil, diag.List{{File: "registry", Message: fmt.Sprintf("%q is not a URL", untrusted.Line(withoutUser(source)))}}
	}
	shown := withoutUser(source)
	kept := o.kept(source, shown)
	text, tag, err := o.request(ctx, source, shown, kept)
	notice := ""
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, errNotModified):
		text = kept.body
	case err != nil && kept.body != nil && isTransient(err):
		text = kept.body
		notice = fmt.Sprintf("%v; using the copy of %s", err, kept.at.UTC().Format("2006-01-02 15:04 UTC"))
	case err != nil:
		return nil, err
	}
	r, err := Parse(shown, text)
	if err != nil {
		return nil, err // so an invalid registry is not cached
	}
	r.Notice = notice
	if tag != nil && o.Cache != nil {
		if err := o.keep(source, shown, *tag, text); err != nil && r.Notice == "" {
			r.Notice = err.Error()
		}
	}
	return r, nil
}

func withoutUser(source string) string {
	u, err := url.Parse(source)
	if err != nil {
		return "the registry's URL"
	}
	u.User = nil
	u.RawQuery, u.Fragment = "", "" // queries may hold tokens
	return untrusted.Line(u.String())
}

// validators identify a version of a file to its server.
type validators struct {
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"last_modified,omitempty"`
}

// keptCopy is a cached registry; the zero value means that there is none.
type keptCopy struct {
	validators
	body []byte
	at   time.Time
}

func (o Options) key(source, shown string) cache.Key {
	return cache.Key{Kind: "registry", Text: source, About: shown}
}

func (o Options) kept(source, shown string) keptCopy {
	if o.Cache == nil {
		return keptCopy{}
	}
	file, err := o.Cache.ReadFile(o.key(source, shown))
	if err != nil {
		return keptCopy{}
	}
	head, body, found := bytes.Cut(file.Data, []byte("\n"))
	k := keptCopy{body: body, at: file.At}
	if !found || json.Unmarshal(head, &k.validators) != nil {
		return keptCopy{}
	}
	return k
}

func (o Options) keep(source, shown string, tag validators, text []byte) error {
	head, err := json.Marshal(tag)
	if err != nil {
		return err
	}
	return o.Cache.WriteFile(o.key(source, shown), append(append(head, '\n'), text...))
}

var (
	errNotModified = errors.New("not modified")
	errTooLarge    = fmt.Errorf("it is larger than %d MiB", maxSize>>20)
	errRedirect    = errors.New("it redirects away from https, or to something other than http or https")
	errRedirects   = errors.New("it redirects too often")
	errTooSlow     = fmt.Errorf("the server sends less than %d bytes a second, and the request was given up", minRate)
	errTooLong     = errors.New("it took too long")
)

// transientError is a failure that a retry may solve.
type transientError struct {
	error
	after time.Duration // when to retry, from the server's Retry-After; 0: it did not say
}

func (e *transientError) Unwrap() error { return e.error }

func isTransient(err error) bool {
	var p *transientError
	return errors.As(err, &p)
}

// request fetches the registry, with retries. If kept has validators, the error may be errNotModified.
func (o Options) request(ctx context.Context, source, shown string, kept keptCopy) ([]byte, *validators, error) {
	client := &http.Client{Transport: o.Transport, CheckRedirect: checkRedirect}
	if client.Transport == nil {
		client.Transport = transport()
	}
	delay := o.Delay
	if delay == 0 {
		delay = time.Second
	}
	most := tries
	if kept.body != nil {
		most = 2 // the kept copy will do
	}
	for try := 1; ; try++ {
		text, tag, err := o.once(ctx, client, source, kept)
		if err == nil || errors.Is(err, errNotModified) {
			return text, tag, err
		}
		var passing *transientError
		slow := errors.Is(err, errTooSlow) || errors.Is(err, errTooLong) // a retry would take as long
		again := errors.As(err, &passing) && !slow && try < most && ctx.Err() == nil && passing.after <= maxWait
		if !again {
			return nil, nil, o.failure(shown, err)
		}
		wait := max(delay+rand.N(delay/4+1), passing.after)
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(wait):
		}
		delay *= 2
	}
}

// failure adds the registry to the error; an error that is not transient becomes a diag.List.
func (o Options) failure(shown string, err error) error {
	if isTransient(err) || errors.Is(err, errTooLarge) {
		return fmt.Errorf("the registry %s cannot be loaded: %w", shown, err)
	}
	return diag.List{{File: shown, Message: "the registry cannot be loaded: " + untrusted.Line(err.Error())}}
}

func (o Options) once(ctx context.Context, client *http.Client, source string, kept keptCopy) ([]byte, *validators, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(o.Timeout, 10*time.Minute), errTooLong)
	defer cancel()
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, source, http.NoBody)
	if err != nil {
		return nil, nil, errors.New("it is not a URL") // the error would show credentials
	}
	req.Header.Set("Accept", "application/json, text/plain;q=0.9, */*;q=0.1")
	req.Header.Set("User-Agent", "rollout")
	if kept.ETag != "" {
		req.Header.Set("If-None-Match", kept.ETag)
	}
	if kept.LastModified != "" {
		req.Header.Set("If-Modified-Since", kept.LastModified)
	}
	resp, err := client.Do(req)
	if err != nil && errors.Is(context.Cause(ctx), errTooLong) {
		return nil, nil, &transientError{error: errTooLong}
	}
	if err != nil {
		return nil, nil, connection(err)
	}
	defer resp.Body.Close()
	if err := status(resp, kept); err != nil {
		return nil, nil, err
	}
	body := &measured{Reader: resp.Body}
	stop := body.watch(cmp.Or(o.Stall, 30*time.Second), leave)
	defer stop()
	text, err := io.ReadAll(io.LimitReader(body, maxSize+1))
	if cause := context.Cause(ctx); err != nil && (errors.Is(cause, errTooSlow) || errors.Is(cause, errTooLong)) {
		return nil, nil, &transientError{error: cause}
	}
	if err != nil {
		return nil, nil, &transientError{error: fmt.Errorf("the answer broke off: %w", plainError(err))}
	}
	if len(text) > maxSize {
		return nil, nil, errTooLarge
	}
	return text, &validators{ETag: resp.Header.Get("ETag"), LastModified: resp.Header.Get("Last-Modified")}, nil
}

// minRate is the least speed of a server, in bytes a second. Even the slowest lines are faster.
const minRate = 1 << 10

// measured counts the bytes of a response.
type measured struct {
	io.Reader
	read atomic.Int64
}

func (m *measured) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.read.Add(int64(n))
	return n, err
}

// watch calls leave if the server sends less than minRate, on average over window, until stop is called.
func (m *measured) watch(window time.Duration, leave context.CancelCauseFunc) (stop func()) {
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(window)
		defer tick.Stop()
		least, before := int64(window.Seconds()*minRate), int64(0)
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				now := m.read.Load()
				if now-before < least {
					leave(errTooSlow)
					return
				}
				before = now
			}
		}
	}()
	return sync.OnceFunc(func() { close(done) })
}

// connection classifies an error that occurred before there was a response.
func connection(err error) error {
	if errors.Is(err, errRedirect) || errors.Is(err, errRedirects) {
		return plainError(err)
	}
	return &transientError{error: plainError(err)}
}

// plainError returns err without the URL, which may contain credentials.
func plainError(err error) error {
	var ue *url.Error
	var ne net.Error
	switch {
	case errors.As(err, &ne) && ne.Timeout():
		return errors.New("it took too long")
	case errors.As(err, &ue):
		return ue.Err
	}
	return err
}

func status(resp *http.Response, kept keptCopy) error {
	err := fmt.Errorf("the server answers %s", untrusted.Line(resp.Status))
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
		return nil
	case code == http.StatusNotModified && kept.body != nil:
		return errNotModified
	case code == http.StatusTooManyRequests, code == http.StatusRequestTimeout, code >= 500:
		return &transientError{error: err, after: retryAfter(resp.Header.Get("Retry-After"))}
	}
	return err
}

// retryAfter parses a Retry-After header; 0 means that it is missing or not valid.
func retryAfter(value string) time.Duration {
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil {
		return max(0, time.Duration(seconds)*time.Second)
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// checkRedirect rejects redirects to a weaker transport, and drops the Referer: addresses may contain tokens.
func checkRedirect(req *http.Request, via []*http.Request) error {
	req.Header.Del("Referer")
	from := via[len(via)-1].URL.Scheme
	switch to := req.URL.Scheme; {
	case len(via) > maxRedirects:
		return errRedirects
	case to != "https" && (to != "http" || from != "http"):
		return errRedirect
	}
	return nil
}

func transport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.DialContext = (&net.Dialer{Timeout: 15 * time.Second}).DialContext
	t.TLSHandshakeTimeout = 15 * time.Second
	t.ResponseHeaderTimeout = 30 * time.Second
	return t
}
