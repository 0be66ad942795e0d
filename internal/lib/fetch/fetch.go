// Package fetch reads a file from a URL into memory: with retries, within a size and a time, and
// without revealing secrets in the URL.
package fetch

import (
	"cmp"
	"context"
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

	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Options configure Get. Max is required.
type Options struct {
	Max       int64             // the largest file, in bytes
	Header    http.Header       // sent to the URL's own host, not to others that it redirects to
	Known     Validators        // of a copy that the caller has
	Tries     int               // maximum number of attempts after transient failures; 0: 4
	Transport http.RoundTripper // nil: one with timeouts
	Delay     time.Duration     // before the first retry, then doubling; 0: a second
	Timeout   time.Duration     // of one request including its response; 0: ten minutes
	// Stall is the maximum time of a response below 1 KiB a second on average; 0: half a minute.
	Stall time.Duration
}

// Validators identify a version of a file to its server.
type Validators struct {
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"last_modified,omitempty"`
}

// File is a file as the server sent it.
type File struct {
	Data []byte
	Validators
}

// Shown returns the URL for display: without user, password, query and fragment, which may hold
// secrets. If source is not a URL, it returns otherwise.
func Shown(source, otherwise string) string {
	u, err := url.Parse(source)
	if err != nil {
		return otherwise
	}
	u.User = nil
	u.RawQuery, u.Fragment = "", ""
	return untrusted.Line(u.String())
}

const (
	defaultTries = 4
	maxRedirects = 5
	maxWait      = time.Minute // the longest Retry-After that is obeyed
)

var (
	// ErrNotModified means that the copy with the validators Known is up to date.
	ErrNotModified = errors.New("not modified")
	// ErrTooLarge begins the error of a file that is larger than Max.
	ErrTooLarge = errors.New("it is larger")

	errRedirect  = errors.New("it redirects away from https, or to something other than http or https")
	errRedirects = errors.New("it redirects too often")
	errTooSlow   = fmt.Errorf("the server sends less than %d bytes a second, and the request was given up", minRate)
	errTooLong   = errors.New("it took too long")
)

// transientError is a failure that may not recur on a retry.
type transientError struct {
	error
	after time.Duration // the server's Retry-After; 0: it had none
}

func (e *transientError) Unwrap() error { return e.error }

// Temporary reports whether a request that failed with err may succeed later.
func Temporary(err error) bool {
	var p *transientError
	return errors.As(err, &p)
}

// Get reads the file at a URL of http or https. Its errors do not name the URL, which may hold
// secrets. They are ErrNotModified, ErrTooLarge, a forbidden redirect, one that Temporary reports,
// a StatusError, or the end of ctx.
func Get(ctx context.Context, source string, o Options) (File, error) {
	client := &http.Client{Transport: o.Transport, CheckRedirect: o.checkRedirect}
	if client.Transport == nil {
		client.Transport = transport()
	}
	delay := cmp.Or(o.Delay, time.Second)
	for try := 1; ; try++ {
		file, err := o.once(ctx, client, source)
		if err == nil || errors.Is(err, ErrNotModified) {
			return file, err
		}
		if ctx.Err() != nil {
			return File{}, ctx.Err()
		}
		var passing *transientError
		slow := errors.Is(err, errTooSlow) || errors.Is(err, errTooLong) // a retry would take as long
		if !errors.As(err, &passing) || slow || try >= cmp.Or(o.Tries, defaultTries) || passing.after > maxWait {
			return File{}, err
		}
		select {
		case <-ctx.Done():
			return File{}, ctx.Err()
		case <-time.After(max(delay+rand.N(delay/4+1), passing.after)):
		}
		delay *= 2
	}
}

func (o Options) once(ctx context.Context, client *http.Client, source string) (File, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(o.Timeout, 10*time.Minute), errTooLong)
	defer cancel()
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, source, http.NoBody)
	if err != nil {
		return File{}, errors.New("it is not a URL") // the error would show credentials
	}
	req.Header = o.Header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("Accept", "application/json, text/plain;q=0.9, */*;q=0.1")
	req.Header.Set("User-Agent", "rollout")
	if o.Known.ETag != "" {
		req.Header.Set("If-None-Match", o.Known.ETag)
	}
	if o.Known.LastModified != "" {
		req.Header.Set("If-Modified-Since", o.Known.LastModified)
	}
	resp, err := client.Do(req)
	if err != nil && errors.Is(context.Cause(ctx), errTooLong) {
		return File{}, &transientError{error: errTooLong}
	}
	if err != nil {
		return File{}, connection(err)
	}
	defer resp.Body.Close()
	if err := status(resp, o.Known); err != nil {
		return File{}, err
	}
	body := &measured{Reader: resp.Body}
	stop := body.watch(cmp.Or(o.Stall, 30*time.Second), leave)
	defer stop()
	text, err := io.ReadAll(io.LimitReader(body, o.Max+1))
	if cause := context.Cause(ctx); err != nil && (errors.Is(cause, errTooSlow) || errors.Is(cause, errTooLong)) {
		return File{}, &transientError{error: cause}
	}
	if err != nil {
		return File{}, &transientError{error: fmt.Errorf("the answer broke off: %w", plainError(err))}
	}
	if int64(len(text)) > o.Max {
		return File{}, fmt.Errorf("%w than %d MiB", ErrTooLarge, o.Max>>20)
	}
	return File{text, Validators{ETag: resp.Header.Get("ETag"), LastModified: resp.Header.Get("Last-Modified")}}, nil
}

// minRate is the minimum speed of a server, in bytes a second. Even the slowest lines are faster.
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

// watch calls leave if the server sends less than minRate, averaged over window. It ends when stop
// is called.
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

// StatusError is a response that is neither the file nor a temporary failure.
type StatusError struct {
	Code   int
	status string // as the server wrote it
}

func (e *StatusError) Error() string { return "the server answers " + untrusted.Line(e.status) }

func status(resp *http.Response, known Validators) error {
	err := &StatusError{resp.StatusCode, resp.Status}
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
		return nil
	case code == http.StatusNotModified && known != Validators{}:
		return ErrNotModified
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

// checkRedirect rejects redirects to a weaker transport. It drops the Referer, because addresses
// may contain tokens, and the caller's header where the redirect leads to another host.
func (o Options) checkRedirect(req *http.Request, via []*http.Request) error {
	req.Header.Del("Referer")
	if req.URL.Host != via[0].URL.Host {
		for name := range o.Header {
			req.Header.Del(name)
		}
	}
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
