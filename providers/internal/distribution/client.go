package distribution

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const (
	defaultDialTimeout = 10 * time.Second
	// responseTimeout is how long a registry that is connected may think about an answer.
	responseTimeout = time.Minute
	defaultAttempts = 3
	// firstPause is how long the first pause between attempts is; each other is three times the one
	// before.
	firstPause = 300 * time.Millisecond
	// maxPause bounds how long a registry can make its clients wait.
	maxPause = 30 * time.Second
)

// Options configure a Client.
type Options struct {
	// DialTimeout limits how long connecting to a registry may take, TLS included; 0 is 10 s.
	DialTimeout time.Duration
	// Attempts is how often a registry is asked that answers that something is wrong with it; 0 is
	// 3.
	Attempts int
	// PlainHTTP reports whether a host may be spoken to without TLS, if it has none. If it is nil,
	// that is what go-containerregistry allows: private addresses and names that end in .local.
	PlainHTTP func(host string) bool
	// Pause waits before the attempt after the nth, at least for a time that the registry asks for;
	// nil: longer and longer.
	Pause func(ctx context.Context, nth int, atLeast time.Duration) error
}

// Client asks registries. It is safe for concurrent use.
type Client struct {
	attempts  int
	pause     func(ctx context.Context, nth int, atLeast time.Duration) error
	transport http.RoundTripper
	busy      *busyHosts
}

// NewClient returns a client.
func NewClient(o Options) *Client {
	t := http.DefaultTransport.(*http.Transport).Clone() // with the proxies of the environment
	dial := cmp.Or(o.DialTimeout, defaultDialTimeout)
	t.DialContext = (&net.Dialer{Timeout: dial, KeepAlive: 30 * time.Second}).DialContext
	t.TLSHandshakeTimeout = dial
	t.ResponseHeaderTimeout = responseTimeout
	c := &Client{attempts: cmp.Or(o.Attempts, defaultAttempts), pause: o.Pause, busy: &busyHosts{}}
	if c.pause == nil {
		c.pause = Pause
	}
	c.transport = notingTransport{next: t, busy: c.busy, plain: o.PlainHTTP}
	return c
}

// Remote returns the options for one call of package remote. Calls are made with Attempt.
func (c *Client) Remote(ctx context.Context) []remote.Option {
	return []remote.Option{
		remote.WithContext(ctx),
		remote.WithTransport(c.transport),
		remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithUserAgent("rollout"),
		// The library sleeps between its attempts whatever becomes of ctx, so attempts are made
		// here.
		remote.WithRetryBackoff(remote.Backoff{Steps: 1}),
	}
}

// Transport returns the connections of the client.
func (c *Client) Transport() http.RoundTripper { return c.transport }

// Attempt calls ask until it succeeds, or fails with an error that is not transient. Errors are
// *Error, of the registry.
func Attempt[T any](ctx context.Context, c *Client, at name.Registry, ask func() (T, error)) (T, error) {
	var none T
	for nth := 1; ; nth++ {
		out, err := ask()
		if err == nil {
			return out, nil
		}
		wait := c.busy.wait(at.RegistryStr())
		known := Classify(at, err)
		if wait > maxPause {
			known.text += fmt.Sprintf(" (it asks to wait for %s)", wait.Round(time.Second))
		}
		if ctx.Err() != nil || nth == c.attempts || !isTransient(err) || wait > maxPause || c.pause(ctx, nth, wait) != nil {
			return none, known
		}
	}
}

// Pause waits before the attempt after the nth.
func Pause(ctx context.Context, nth int, atLeast time.Duration) error {
	long := firstPause
	for range nth - 1 {
		long *= 3
	}
	timer := time.NewTimer(max(long, atLeast))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Host returns a registry's name for messages. The library has another name for Docker Hub.
func Host(at name.Registry) string {
	if host := at.RegistryStr(); host != name.DefaultRegistry {
		return host
	}
	return "docker.io"
}

// IsInvalid reports whether a host cannot exist. Source: RFC 6761, 6.4.
func IsInvalid(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(withoutPort(host), "."))
	return host == "invalid" || strings.HasSuffix(host, ".invalid")
}

// IsLoopback reports whether a host is this machine by its name: localhost, 127.0.0.0/8 and ::1.
func IsLoopback(host string) bool {
	host = strings.ToLower(withoutPort(host))
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.IsLoopback()
}

func withoutPort(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return host
}

// notingTransport notes when registries ask to be left alone, and refuses requests that must not be
// sent without TLS.
type notingTransport struct {
	next  http.RoundTripper
	busy  *busyHosts
	plain func(host string) bool
}

// RoundTrip implements http.RoundTripper.
func (t notingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.plain != nil && req.URL.Scheme == "http" && !t.plain(req.URL.Host) {
		return nil, &plainError{req.URL.Host}
	}
	resp, err := t.next.RoundTrip(req)
	if err == nil && (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable) {
		t.busy.note(req.URL.Host, resp.Header.Get("Retry-After"))
	}
	return resp, err
}

// plainError is the error of a request that would be sent without TLS.
type plainError struct{ host string }

func (e *plainError) Error() string {
	return e.host + " does not answer with TLS, and HTTP without it is not allowed"
}

// busyHosts remembers until when registries asked to be left alone.
type busyHosts struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// note reads a Retry-After. Source: RFC 9110, 10.2.3.
func (b *busyHosts) note(host, after string) {
	until, err := http.ParseTime(after)
	if seconds, notNumber := strconv.ParseUint(after, 10, 31); notNumber == nil {
		until, err = time.Now().Add(time.Duration(seconds)*time.Second), nil
	}
	if err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until == nil {
		b.until = map[string]time.Time{}
	}
	b.until[host] = until
}

func (b *busyHosts) wait(host string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	until, ok := b.until[host]
	if !ok {
		return 0
	}
	return max(0, time.Until(until))
}
